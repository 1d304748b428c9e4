"""Points from files as particles: what is taken from them, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runnel import Scene, SceneError, Simulation
from runnel.export.bgeo import write_bgeo
from runnel.export.geometry import Geometry
from runnel.points import read_points
from runnel.scene import MeshFile
from runnel.sources import fill_volumes, point_channels

STEP = 0.05


def lattice(n: int, low: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> np.ndarray:
    axis = STEP * (np.arange(n) + 0.5)
    grid = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    return (grid + np.array(low)).astype(np.float32)


def write(path: Path, places: np.ndarray, **attributes: Any) -> None:
    points = {name: np.asarray(values) for name, values in attributes.items()}
    write_bgeo(path, Geometry(len(places), points={"P": places, **points}))


def scene(folder: Path, source: dict[str, Any], **more: Any) -> Scene:
    table = {"fluid": "water", "spacing": STEP, **source}
    data = {
        "frames": [1, 10],
        "fluid": [{"name": "water"}, {"name": "oil", "density": 800.0}],
        "source": [table],
        **more,
    }
    return Scene.from_dict(data, folder)


def test_points_become_particles_with_all_they_carry(tmp_path: Path) -> None:
    places = lattice(4)
    n = len(places)
    rising = np.arange(n, dtype=np.int32)
    write(
        tmp_path / "drops.bgeo", places,
        v=np.tile(np.float32([0, 0, 2]), (n, 1)), pscale=np.full(n, 0.02, np.float32),
        phase=rising % 2, id=rising + 100, temperature=rising.astype(np.float32),
        tint=np.ones((n, 3), np.float32), density=np.ones(n, np.float32),
    )  # fmt: skip
    it = scene(tmp_path, {"shape": {"points": "drops.bgeo"}})
    assert it.smallest_spacing == pytest.approx(0.04)
    assert it.estimate_particles() == n
    with Simulation(it, "reference") as sim:
        particles = sim.particles
        assert np.array_equal(particles["position"], places)
        assert np.array_equal(particles["velocity"][:, 2], np.full(n, 2.0, np.float32))
        assert np.allclose(particles["radius"], 0.02)
        assert np.array_equal(particles["phase"], rising % 2)
        assert np.array_equal(particles["source_id"], rising + 100)
        assert np.array_equal(particles["temperature"], rising)
        assert particles["tint"].shape == (n, 3)
        assert np.allclose(sim.ledger.mass, 0.04**3 * (1000 + 800) * n / 2)
        assert set(particles.user_channels) == {"source_id", "temperature", "tint"}
        state = sim.state()
    with Simulation(it, "reference") as other:
        other.restore(*state)
        assert np.array_equal(other.particles["temperature"], rising)


def test_emitter_gives_the_points_of_each_frame(tmp_path: Path) -> None:
    for frame, height in ((1, 1.0), (2, 1.5), (3, 2.0)):
        places = lattice(2, (0.0, 0.0, height))
        write(tmp_path / f"rain_{frame:04d}.bgeo", places, born=np.full(8, frame, np.int32))
    it = scene(
        tmp_path,
        {"kind": "emitter", "shape": {"points": "rain_####.bgeo"}, "velocity": [0, 0, -1]},
        solver={"time_step": 1 / 48},
    )
    with Simulation(it, "reference") as sim:
        assert sim.particles.count == 0
        for frame, count in ((2, 8), (3, 16), (4, 24), (5, 24)):
            sim.advance(frame)
            assert sim.particles.count == count
        assert sorted(set(sim.particles["born"].tolist())) == [1, 2, 3]
        fresh = sim.particles["born"] == 3
        assert np.allclose(sim.particles["age"][fresh], 2 / 24, atol=1e-5)
        # Nothing is born where something is already.
        assert sim.ledger.count == 24


def test_emitter_leaves_no_room_twice(tmp_path: Path) -> None:
    write(tmp_path / "still.bgeo", lattice(2))
    shape = {"points": "still.bgeo"}
    it = scene(tmp_path, {"kind": "emitter", "shape": shape}, solver={"gravity": [0, 0, 0]})
    with Simulation(it, "reference") as sim:
        sim.advance(4)
        assert sim.particles.count == 8


def test_ply_points(tmp_path: Path) -> None:
    text = (
        "ply\nformat ascii 1.0\nelement vertex 2\nproperty float x\nproperty float y\n"
        "property float z\nproperty float vx\nproperty float vy\nproperty float vz\n"
        "property int phase\nproperty float heat\nend_header\n"
        "0 0 0 1 2 3 1 20\n1 0 0 1 2 3 0 30\n"
    )
    (tmp_path / "a.ply").write_text(text)
    found = read_points(tmp_path / "a.ply")
    assert found.velocity is not None
    assert found.phase is not None
    assert found.velocity.tolist() == [[1, 2, 3]] * 2
    assert found.phase.tolist() == [1, 0]
    assert found.channels["heat"].tolist() == [20, 30]


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"pscale": np.zeros(8, np.float32)}, "no size"),
        ({"phase": np.full(8, 7, np.int32)}, "is of fluid 7"),
        ({"phase": np.full(8, -1, np.int32)}, "from 0"),
        ({"v": np.full((8, 3), np.nan, np.float32)}, "finite"),
        ({"v": np.ones(8, np.float32)}, "1 numbers a point"),
    ],
)
def test_bad_points_are_refused(
    tmp_path: Path, attributes: dict[str, np.ndarray], message: str
) -> None:
    write(tmp_path / "bad.bgeo", lattice(2), **attributes)
    with pytest.raises(SceneError, match=message) as error:
        fill_volumes(scene(tmp_path, {"shape": {"points": "bad.bgeo"}}))
    assert error.value.key == "source[0].shape.points"


@pytest.mark.parametrize("file", ["none.bgeo", "a.obj", "../a.bgeo", "/etc/a.bgeo"])
def test_files_must_be_there_and_inside(tmp_path: Path, file: str) -> None:
    (tmp_path / "a.obj").write_text("v 0 0 0\n")
    with pytest.raises(SceneError):
        scene(tmp_path, {"shape": {"points": file}})


def test_colliders_are_no_points(tmp_path: Path) -> None:
    write(tmp_path / "a.bgeo", lattice(2))
    solid = [{"shape": {"points": "a.bgeo"}}]
    with pytest.raises(SceneError, match="one of"):
        scene(tmp_path, {"shape": {"points": "a.bgeo"}}, collider=solid)


def test_scene_survives_the_way_through_a_dict(tmp_path: Path) -> None:
    write(tmp_path / "a_0001.bgeo", lattice(2), heat=np.ones(8, np.float32))
    shape = {"points": {"file": "a_####.bgeo", "frames": [1, 5]}}
    it = scene(tmp_path, {"kind": "emitter", "shape": shape})
    again = Scene.from_dict(it.to_dict(), tmp_path)
    assert again == it
    assert again.digest() == it.digest()
    assert point_channels(it) == {"heat": (np.dtype(np.float32), 1)}


def test_declared_frames_are_looked_for_when_needed(tmp_path: Path) -> None:
    shape = MeshFile(file="walk_####.obj", frames=(3, 6))
    it = scene(tmp_path, {"shape": {"box": {"min": [0, 0, 0], "max": [1, 1, 1]}}})
    assert it.mesh_frames(shape) == [3, 4, 5, 6]


def test_frames_of_no_sequence_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.bgeo", lattice(2))
    with pytest.raises(SceneError, match="sequences"):
        scene(tmp_path, {"shape": {"points": {"file": "a.bgeo", "frames": [1, 5]}}})
