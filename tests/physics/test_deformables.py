"""Cloth and soft bodies in fluid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runnel import Scene, SceneError, Simulation

from .setups import G, box

D = 0.03


def write_sheet(path: Path, n: int, size: float) -> None:
    """A square across x, `size` wide, its middle at the origin."""
    at = np.linspace(-size / 2, size / 2, n + 1)
    lines = [f"v 0 {y} {z}" for z in at for y in at]
    for j in range(n):
        for i in range(n):
            a = j * (n + 1) + i + 1
            lines += [f"f {a} {a + 1} {a + n + 2}", f"f {a} {a + n + 2} {a + n + 1}"]
    path.write_text("\n".join(lines) + "\n")


def write_cube(path: Path, half: float) -> None:
    corners = [(x, y, z) for x in (-half, half) for y in (-half, half) for z in (-half, half)]
    lines = [f"v {x} {y} {z}" for x, y, z in corners]
    quads = ((1, 2, 4, 3), (5, 7, 8, 6), (1, 5, 6, 2), (3, 4, 8, 7), (1, 3, 7, 5), (2, 6, 8, 4))
    path.write_text("\n".join(lines + ["f " + " ".join(map(str, q)) for q in quads]) + "\n")


def scene(
    folder: Path, colliders: list[dict[str, Any]], water: dict[str, Any], **keys: Any
) -> Scene:
    data = {
        "fps": 25, "frames": [0, 200], "fluid": [{"name": "water"}], "collider": colliders,
        "source": [{"fluid": "water", "spacing": D, **water}],
        "solver": {"time_step": 0.008, **keys},
    }  # fmt: skip
    return Scene.from_dict(data, folder)


def cloth(folder: Path, **keys: Any) -> dict[str, Any]:
    write_sheet(folder / "sheet.obj", 8, 0.48)
    return {"shape": {"mesh": "sheet.obj"}, "mode": "shell", "body": "deformable", **keys}


def test_stream_pushes_cloth_and_keeps_momentum(tmp_path: Path) -> None:
    """A block of water flies into a free sheet: what it loses the sheet gains."""
    block = {"shape": box([-0.3, -0.15, -0.15], [-0.06, 0.15, 0.15]), "velocity": [2, 0, 0]}
    sheet = cloth(tmp_path, mass=2.0)
    with Simulation(scene(tmp_path, [sheet], block, gravity=[0, 0, 0]), timed=False) as sim:
        mass = sim.particles["mass"].astype(np.float64)
        start = mass @ sim.particles["velocity"].astype(np.float64)
        sim.advance(5)
        fluid = mass @ sim.particles["velocity"].astype(np.float64)
        given = sim.deformables.momentum()
        assert given[0] > 0.05 * start[0]
        np.testing.assert_allclose(fluid + given, start, atol=1e-4 * start[0])
        x = sim.particles["position"]
        width = np.abs(sim.deformables.bodies[0].position[:, 1:]).max()
        ahead = x[(np.abs(x[:, 1:]) < width).all(axis=1), 0]
        assert (ahead < sim.deformables.bodies[0].position[:, 0].max() + D).all()  # no leak
        assert sim.deformables.speed() < 4.0


def test_pinned_cloth_hangs_and_keeps_its_size(tmp_path: Path) -> None:
    away = {"shape": box([3, 3, 3], [3.06, 3.06, 3.06])}
    hung = cloth(tmp_path, mass=0.5, pin=box([-1, -1, 0.2], [1, 1, 1]))
    with Simulation(scene(tmp_path, [hung], away), timed=False) as sim:
        body = sim.deformables.bodies[0]
        start, pinned = body.position.copy(), body.inverse_mass == 0
        assert np.count_nonzero(pinned) == 9
        sim.advance(10)
        np.testing.assert_array_equal(body.position[pinned], start[pinned])
        assert np.abs(body.position - start).max() < 0.02


class Spring:
    """A user's own constraint: a vertex is held near a place."""

    importance = 2.0

    def __init__(self, vertex: int, place: tuple[float, float, float]) -> None:
        self.vertex, self.place = vertex, np.array(place)

    def project(self, positions: Any, inverse_mass: Any, dt: float) -> None:
        positions[self.vertex] = self.place


def test_users_can_add_constraints(tmp_path: Path) -> None:
    """Row A19: the most important one wins."""
    away = {"shape": box([3, 3, 3], [3.06, 3.06, 3.06])}
    sheet = cloth(tmp_path, mass=0.5)
    sheet["name"] = "sheet"
    with Simulation(scene(tmp_path, [sheet], away), timed=False) as sim:
        sim.deformables["sheet"].constraints.append(Spring(40, (0.0, 0.0, 0.0)))
        sim.advance(10)
        body = sim.deformables["sheet"]
        np.testing.assert_allclose(body.position[40], 0.0, atol=1e-12)
        # What hangs from there has swung down, but has not fallen the way of a free body.
        assert body.position[:, 2].mean() > -0.25 > -0.5 * G * 0.4**2


def test_soft_cube_floats_if_light(tmp_path: Path) -> None:
    """A light one stays up, a heavy one goes down; both keep their volume."""
    write_cube(tmp_path / "cube.obj", 0.12)
    heights = {}
    for density in (300.0, 2000.0):
        cube = {
            "shape": {"mesh": "cube.obj"}, "position": [0.3, 0.3, 0.42], "body": "deformable",
            "density": density,
        }  # fmt: skip
        tank = {"shape": box([0, 0, 0], [0.6, 0.6, 0.9]), "mode": "inside"}
        pool = {"shape": box([0, 0, 0], [0.6, 0.6, 0.3])}
        with Simulation(scene(tmp_path, [tank, cube], pool), timed=False) as sim:
            sim.advance(16)
            body = sim.deformables.bodies[0]
            heights[density] = body.position[:, 2].mean()
            size = body.position[:, 2].max() - body.position[:, 2].min()
            assert size > 0.1
            assert sim.report.max_speed < 6.0
    assert heights[300.0] > 0.3
    assert heights[2000.0] < 0.25


def test_resumed_run_is_the_same_to_the_bit(tmp_path: Path) -> None:
    block = {"shape": box([-0.3, -0.15, -0.15], [-0.06, 0.15, 0.15]), "velocity": [2, 0, 0]}
    setup = scene(tmp_path, [cloth(tmp_path, mass=2.0)], block)
    with Simulation(setup, timed=False) as sim:
        sim.advance(2)
        state = sim.state()
        sim.advance(4)
        expected = sim.deformables.state()
    with Simulation(setup, timed=False) as sim:
        sim.restore(*state)
        sim.advance(4)
        for name, values in sim.deformables.state().items():
            np.testing.assert_array_equal(values, expected[name], err_msg=name)


@pytest.mark.parametrize(
    ("keys", "key"), [({"mode": "outside"}, "mode"), ({"shape": box([0] * 3, [1] * 3)}, "shape")]
)
def test_bad_bodies_are_refused(tmp_path: Path, keys: dict[str, Any], key: str) -> None:
    away = {"shape": box([3, 3, 3], [3.06, 3.06, 3.06])}
    with pytest.raises(SceneError) as caught:
        Simulation(scene(tmp_path, [cloth(tmp_path) | keys], away))
    assert caught.value.key == f"collider[0].{key}"
