"""Runs that nobody watches: killed, out of disk, out of memory; every one goes on as if it had not
happened."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import runnel
from runnel.cache import Cache
from runnel.cli import main
from runnel.cli.memory import resident_bytes
from runnel.errors import RunnelError, SceneError
from runnel.scene import Scene, example, example_names
from runnel.simulation import Simulation

CORE = Path(runnel.__file__).parents[1]


def write_scene(folder: Path, frames: int = 12, speed: float = 2.0) -> Path:
    """A stream of water that fills a tank: every frame is larger than the one before."""
    pipe = {"cylinder": {"start": [0.3, 0.3, 0.9], "end": [0.3, 0.3, 1.0], "radius": 0.15}}
    hollow = {"box": {"min": [0, 0, 0], "max": [0.6, 0.6, 1.2]}}
    jet = {"name": "jet", "fluid": "water", "kind": "emitter", "shape": pipe, "spacing": 0.03}
    data = {
        "name": "stream",
        "frames": [1, frames],
        "seed": 3,
        "solver": {"time_step": 0.01, "iterations": [3, 3]},
        "fluid": [{"name": "water"}],
        "source": [jet | {"velocity": [0, 0, -speed], "jitter": 0.1}],
        "collider": [{"name": "tank", "mode": "inside", "shape": hollow}],
    }
    path = folder / "stream.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def command(path: Path, out: Path, *more: str) -> list[str]:
    return ["run", str(path), "--out", str(out), "--quiet", *more]


def start(words: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "runnel", *words],
        env={**os.environ, "PYTHONPATH": str(CORE)},
        stderr=subprocess.PIPE,
        text=True,
    )


def assert_same_shot(a: Path, b: Path) -> None:
    left, right = Cache.open(a), Cache.open(b)
    assert left.frames() == right.frames()
    assert_same_frames(left, right)


def assert_same_frames(left: Cache, right: Cache) -> None:
    """All that the left has."""
    for frame in left.frames():
        mine, other = left.read(frame), right.read(frame)
        assert mine.keys() == other.keys()
        for name, values in mine.items():
            np.testing.assert_array_equal(values, other[name])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A scene, and the cache of a run that was left alone."""
    folder = tmp_path_factory.mktemp("unattended")
    path = write_scene(folder)
    assert main(command(path, folder / "whole")) == 0
    return path, folder / "whole"


# --- kill -9 --------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
def test_a_killed_run_goes_on_bit_by_bit(whole: tuple[Path, Path], tmp_path: Path) -> None:
    """Killed three times, wherever that falls; the log tells of each start."""
    path, alone = whole
    out = tmp_path / "cache"
    words = command(path, out, "--resume", "--checkpoint", "2")
    for frame, wait in ((3, 0.0), (6, 0.02), (9, 0.05)):
        process = start(words)
        deadline = time.monotonic() + 60
        while not (out / "frames" / f"frame_{frame:06d}.npz").exists():
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.001)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        cache = Cache.open(out)
        assert cache.verify(finite=True) == []
        assert cache.last_frame is not None
        assert cache.last_frame >= frame - 1
    assert main(words) == 0
    assert_same_shot(out, alone)
    assert not list(out.rglob("*.tmp"))
    assert (out / "run.log").read_text().count("particles at the start") == 4


# --- lost manifest --------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [None, b"", b'{"format": "runnel-cache"'])
def test_a_lost_manifest_costs_no_frame(
    whole: tuple[Path, Path], tmp_path: Path, left: bytes | None
) -> None:
    """Deleted, or damaged: --resume makes it anew, and writes no frame that is there again."""
    path, alone = whole
    out = Path(shutil.copytree(alone, tmp_path / "cache"))
    before = {file: file.stat().st_mtime_ns for file in (out / "frames").iterdir()}
    (out / "manifest.json").unlink()
    if left is not None:
        (out / "manifest.json").write_bytes(left)
    assert main(command(path, out, "--resume")) == 0
    assert {file: file.stat().st_mtime_ns for file in (out / "frames").iterdir()} == before
    assert_same_shot(out, alone)
    assert Cache.open(out).manifest.frames == Cache.open(alone).manifest.frames
    assert "lost manifest made anew" in (out / "run.log").read_text()


def test_a_lost_manifest_and_a_damaged_frame(whole: tuple[Path, Path], tmp_path: Path) -> None:
    path, alone = whole
    out = Path(shutil.copytree(alone, tmp_path / "cache"))
    (out / "manifest.json").unlink()
    frame = Cache.open(alone).frame_path(7).name
    (out / "frames" / frame).write_bytes(b"PK")
    assert main(command(path, out, "--resume")) == 0
    assert_same_shot(out, alone)


def test_frames_without_a_manifest_are_not_replaced_unasked(
    whole: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither by a new run nor by that of another scene."""
    path, alone = whole
    out = Path(shutil.copytree(alone, tmp_path / "cache"))
    (out / "manifest.json").unlink()
    before = {file.name: file.read_bytes() for file in (out / "frames").iterdir()}
    assert main(command(path, out)) == 1
    assert "--resume" in capsys.readouterr().err
    other = command(path, out, "--resume", "--set", "fluid.water.density=800")
    assert main(other) == 1
    assert "frame_000001.npz is of another scene" in capsys.readouterr().err
    assert {file.name: file.read_bytes() for file in (out / "frames").iterdir()} == before
    assert main(command(path, out, "--overwrite", "--frames", "1-2")) == 0
    assert Cache.open(out).frames() == [1, 2]


# --- full disk ------------------------------------------------------------------------------------


def test_files_that_cannot_grow_stop_the_run(
    whole: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The system refuses larger files, as a quota does: frames before are whole, and it goes on."""
    path, alone = whole
    out = tmp_path / "cache"
    sizes = {frame: Cache.open(alone).entry(frame).bytes for frame in range(1, 13)}
    limit = max(sizes[frame] for frame in range(1, 7)) + 100
    bad = min(frame for frame in sizes if sizes[frame] > limit)
    write, usual = Cache.write, resource.getrlimit(resource.RLIMIT_FSIZE)

    def limited(*args: Any) -> Any:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, usual[1]))  # not for the compiler's files
        try:
            return write(*args)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, usual)

    monkeypatch.setattr(Cache, "write", limited)
    assert main(command(path, out, "--checkpoint", "0")) == 1
    assert f"frame_{bad:06d}.npz: cannot be written" in capsys.readouterr().err
    cache = Cache.open(out)
    assert cache.frames() == list(range(1, bad))
    assert cache.verify(finite=True) == []
    assert "failed: " in (out / "run.log").read_text()
    monkeypatch.undo()
    assert main(command(path, out, "--resume")) == 0
    assert_same_shot(out, alone)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 400 kB, where the system lets us have one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if sys.platform != "linux" or shutil.which("mount") is None:
        pytest.skip("making a small disk needs Linux and mount")
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("making a small disk needs the right to mount")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_stops_the_run(
    whole: tuple[Path, Path],
    small_disk: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, alone = whole
    out = small_disk / "cache"
    assert main(command(path, out, "--checkpoint", "1")) == 1
    complaint = capsys.readouterr().err
    assert "No space left" in complaint
    assert "Free some space" in complaint
    cache = Cache.open(out)
    assert cache.verify(finite=True) == []
    assert 1 <= len(cache.frames()) < 12
    moved = shutil.copytree(out, tmp_path / "moved")  # a larger disk
    assert main(command(path, moved, "--resume")) == 0
    assert_same_shot(moved, alone)


# --- frames that are not written ------------------------------------------------------------------


def at_frame(monkeypatch: pytest.MonkeyPatch, frame: int, act: Callable[[], object]) -> list[int]:
    """Act after the first step from a frame; frames from which a run advances."""
    advance, seen = Simulation.advance, []

    def watched(sim: Simulation, to: int, *, on_step: Any = None) -> Any:
        def after(step: Any) -> None:
            if sim.frame == frame and sim.mid_frame and seen.count(frame) == 1:
                act()
            on_step(step)

        seen.append(sim.frame)
        return advance(sim, to, on_step=after)

    monkeypatch.setattr(Simulation, "advance", watched)
    return seen


def fail() -> None:
    raise RunnelError("the power is gone")


def test_frames_ahead_of_those_written_have_checkpoints(
    whole: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, alone = whole
    out = tmp_path / "cache"
    words = command(path, out, "--frames", "9-12", "--checkpoint", "2")
    seen = at_frame(monkeypatch, 6, fail)
    assert main(words) == 1
    assert (Cache.open(out).frames(), Cache.open(out).checkpoints()) == ([], [3, 5])
    assert main([*words, "--resume"]) == 0
    assert seen == [*range(1, 7), *range(5, 12)]
    assert Cache.open(out).frames() == [9, 10, 11, 12]
    assert_same_frames(Cache.open(out), Cache.open(alone))


def test_an_interrupt_ahead_of_the_frames_written_loses_nothing(
    whole: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In the middle of a frame; who then wants earlier frames gets them all."""
    path, alone = whole
    out, other = tmp_path / "cache", tmp_path / "other"
    words = command(path, out, "--checkpoint", "0")
    seen = at_frame(monkeypatch, 6, lambda: signal.raise_signal(signal.SIGINT))
    assert main([*words, "--frames", "9-12"]) == 130
    assert "after frame 6; --resume" in capsys.readouterr().err
    shutil.copytree(out, other)
    assert main([*words, "--frames", "9-12", "--resume"]) == 0
    assert seen == [*range(1, 7), *range(6, 12)]
    assert Cache.open(out).frames() == [9, 10, 11, 12]
    assert_same_frames(Cache.open(out), Cache.open(alone))
    monkeypatch.undo()
    assert main([*command(path, other), "--resume"]) == 0
    assert_same_shot(other, alone)


def test_a_checkpoint_ahead_of_the_frames_written_outlasts_a_resume_from_it(
    whole: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All frames go, because the checkpoint after them is damaged; then the run is killed again."""
    path, alone = whole
    out = tmp_path / "cache"
    words = command(path, out, "--checkpoint", "7", "--resume")
    assert main([*words, "--frames", "9-10"]) == 0
    assert Cache.open(out).checkpoints() == [8, 10]
    Cache.open(out).checkpoint_path(10).write_bytes(b"PK")
    seen = at_frame(monkeypatch, 8, fail)
    assert main([*words, "--frames", "9-12"]) == 1
    assert (Cache.open(out).frames(), Cache.open(out).checkpoints()) == ([], [8])
    assert main([*words, "--frames", "9-12"]) == 0
    assert seen == [8, *range(8, 12)]
    assert Cache.open(out).frames() == [9, 10, 11, 12]
    assert_same_frames(Cache.open(out), Cache.open(alone))


# --- memory ---------------------------------------------------------------------------------------


def test_memory_limit_stops_in_good_time(
    whole: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A scene whose particles outgrow the limit: status 1, the frames so far, and why."""
    path, alone = whole
    out = tmp_path / "cache"
    limit = (resident_bytes() + 200_000) / 2**30
    assert main(command(path, out, "--memory-limit", f"{limit:.6f}")) == 1
    complaint = capsys.readouterr().err
    for words in ("--memory-limit is", "particles", "--resume"):
        assert words in complaint
    cache = Cache.open(out)
    assert 1 <= len(cache.frames()) < 12
    assert cache.verify(finite=True) == []
    assert main(command(path, out, "--resume", "--memory-limit", "64")) == 0
    assert_same_shot(out, alone)


# --- log ------------------------------------------------------------------------------------------


def test_the_log_tells_the_story(whole: tuple[Path, Path]) -> None:
    path, alone = whole
    lines = (alone / "run.log").read_text(encoding="utf-8").splitlines()
    assert all(line[4] == "-" and line[19:21] == "  " for line in lines)  # date and time
    told = "\n".join(line[21:] for line in lines)
    digest = Scene.load(path).digest()
    for words in ("Runnel ", "Python ", "'stream'", digest, "frame 12/12", "ms/step", "done after"):
        assert words in told
    assert sum(line[21:].startswith("frame ") for line in lines) == 11


def test_an_unforeseen_failure_is_logged_in_full(
    whole: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Simulation, "advance", broken)
    with pytest.raises(ZeroDivisionError):
        main(command(whole[0], tmp_path / "cache"))
    assert "ZeroDivisionError: a bug" in (tmp_path / "cache" / "run.log").read_text()


# --- every shipped scene --------------------------------------------------------------------------

STILL = {"bear_pool": 10, "raft": 24}  # frames until colliders move, which are left out
# Frames until the fluid meets what matters.
WAY = {"bear_pool": 5, "cloth_stream": 9, "soft_ball": 4, "wet_wall": 8}


def coarse(name: str) -> Scene:
    """A shipped scene with fewer particles, as few as its nozzles allow."""
    for factor in (2.0, 1.5, 1.0):
        data = example(name).to_dict()
        for source in data["source"]:
            source["spacing"] *= factor
        for part in data.get("collider", []):
            for key in part.get("motion", []):
                key["frame"] -= STILL.get(name, 0)
        try:
            scene = Scene.from_dict(data, example(name).directory)
            Simulation(scene).close()
            return scene
        except SceneError:
            continue
    raise AssertionError(name)


class Pause(Exception):
    pass


@pytest.mark.parametrize("name", example_names())
def test_a_shipped_scene_is_resumed_bit_by_bit(name: str, tmp_path: Path) -> None:
    """Stopped in the middle of a frame, its state through a file, gone on in another simulation."""
    scene = coarse(name)
    middle = scene.frames[0] + WAY.get(name, 2)

    def stop(step: object) -> None:
        if sim.frame == middle and sim.mid_frame:
            raise Pause

    with Simulation(scene, timed=False) as sim:
        sim.advance(middle + 2)
        expected, story = sim.state()
    with Simulation(scene, timed=False) as sim:
        with pytest.raises(Pause):
            sim.advance(middle + 2, on_step=stop)
        assert 0 < sim.share_of_frame < 1
        cache = Cache.create(tmp_path, scene.to_dict())
        cache.write(sim.frame, {"position": sim.particles["position"]})
        cache.write_checkpoint(sim.frame, *sim.state())
    found = Cache.open(tmp_path).read_checkpoint()
    assert found is not None
    for key, values in found[1].items():
        assert values.any() or not key.startswith("wet."), "nothing is wet yet"
    with Simulation(scene, timed=False) as sim:
        sim.restore(found[1], found[2])
        sim.advance(middle + 2)
        arrays, again = sim.state()
    assert again == story
    assert arrays.keys() == expected.keys()
    for key, values in expected.items():
        np.testing.assert_array_equal(arrays[key], values, err_msg=key)
