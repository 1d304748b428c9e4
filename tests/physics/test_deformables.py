"""Cloth and soft bodies in fluid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runnel import Scene, SceneError, Simulation
from runnel.meshes import Mesh
from tests.tools.scene_meshes import obj, soft_ball

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


def test_light_cloth_lies_calmly_on_water(tmp_path: Path) -> None:
    """2.5 kg/m2, in steps of 16 ms. A layer of particles weighs 30 kg/m2: coupled by turns, the
    cloth was thrown up at 3 m/s. The lattice of the water gives way at first, cloth or not."""
    tank = {"shape": box([0, 0, 0], [0.6, 0.6, 0.6]), "mode": "inside"}
    sheet = cloth(tmp_path, mass=2.5 * 0.48**2)
    sheet |= {"position": [0.3, 0.3, 0.21 + 1.25 * D], "rotation": [0, 90, 0]}
    pool = {"shape": box([0, 0, 0], [0.6, 0.6, 0.21])}
    speeds = []
    setup = scene(tmp_path, [tank, sheet], pool, time_step=0.016)
    with Simulation(setup, timed=False) as sim:
        for frame in range(1, 31):
            sim.advance(frame)
            speeds.append(sim.deformables.speed())
        height = sim.deformables.bodies[0].position[:, 2]
    assert max(speeds) < 1.0
    assert np.median(speeds[20:]) < 0.1
    assert np.ptp(height) < D
    # On the top layer of particles, 0.5 d below the level, half a thickness and 0.5 d above it.
    assert height.mean() == pytest.approx(0.21 + 0.75 * D, abs=0.75 * D)


def test_soft_ball_floats_at_archimedes_draft(tmp_path: Path) -> None:
    """Of half the water's density, in steps of 16 ms: up to its middle, within 1 d; it bobs at the
    period of a sphere whose added mass is 0.5 to 0.83 of what it displaces, and more in a tank."""
    r, wide, deep = 0.15, 0.6, 0.36
    (tmp_path / "ball.obj").write_text(obj(soft_ball(r, 2)))
    ball = {"shape": {"mesh": "ball.obj"}, "body": "deformable", "density": 500}
    ball["position"] = [wide / 2, wide / 2, deep + 0.5 * r]
    tank = {"shape": box([0, 0, 0], [wide, wide, 0.9]), "mode": "inside"}
    pool = {"shape": box([0, 0, 0], [wide, wide, deep])}
    setup = scene(tmp_path, [tank, ball], pool, time_step=0.016)
    offsets = []
    with Simulation(setup, timed=False) as sim:
        body = sim.deformables.bodies[0]
        water = float(sim.particles["volume"].sum(dtype=np.float64))
        for frame in range(1, 51):
            sim.advance(frame)
            solid = Mesh(body.position, body.triangles).volume()
            level = (water + 0.5 * solid) / wide**2
            mass = 1 / body.inverse_mass
            offsets.append((mass @ body.position[:, 2]) / mass.sum() - level)
    late = np.array(offsets[10:])
    assert abs(late.mean()) < 0.5 * D
    assert np.abs(late[-20:]).max() < D + 0.5 * np.abs(offsets).max()
    down = np.flatnonzero((late[1:] < 0) & (late[:-1] >= 0))  # ways down through the level
    assert len(down) >= 2
    period = (down[-1] - down[0]) / (len(down) - 1) / 25
    least, most = (2 * np.pi * np.sqrt(2 / 3 * r / G * (1 + c)) for c in (0.5, 0.83))
    assert 0.9 * least < period < 1.2 * most


def test_two_bodies_of_one_mesh_are_two(tmp_path: Path) -> None:
    """Each gets what it gives: a block of water flies through between them, then hits both."""
    parts = [cloth(tmp_path, mass=2.0) | {"position": [0.1, y, 0]} for y in (-0.3, 0.3)]
    block = {"shape": box([-0.18, -0.3, -0.12], [0, 0.3, 0.12]), "velocity": [2, 0, 0]}
    with Simulation(scene(tmp_path, parts, block, gravity=[0, 0, 0]), timed=False) as sim:
        mass = sim.particles["mass"].astype(np.float64)
        sim.advance(4)
        own = [
            (b.velocity / b.inverse_mass[:, None]).sum(axis=0)[0] for b in sim.deformables.bodies
        ]
        total = mass @ sim.particles["velocity"].astype(np.float64) + sim.deformables.momentum()
    np.testing.assert_allclose(total, [2 * mass.sum(), 0, 0], atol=2e-4 * mass.sum())
    assert min(own) > 0.05 * mass.sum()
    assert own[0] == pytest.approx(own[1], rel=0.1)


def test_cloth_catches_a_rigid_ball(tmp_path: Path) -> None:
    """Momentum goes from the ball to the free sheet, all of it; the ball does not pass through."""
    away = {"shape": box([3, 3, 3], [3.06, 3.06, 3.06])}
    ball = {"shape": {"sphere": {"center": [-0.2, 0, 0], "radius": 0.1}}, "body": "rigid",
            "mass": 2.0, "velocity": [2, 0, 0]}  # fmt: skip
    setup = scene(tmp_path, [cloth(tmp_path, mass=1.0), ball], away, gravity=[0, 0, 0])
    with Simulation(setup, timed=False) as sim:
        speed, sheet = sim.bodies.velocity[0], sim.deformables.bodies[0]
        middle = int(np.argmin((sheet.position**2).sum(axis=1)))
        sim.advance(10)
        np.testing.assert_allclose(2.0 * speed + sim.deformables.momentum(), [4, 0, 0], atol=1e-6)
        assert 0.3 < speed[0] < 1.8
        assert sheet.position[middle, 0] > sim.bodies.centre[0, 0] + 0.09


def test_soft_cube_comes_to_rest_on_a_collider(tmp_path: Path) -> None:
    """On a turned box: friction holds it there, without it it slides off."""
    write_cube(tmp_path / "cube.obj", 0.1)
    away = {"shape": box([3, 3, 3], [3.06, 3.06, 3.06])}
    places = []
    for friction in (1.0, 0.0):
        cube = {"shape": {"mesh": "cube.obj"}, "body": "deformable", "density": 500,
                "position": [0, 0, 0.32], "contact_friction": friction}  # fmt: skip
        slope = {"shape": box([-1, -1, -0.2], [1, 1, 0.2]), "rotation": [0, 10, 0],
                 "contact_friction": 1.0}  # fmt: skip
        with Simulation(scene(tmp_path, [slope, cube], away), timed=False) as sim:
            sim.advance(20)
            places.append(sim.deformables.bodies[0].position.mean(axis=0))
    assert np.linalg.norm(places[0] - [0.04, 0, 0.3]) < 0.06
    # Down a slope of 10 degrees, 0.8 s: half g sin(10) t^2 along it, at most.
    assert 0.2 < places[1][0] < 0.04 + 0.5 * G * np.sin(np.radians(10)) * 0.8**2


def test_device_and_reference_agree(tmp_path: Path) -> None:
    block = {"shape": box([-0.24, -0.12, -0.12], [-0.06, 0.12, 0.12]), "velocity": [2, 0, 0]}
    setup = scene(tmp_path, [cloth(tmp_path, mass=0.5)], block)
    found = []
    for device in ("auto", "reference"):
        with Simulation(setup, device=device, timed=False) as sim:
            for _ in range(4):
                sim.step()
            found.append(sim.deformables.bodies[0].velocity.copy())
    assert np.abs(found[1]).max() > 0.5
    np.testing.assert_allclose(found[0], found[1], atol=2e-3 * np.abs(found[1]).max())


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
