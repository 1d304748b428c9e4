"""Meshes as colliders: nothing leaks, moving ones carry fluid, deforming ones push it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import runnel
from runnel.backends.base import FIELD
from runnel.meshes import Mesh
from tests.physics.mesh_drop import (
    CLOSED,
    FPS,
    MESHES,
    OPEN,
    depths,
    drop_on,
    fitted,
    passages,
    scene,
    write,
)
from tests.unit.field_meshes import cube, sphere

MESHES_HERE = pytest.mark.skipif(not MESHES.is_dir(), reason="the meshes of ../shared are not here")


@MESHES_HERE
@pytest.mark.parametrize("name", CLOSED)
def test_nothing_gets_into_a_closed_mesh(name, tmp_path):
    """ORACLES 25, small: no particle deeper than a voxel."""
    found = drop_on(tmp_path, fitted(name, 0.8), "outside", 0.06, 0.8)
    assert found.finite
    assert found.deepest > -1.0


def test_passing_through_is_told_from_passing_around():
    """Through a side of a box and across its edge, doubled faces or not; beside its open top."""
    box = cube((0, 0, 0), 1.0)
    ways = {
        "in": ([-0.1, 0.5, 0.4], [0.1, 0.5, 0.4]),
        "edge": ([-0.1, 0.05, 0.5], [0.05, -0.1, 0.5]),
    }
    starts, ends = (np.array(side) for side in zip(*ways.values(), strict=True))
    twice = Mesh(box.vertices, np.concatenate([box.triangles, box.triangles]))
    for mesh in (box, twice):
        assert passages(mesh, starts, ends, 0.02) == (1, 0)
    middle = box.vertices[box.triangles].mean(axis=1)
    without_top = Mesh(box.vertices, box.triangles[middle[:, 2] < 0.9])
    assert len(without_top.triangles) == 10
    starts = np.array([[-0.1, 0.5, 0.4], [-0.1, 0.5, 0.9]])
    ends = np.array([[0.1, 0.5, 0.4], [0.1, 0.5, 0.9]])
    assert passages(without_top, starts, ends, 0.02) == (1, 1)


@MESHES_HERE
@pytest.mark.parametrize("name", CLOSED + OPEN)
def test_shells_hold(name, tmp_path):
    """Nobody passes through a triangle."""
    found = drop_on(tmp_path, fitted(name, 0.8), "shell", 0.06, 0.4)
    assert found.finite
    assert found.passed == 0


def test_a_sheet_holds_a_fast_jet(tmp_path):
    """One layer of triangles, a jet that moves up to 4 spacings in a step."""
    sheet = Mesh(np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0.0]]),
                 np.array([[0, 1, 2], [0, 2, 3]], np.int32))  # fmt: skip
    write(tmp_path / "sheet.obj", sheet)
    it = scene(
        tmp_path, 0.04,
        {"kind": "emitter", "shape": {"sphere": {"center": [0, 0, 0.8], "radius": 0.15}},
         "velocity": [1.0, 0, -8.0]},
        [{"shape": {"mesh": "sheet.obj"}, "mode": "shell"}],
        solver={"time_step": 1 / FPS}, domain={"min": [-0.9, -0.9, -1.0], "max": [0.9, 0.9, 2.0]},
    )  # fmt: skip
    with runnel.Simulation(it, timed=False) as sim:
        for frame in range(2, 40):
            sim.advance(frame)
            assert sim.particles["position"][:, 2].min() > 0
        assert sim.particles.count > 300


def test_a_thin_solid_holds_a_fast_jet(tmp_path):
    """A plate of two voxels; drops go up to 6 spacings in a step."""
    d = 0.04
    write(tmp_path / "plate.obj", cube((-1, -1, -1.5 * d), (2, 2, 1.5 * d)))
    it = scene(
        tmp_path, d,
        {"kind": "emitter", "shape": {"sphere": {"center": [0, 0, 0.8], "radius": 0.1}},
         "velocity": [1.0, 0, -12.0]},
        [{"shape": {"mesh": "plate.obj"}}],
        solver={"time_step": 1 / FPS}, domain={"min": [-0.9, -0.9, -1.0], "max": [0.9, 0.9, 2.0]},
    )  # fmt: skip
    farthest = 0.0
    with runnel.Simulation(it, timed=False) as sim:
        while sim.time < 0.4:
            start = sim.time
            report = sim.step()
            farthest = max(farthest, report.max_speed * (sim.time - start))
            assert sim.particles["position"][:, 2].min(initial=1.0) > 0
        assert sim.particles.count > 300
    assert farthest > 4 * d


def test_a_tank_that_is_a_mesh_rests_as_an_analytic_one(tmp_path):
    """Corners and edges of a field are rounded and have one normal; still nothing boils."""
    write(tmp_path / "tank.obj", cube((0, 0, 0), 1.0))
    shapes = ({"mesh": "tank.obj"}, {"box": {"min": [0, 0, 0], "max": [1, 1, 1]}})
    speeds, errors, heights = [], [], []
    for shape in shapes:
        it = scene(
            tmp_path, 0.0625, {"shape": {"box": {"min": [0, 0, 0], "max": [1, 1, 0.5]}}},
            [{"shape": shape, "mode": "inside"}],
        )  # fmt: skip
        with runnel.Simulation(it, timed=False) as sim:
            report = sim.advance(101)
            v, x = sim.particles["velocity"], sim.particles["position"]
            speeds.append(float(np.sqrt((v.astype(float) ** 2).sum(axis=1).mean())))
            errors.append(report.density_error_avg)
            heights.append(float(x[:, 2].mean()))
            assert x.min() > 0.45 * 0.0625
            assert x[:, :2].max() < 1 - 0.45 * 0.0625
    assert speeds[0] < 1.3 * speeds[1] + 0.002
    assert errors[0] < 0.01
    assert heights[0] == pytest.approx(heights[1], abs=0.1 * 0.0625)


def test_a_moving_mesh_carries_fluid(tmp_path):
    """A cup, one file, that slides to the side and turns: what is in it comes along."""
    cup = cube((-0.3, -0.3, 0.0), (0.6, 0.6, 0.6))
    write(tmp_path / "cup.obj", cup)
    path = [{"frame": 1}, {"frame": 10}, {"frame": 60, "position": [1.0, 0, 0.2],
                                         "rotation": [0, 0, 90]}]  # fmt: skip
    it = scene(
        tmp_path, 0.06, {"shape": {"box": {"min": [-0.3, -0.3, 0], "max": [0.3, 0.3, 0.3]}}},
        [{"name": "cup", "shape": {"mesh": "cup.obj"}, "mode": "inside", "body": "animated",
          "motion": path, "friction": 0.5}],
    )  # fmt: skip
    with runnel.Simulation(it, timed=False) as sim:
        sim.advance(61)
        assert depths(it, sim).min() > 0
        assert sim.particles["position"].mean(axis=0)[0] == pytest.approx(1.0, abs=0.05)


def breathing(folder: Path, frames: int) -> None:
    ball = sphere(0.25, 32)
    for n in range(1, frames + 1):
        size = 1.0 + 0.35 * (1 - np.cos(2 * np.pi * (n - 1) / 20)) / 2
        write(folder / f"ball_{n:04d}.obj", Mesh(size * ball.vertices, ball.triangles))


def test_a_breathing_ball_pushes_and_does_not_leak(tmp_path):
    breathing(tmp_path, 30)
    it = scene(
        tmp_path, 0.06, {"shape": {"box": {"min": [-0.6, -0.6, -0.6], "max": [0.6, 0.6, 0.3]}}},
        [{"name": "ball", "shape": {"mesh": "ball_####.obj"}},
         {"name": "tank", "mode": "inside",
          "shape": {"box": {"min": [-0.6, -0.6, -0.6], "max": [0.6, 0.6, 1.5]}}}],
    )  # fmt: skip
    heights = []
    with runnel.Simulation(it, timed=False) as sim:
        sim.advance(1)
        for frame in range(2, 28):
            sim.advance(frame)
            heights.append(np.quantile(sim.particles["position"][:, 2], 0.98))
            if frame > 5:  # what the source put into the ball has left it
                assert depths(it, sim).min() > -1.0
        rows = sim._solids.rows(sim.time, 0.01)
        assert rows[0, 0] == FIELD
    # It displaces 0.1 m^3 more when large: 7 cm of the tank.
    assert max(heights[8:13]) > heights[3] + 0.03


def test_changed_topology_is_told(tmp_path):
    for n, rows in ((1, 16), (2, 16), (3, 20), (4, 20)):
        write(tmp_path / f"ball_{n:02d}.obj", sphere(0.3, rows))
    it = scene(
        tmp_path, 0.08, {"shape": {"box": {"min": [-0.5, -0.5, 0.35], "max": [0.5, 0.5, 0.6]}}},
        [{"name": "ball", "shape": {"mesh": "ball_##.obj"}}], frames=[1, 6],
    )  # fmt: skip
    with runnel.Simulation(it, timed=False) as sim:
        notes = [note for frame in range(2, 6) for note in sim.advance(frame).notes]
    assert len(notes) == 1
    assert "frame 3" in notes[0]
    assert "triangles changed" in notes[0]


def test_a_mesh_sink_swallows(tmp_path):
    write(tmp_path / "hole.obj", sphere(0.4, 24))
    it = scene(
        tmp_path, 0.06, {"shape": {"box": {"min": [-0.5, -0.5, -0.5], "max": [0.5, 0.5, 0.5]}}},
        [], sink=[{"shape": {"mesh": "hole.obj"}}], solver={"gravity": [0, 0, 0]},
    )  # fmt: skip
    with runnel.Simulation(it, timed=False) as sim:
        before = sim.particles["position"]
        sim.step()
        left = np.linalg.norm(before, axis=1) > 0.4
        assert sim.particles.count == pytest.approx(int(left.sum()), abs=0.02 * len(before))


def test_runs_repeat(tmp_path):
    """The same bits from the same scene."""
    breathing(tmp_path, 6)
    it = scene(
        tmp_path, 0.08, {"shape": {"box": {"min": [-0.4, -0.4, 0.3], "max": [0.4, 0.4, 0.6]}}},
        [{"name": "ball", "shape": {"mesh": "ball_####.obj"}, "friction": 0.3}],
    )  # fmt: skip
    ends = []
    for _ in range(2):
        with runnel.Simulation(it, timed=False) as sim:
            sim.advance(12)
            ends.append(sim.particles["position"])
    np.testing.assert_array_equal(*ends)
