"""Bakes out of Blender: a process that can be stopped, killed, gone on with, branched."""

from __future__ import annotations

import os
import signal
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runnel.cache import Cache
from tests.blender.conftest import runnel
from tests.blender.shots import begin, bent_arm, until

FRAMES = 8


@pytest.fixture
def shot(addon: Any, bpy: Any, tmp_path: Path) -> Iterator[Any]:
    """A saved file: a block of 512 particles falls on a moving arm, in a box."""
    from blender_addon import worker

    scene = bpy.context.scene
    scene.frame_end = FRAMES
    bent_arm(bpy, length=0.8, width=0.15, last=FRAMES, angle=0.7)
    bpy.ops.object.select_all(action="DESELECT")
    bpy.ops.mesh.primitive_cube_add(size=0.4, location=(0, 0, 0.9))
    bpy.context.object.name = "Water"
    bpy.ops.runnel.quick_liquid(particles=512)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "shot.blend"))
    yield bpy
    worker.stop_all()


def system_of(bpy: Any) -> Any:
    return bpy.context.scene.runnel.active_system()


def task_of(bpy: Any) -> Any:
    from blender_addon import bake

    return bake.task(system_of(bpy).uid)


def files(folder: Path) -> dict[str, dict[str, bytes]]:
    """All channels of all frames, bytes as on disk. Headers tell times, which always differ."""
    found = {}
    for path in sorted((folder / "frames").glob("frame_*.npz")):
        with zipfile.ZipFile(path) as pack:
            channels = [name for name in pack.namelist() if name != "runnel.header.npy"]
            assert any(name.startswith("position.") for name in channels)
            found[path.name] = {name: pack.read(name) for name in channels}
    return found


def test_a_bake_is_what_the_command_line_makes_byte_by_byte(shot: Any, tmp_path: Path) -> None:
    """In background, through the operator; a finished take is left alone."""
    assert shot.ops.runnel.bake() == {"FINISHED"}
    system = system_of(shot)
    cache = system.cache_path()
    assert cache == tmp_path / "runnel_cache" / "Liquid" / "take_001"
    assert Cache.open(cache).frames() == list(range(1, FRAMES + 1))
    arm_shape = Cache.open(cache).scene["collider"][0]["shape"]["mesh"]["file"]
    assert arm_shape.endswith("frame_####.ply")
    runnel("run", str(cache.with_suffix(".json")), "--out", str(tmp_path / "cli"), "--quiet")
    assert files(cache) == files(tmp_path / "cli")
    assert len(files(cache)) == FRAMES
    assert system.display.points is not None
    written = (cache / "manifest.json").stat().st_mtime_ns
    assert shot.ops.runnel.bake() == {"FINISHED"}
    assert "up to date" in task_of(shot).message
    assert (cache / "manifest.json").stat().st_mtime_ns == written


def test_stop_reload_and_go_on(shot: Any, tmp_path: Path) -> None:
    """Stopped in the middle; after Blender came back the rest is as if nothing had happened."""
    from blender_addon.deliver import playback

    shot.context.preferences.edit.use_global_undo = True
    shot.ops.ed.undo_push(message="before the bake")
    task = begin(shot)
    until(task, lambda: task.job.frames_done >= 2)
    task.job.pause()  # a quick machine would be done before the rest of this
    assert system_of(shot).display.points is not None  # frames show while it runs
    playback.refresh(shot.context.scene)
    shot.ops.ed.undo_push(message="something else")
    shot.ops.ed.undo()
    assert system_of(shot).display.points is None
    have = task.job.frames_done
    task.job.go_on()
    until(task, lambda: task.job.frames_done > have)
    assert system_of(shot).display.points is not None  # and again after an undo
    asked = time.monotonic()
    assert shot.ops.runnel.stop() == {"FINISHED"}
    assert task.ended  # free at once; the process ends its step and writes where it was
    assert time.monotonic() - asked < 1.0
    assert task.message.startswith("Stopped.")
    until(task, lambda: not task.winding_up)
    assert task.job.status == 130
    assert not task.failed
    have = Cache.open(system_of(shot).cache_path()).frames()
    assert 4 <= len(have) < FRAMES
    shot.ops.wm.save_mainfile()
    shot.ops.wm.read_factory_settings(use_empty=True)
    shot.ops.wm.open_mainfile(filepath=str(tmp_path / "shot.blend"))
    assert task_of(shot) is None  # nothing of a bake is kept
    assert shot.ops.runnel.bake() == {"FINISHED"}
    cache = system_of(shot).cache_path()
    assert Cache.open(cache).frames() == list(range(1, FRAMES + 1))
    runnel("run", str(cache.with_suffix(".json")), "--out", str(tmp_path / "cli"), "--quiet")
    assert files(cache) == files(tmp_path / "cli")


def test_a_bake_after_a_stop_waits_for_the_process_before(shot: Any) -> None:
    """Which is held still here, as in a long step; what was stopped meanwhile waits for nothing."""
    from blender_addon import bake
    from runnel.errors import RunnelError

    first = begin(shot)
    until(first, lambda: first.job.frames_done >= 2)
    with pytest.raises(RunnelError, match="being baked already"):
        bake.Task(system_of(shot))
    os.kill(first.job.pid, signal.SIGSTOP)
    first.stop()
    first.job._process.send_signal(signal.SIGSTOP)  # a stop wakes what is paused
    for _ in range(2):
        task = begin(shot)
        assert task.poll()
        assert task.waiting
        assert not task.exporting
        assert first.winding_up
        with pytest.raises(RuntimeError, match="wait a moment"):
            shot.ops.runnel.delete_take()
        task.stop()
        assert task.ended
        assert task.winding_up
        with pytest.raises(RuntimeError, match="wait a moment"):
            shot.ops.runnel.delete_take()
    task = begin(shot)
    os.kill(first.job.pid, signal.SIGCONT)
    until(task, lambda: task.job is not None)
    assert first.job.status == 130
    assert "--resume" in task.job.arguments
    task.stop()


class Pressed:
    """Stands for the operator of the Bake button, which Blender alone can make."""

    def __init__(self, task: Any) -> None:
        from blender_addon.operators import RUNNEL_OT_bake

        self._uid, self._timer, self._operator = task.uid, None, RUNNEL_OT_bake

    def __call__(self, bpy: Any, kind: str, playing: bool = False) -> set[str]:
        context = SimpleNamespace(
            window_manager=SimpleNamespace(event_timer_remove=lambda timer: None),
            screen=SimpleNamespace(is_animation_playing=playing),
            evaluated_depsgraph_get=bpy.context.evaluated_depsgraph_get,
        )
        return self._operator.modal(self, context, SimpleNamespace(type=kind, value="PRESS"))

    def _over(self, context: Any, task: Any) -> set[str]:
        return self._operator._over(self, context, task)

    def report(self, kind: set[str], text: str) -> None:
        pass


def test_esc_ends_a_bake_with_that_very_event(shot: Any) -> None:
    """While Blender is read, which goes on in short slices, and while the process is held still, as
    in a step that takes for ever. Playing the animation is ended first, by Blender itself."""
    from blender_addon import bake

    scene = shot.context.scene
    scene.frame_end = 100_000
    scene.frame_set(3)
    shot.data.objects["Arm"].hide_viewport = True
    task = bake.Task(system_of(shot))
    task.begin(shot.context)
    press = Pressed(task)
    start = time.monotonic()
    assert press(shot, "TIMER") == {"RUNNING_MODAL"}
    assert press(shot, "A") == {"RUNNING_MODAL"}  # nothing else is done meanwhile
    assert press(shot, "ESC") == {"FINISHED"}
    assert time.monotonic() - start < 1.0
    assert task.ended
    assert (task.seen, task.job) == (None, None)
    assert scene.frame_current == 3  # all is as it was
    assert shot.data.objects["Arm"].hide_viewport
    assert not list((task.home / "meshes").glob(".*"))
    scene.frame_end = FRAMES
    task = begin(shot)
    press = Pressed(task)
    until(task, lambda: task.job.frames_done >= 1)
    task.job._process.send_signal(signal.SIGSTOP)
    assert press(shot, "A") == {"PASS_THROUGH"}
    assert press(shot, "ESC", playing=True) == {"PASS_THROUGH"}
    assert not task.ended
    start = time.monotonic()
    assert press(shot, "ESC") == {"FINISHED"}
    assert time.monotonic() - start < 1.0
    assert task.ended
    assert task.winding_up
    task.job._process.send_signal(signal.SIGCONT)
    until(task, lambda: not task.winding_up)
    assert not task.failed


def test_progress_never_goes_back() -> None:
    """Frames are written while the next one is simulated, and told when they are on disk."""
    from blender_addon.worker import Progress

    progress = Progress()
    seen = []
    for kind, frame, share in (("frame", 1, 1), ("step", 2, 0.5), ("step", 3, 0.25),
                               ("frame", 2, 1), ("step", 3, 0.5), ("frame", 3, 1)):  # fmt: skip
        progress.take({"event": kind, "frame": frame, "last": 4, "share": share}, first=1)
        seen.append((progress.frame, progress.share))
    assert seen == sorted(seen)
    assert seen[-1] == (3, 0.75)


def test_a_changed_setting_makes_a_new_take_and_a_branch_shares_frames(shot: Any) -> None:
    from blender_addon import fingerprint, takes

    scene, system = shot.context.scene, system_of(shot)
    scene.frame_end = 4
    assert shot.ops.runnel.bake() == {"FINISHED"}
    before = files(system.cache_path())
    assert not fingerprint.changed(system)
    system.fluids[0].viscosity = 5.0
    fingerprint._looks.clear()
    assert fingerprint.changed(system)
    assert files(system.cache_path()) == before  # stale, not gone
    scene.frame_set(2)
    assert shot.ops.runnel.bake(mode="BRANCH") == {"FINISHED"}
    assert task_of(shot).errors == []
    assert (system.take, takes.names(system)) == ("take_002", ["take_001", "take_002"])
    branch = files(system.cache_path())
    shared = [name for name in branch if branch[name] == before[name]]
    assert shared == ["frame_000001.npz", "frame_000002.npz"]
    scene.frame_end = 2
    system.fluids[0].viscosity = 8.0
    assert shot.ops.runnel.bake() == {"FINISHED"}
    assert system.take == "take_003"
    system.fluids[0].viscosity = 9.0
    assert shot.ops.runnel.bake(mode="REPLACE") == {"FINISHED"}
    assert system.take == "take_003"
    assert Cache.open(system.cache_path()).scene["fluid"][0]["viscosity"] == 9.0
    shot.ops.runnel.take(take="take_001")
    assert files(system.cache_path()) == before
    assert not system.display.failed
    shot.ops.runnel.delete_take()
    assert takes.names(system) == ["take_002", "take_003"]
    assert (system.home() / "meshes").is_dir()


def test_a_crash_of_the_worker_is_told_and_costs_nothing(shot: Any) -> None:
    from blender_addon import takes
    from runnel.errors import RunnelError

    task = begin(shot)
    until(task, lambda: task.job.frames_done >= 1)
    with pytest.raises(RunnelError, match=f"process {task.job.pid}"):
        takes.check_lock(task.home, "take_001")  # as another Blender would
    os.kill(task.job.pid, signal.SIGKILL)
    until(task, lambda: task.ended or task.job.status is not None)
    assert task.failed
    assert "SIGKILL" in task.errors[-1]
    takes.check_lock(task.home, "take_001")
    assert shot.ops.runnel.show_log() == {"FINISHED"}
    assert '"event": "frame"' in shot.data.texts["Runnel Liquid log"].as_string()
    system_of(shot).device = "no such device"
    with pytest.raises(RuntimeError, match="no such device"):
        shot.ops.runnel.bake()
    assert Cache.open(system_of(shot).cache_path()).frames()


def test_pause_holds_the_process_still(shot: Any) -> None:
    task = begin(shot)
    until(task, lambda: task.job.frames_done >= 1)
    assert shot.ops.runnel.pause() == {"FINISHED"}
    state = Path(f"/proc/{task.job.pid}/stat")
    until(task, lambda: state.read_text().split(")")[1].split()[0] == "T", 5.0)
    assert shot.ops.runnel.pause() == {"FINISHED"}
    until(task, lambda: state.read_text().split(")")[1].split()[0] != "T", 5.0)
    shot.ops.runnel.pause()
    assert shot.ops.runnel.stop() == {"FINISHED"}  # also out of a pause
    until(task, lambda: not task.winding_up, 20.0)
    assert not task.failed


def test_core_refusals_name_the_object(shot: Any) -> None:
    shot.data.objects["Water"].runnel.role = "EMITTER"
    with pytest.raises(RuntimeError, match=r"Water: .*velocity"):
        shot.ops.runnel.bake()
    assert task_of(shot).blamed == "Water"


def test_refusals_of_the_process_name_the_object_too(shot: Any) -> None:
    """What shows only when the scene is filled."""
    water = shot.data.objects["Water"]
    water.scale = (0.1, 0.1, 0.1)
    shot.ops.mesh.primitive_uv_sphere_add(radius=0.06, location=(0.4, 0, 0.5))
    shot.context.object.name, shot.context.object.runnel.role = "Drop", "FLUID"
    system_of(shot).spacing = 0.2
    with pytest.raises(RuntimeError, match=r"'Drop'\.spacing"):
        shot.ops.runnel.bake()
    assert task_of(shot).blamed == "Drop"


def test_two_systems_bake_side_by_side_and_bodies_start_from_rest(shot: Any) -> None:
    """The second one holds a crate that floats; its motion is no animation to the next bake."""
    from blender_addon import bake, properties

    scene = shot.context.scene
    scene.frame_end = 4
    first = task = begin(shot)
    second = properties.add_system(scene, "Pool")
    second.spacing = 0.05
    shot.ops.mesh.primitive_cube_add(size=0.5, location=(5, 0, 0.25))
    shot.context.object.runnel.role = "FLUID"
    shot.context.object.runnel.system = second.uid
    shot.ops.mesh.primitive_cube_add(size=0.3, location=(5, 0, 1.0))
    crate = shot.context.object
    crate.name, crate.runnel.role, crate.runnel.system = "Crate", "RIGID", second.uid
    other = begin(shot)
    assert {t.home.name for t in (first, other)} == {"Liquid", "Pool"}
    until(task, lambda: task.ended)
    until(other, lambda: other.ended)
    assert not first.failed
    assert not other.failed
    colliders = {
        name: [part["name"] for part in Cache.open(t.home / "take_001").scene["collider"]]
        for name, t in (("Liquid", first), ("Pool", other))
    }
    assert colliders == {"Liquid": ["Arm"], "Pool": ["Crate"]}
    scene.frame_set(4)
    shot.context.view_layer.update()
    assert crate.matrix_world.translation.z < 0.98  # it has fallen
    assert bake.run(shot.context, bake.Task(second)).message.endswith("up to date.")


def test_unsaved_moved_and_saved_elsewhere(addon: Any, bpy: Any, tmp_path: Path) -> None:
    import shutil

    from blender_addon import properties

    system = properties.add_system(bpy.context.scene)
    with pytest.raises(RuntimeError, match=r"Save the \.blend first"):
        bpy.ops.runnel.bake()
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir(), new.mkdir()
    bpy.ops.wm.save_as_mainfile(filepath=str(old / "shot.blend"))
    system = bpy.context.scene.runnel.active_system()
    take = old / "runnel_cache" / "Liquid" / "take_001"
    take.mkdir(parents=True)
    system.last_home, system.take = str(take.parent), "take_001"
    bpy.ops.wm.save_mainfile()
    assert system.cache_path() == take
    bpy.ops.wm.save_as_mainfile(filepath=str(new / "shot.blend"))
    system = bpy.context.scene.runnel.active_system()
    assert system.cache_path() == take  # shown from where it was
    assert system.home() == new / "runnel_cache" / "Liquid"  # baked beside the new file
    shutil.move(str(old), str(tmp_path / "moved"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "moved" / "shot.blend"))
    system = bpy.context.scene.runnel.active_system()
    assert system.cache_path() == tmp_path / "moved" / "runnel_cache" / "Liquid" / "take_001"
