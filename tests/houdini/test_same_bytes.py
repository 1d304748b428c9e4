"""One scene, three ways: live in the node, handed over to the command line, and read back."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import hou
import numpy as np
import pytest
from hou_standin import Geometry, SopNode, world
from shots import box, node, points, pool, pressed, upstream, values, water

from runnel import Cache, RunnelError, Scene, cli
from runnel.fields.vdb import available
from runnel_houdini import callbacks, farm, sessions

LAST = 4


def rain(frame: float) -> Geometry:
    places = np.stack([0.1 * np.arange(5) + 0.25, np.full(5, 0.8), np.full(5, 0.25)], axis=1)
    down = np.tile([0.0, -3.0, 0.0], (5, 1))
    return points(places, v=down, heat=np.full(5, frame), id=np.arange(5))


def wall(frame: float) -> Geometry:
    return box((-0.5, 0, 0), (0.02 * frame, 1, 0.5))


def shot(**parms: Any) -> SopNode:
    """Emitted points that move, a moving collider, two liquids."""
    settings = {"sourcekind": "emitter", "endframe": LAST, "fluids": 2, "outmass": 1}
    return pool(upstream(rain), upstream(wall), **(settings | parms))


def boat(**parms: Any) -> SopNode:
    """Emitted points that move, and a body."""
    raft = upstream(box((0.5, 0.2, 0.1), (0.9, 0.5, 0.4)))
    settings = {"sourcekind": "emitter", "endframe": LAST}
    return pool(upstream(rain), None, None, raft, **(settings | parms))


def simulated(order: farm.HandOver) -> Cache:
    assert cli.main([*order.arguments, "--quiet"]) == 0
    return Cache.open(order.cache)


def gust(frame: float) -> Geometry:
    """A velocity field that changes."""
    places = np.stack(np.meshgrid(*(np.arange(4) * 0.3,) * 3), axis=-1).reshape(-1, 3)
    return points(places, v=np.tile([frame, 1.0, 0.0], (64, 1)))


def nozzle(frame: float) -> Geometry:
    return box((0.05 * frame, 0.6, 0.1), (0.05 * frame + 0.3, 0.7, 0.4))


def magnet(frame: float) -> Geometry:
    """A force that moves, and a body beside it."""
    geo = points([[0.2 * frame, 0.2, 0.2]], runnel_strength=np.full(1, 5.0))
    geo.addAttrib(hou.attribType.Point, "runnel_kind", "")
    geo.setPointStringAttribValues("runnel_kind", ["point"])
    geo.merge(box((0.6, 0.1, 0.1), (0.9, 0.4, 0.4)))
    return geo


def jet() -> SopNode:
    """A surface that emits, inherits its velocity and moves; a force that moves; a body."""
    settings = {"sourcekind": "emitter", "sourcevelocity": (0.0, -2.0, 0.0), "endframe": LAST}
    settings |= {"sourceinheritvelocity": 0.5}
    return pool(upstream(nozzle), None, upstream(magnet), **settings)


@pytest.mark.parametrize("kind", ["pool", "shot", "boat", "points", "gust", "jet"])
def test_live_and_command_line_give_the_same_bits(kind: str) -> None:
    solver = {
        "pool": lambda: pool(endframe=LAST, autosubsteps=1),
        "shot": shot,
        "boat": boat,
        "points": lambda: pool(upstream(rain(1)), endframe=LAST),
        "gust": lambda: pool(water(), None, upstream(gust), endframe=LAST, fieldstrength=5.0),
        "jet": jet,
    }[kind]()
    world.NOW.frame = 3  # a hand-over starts at the start frame, wherever one is
    cache = simulated(farm.write_scene(solver))
    assert cache.frames() == list(range(1, LAST + 1))
    for frame in (LAST, *range(1, LAST)):
        geo = solver._cook(frame)
        assert solver.errors() == ()
        session = sessions.existing(solver)
        assert session is not None
        live = session.memory.get(frame, ["position"])
        assert live is not None
        disk = cache.read(frame)
        assert {"position", "velocity", "density", "phase", "id"} <= set(disk)
        for name, array in disk.items():
            assert array.tobytes() == live.channels[name].tobytes(), (frame, name)
        assert values(geo, "P").tobytes() == disk["position"].tobytes()
    assert session.scene is not None
    handed = Scene.load(Path(farm_scene(solver)))
    assert without_end(session.scene) == without_end(handed)
    assert kind != "jet" or [c.body for c in handed.colliders] == ["rigid"]


def without_end(scene: Scene) -> str:
    """All of a scene but where it ends: live it goes on for as long as one plays."""
    return re.sub(r'"(field_)?frames": \[1, \d+\]', "", json.dumps(scene.to_dict(defaults=True)))


def farm_scene(solver: SopNode) -> str:
    return str(Path(str(solver.evalParm("cachedir"))) / "scene" / "scene.json")


def test_carried_attributes_are_in_the_cache() -> None:
    cache = simulated(farm.write_scene(shot()))
    found = cache.read(LAST)
    assert sorted(set(found["heat"].tolist())) == [1.0, 2.0, 3.0]
    assert found["source_id"].max() == 4


def test_the_node_reads_what_was_simulated() -> None:
    solver = boat(loadfromdisk=1, livesim=0, outbodies=1)
    solver._cook(2)
    assert "Live Simulation is off" in solver.warnings()[0]
    cache = simulated(farm.write_scene(solver))
    geo = solver._cook(3)
    assert (solver.errors(), solver.warnings()) == ((), ())
    count = cache.entry(3).count
    assert np.array_equal(values(geo, "P")[:count], cache.read(3)["position"])
    assert values(geo, "heat").shape == (geo.pointCount(),)
    assert "body_1" in [g.name() for g in geo.primGroups()]
    session = sessions.existing(solver)
    assert session is not None
    assert session.sim is None  # nothing was simulated here


def test_the_cache_node_reads_it_too() -> None:
    solver = pool(endframe=3, timescale=0.5)
    order = farm.write_scene(solver)
    cache = simulated(order)
    reader = node("fluid_cache", cachedir=str(order.cache), colorby="speed")
    geo = reader._cook(2)
    assert reader.errors() == ()
    assert np.array_equal(values(geo, "P"), cache.read(2)["position"])
    assert np.allclose(values(geo, "v"), 0.5 * cache.read(2)["velocity"])
    assert values(geo, "Cd").shape == (125, 3)
    assert geo.findPointGroup("fluid_1") is not None
    whole, half = values(geo, "P").copy(), values(geo, "v").copy()
    assert np.allclose(values(reader._cook(2.5), "P"), whole + half * 0.5 / 24, atol=1e-6)
    reader._cook(9)
    assert "frames 1 to 3" in reader.errors()[0]
    for missing, count, warned in (("warn", 0, 1), ("empty", 0, 0), ("nearest", 125, 0)):
        reader._parms["missing"] = missing
        assert reader._cook(9).pointCount() == count
        assert len(reader.warnings()) == warned
    reader._parms |= {"missing": "error", "show": "surface"}
    surface = reader._cook(2)
    assert reader.errors() == ()
    assert surface.primCount() > 100
    assert surface.findPointAttrib("N") is not None
    if available():
        reader._parms |= {"show": "volumes", "voxelsize": 0.1}
        volumes = reader._cook(2)
        assert reader.errors() == ()
        assert volumes.primStringAttribValues("name") == ("density", "surface", "velocity")
        assert volumes.attribValue("particles") == 125
    reader._parms["cachedir"] = "/nowhere"
    reader._cook(2)
    assert "holds no Runnel cache" in reader.errors()[0]


def test_a_cache_that_grows_is_seen(tmp_path: Path) -> None:
    reader = node("fluid_cache", cachedir=str(tmp_path), missing="empty")
    assert reader._cook(1).pointCount() == 0
    scene = {"fluid": [{"name": "water"}]}
    cache = Cache.create(tmp_path, scene, digest="x")
    for frame in (1, 2):
        cache.write(frame, {"position": np.zeros((frame, 3), np.float32)}, {"time": 0.0})
        assert reader._cook(frame).pointCount() == frame


# --- handing over ---------------------------------------------------------------------------------


def test_the_folder_is_whole_and_can_be_moved(tmp_path: Path) -> None:
    order = farm.write_scene(shot())
    names = {path.name for path in order.scene.parent.iterdir()}
    assert {f"collider_1_{k:04d}.ply" for k in range(1, LAST + 1)} <= names
    assert {f"source_1_{k:04d}.bgeo" for k in range(1, LAST + 1)} <= names
    moved = tmp_path / "elsewhere"
    order.scene.parent.rename(moved)
    scene = Scene.load(moved / "scene.json")  # every file is inside of it
    assert all(path.is_file() for path in scene.files())
    assert str(tmp_path) not in (moved / "scene.json").read_text()


def test_changed_geometry_is_not_resumed() -> None:
    source = water()
    solver = pool(source, endframe=2)
    assert "--resume" in farm.write_scene(solver).arguments
    assert "--resume" in farm.write_scene(solver).arguments
    source._make = lambda frame: box((0, 0, 0), (0.5, 0.5, 0.4))
    source._dirty()
    assert "--resume" not in farm.write_scene(solver).arguments


def test_esc_while_writing_leaves_no_scene_that_lacks_files() -> None:
    solver = shot()
    world.NOW.esc = 2
    with pytest.raises(Exception, match="interrupted"):
        farm.write_scene(solver)
    assert not Path(farm_scene(solver)).exists()


def test_without_a_folder_it_says_so() -> None:
    with pytest.raises(RunnelError, match="Cache Folder is empty"):
        farm.write_scene(pool(cachedir="  "))
    world.NOW.window = True
    callbacks.write_scene(pool(cachedir=""))
    assert "Cache Folder is empty" in world.NOW.told[0]


def test_the_command_is_shown() -> None:
    world.NOW.window = True
    solver = pool(endframe=2)
    pressed(solver, "showcommand")
    assert world.NOW.clipboard.startswith("runnel run ")
    assert world.NOW.clipboard in world.NOW.told[0]
    pressed(solver, "writescene")
    assert world.NOW.told[-1].startswith("Wrote ")


def test_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Started, stopped, started again; the node shows what is there."""
    solver = pool(endframe=3, loadfromdisk=1, livesim=0)
    pressed(solver, "simulatetodisk")
    folder = Path(str(solver.evalParm("cachedir")))
    process = farm._running[solver.sessionId()]
    assert process.wait(120) == 0, (folder / farm.LOG).read_text()
    assert farm.failure(solver, folder) is None
    assert solver._cook(3).pointCount() == 125
    assert solver.errors() == ()

    def sleeps(arguments: list[str], **more: Any) -> subprocess.Popen[bytes]:
        return started([sys.executable, "-c", "import time; time.sleep(60)"], **more)

    started = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", sleeps)
    pressed(solver, "simulatetodisk")
    monkeypatch.setattr(subprocess, "Popen", started)
    other = farm._running[solver.sessionId()]
    assert farm.running(solver)
    begun = time.perf_counter()
    callbacks.deleted(solver)
    assert other.poll() is not None
    assert time.perf_counter() - begun < 20
    assert not farm.running(solver)


def test_the_scene_is_plain_json() -> None:
    order = farm.write_scene(pool(endframe=2))
    table = json.loads(order.scene.read_text())
    assert table["frames"] == [1, 2]
    assert os.path.basename(table["source"][0]["shape"]["mesh"]["file"]) == "source_1.ply"
