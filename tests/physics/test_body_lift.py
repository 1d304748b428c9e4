"""Bodies that start flush on a floor or wall, under water: a film below carries the pressure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runnel import RunnelError, Scene, Simulation

from .setups import G, box
from .test_bodies import D, body, draft, inside, scene

EDGE = 8  # of a box [spacings]
SIZE = EDGE * D


def tank(deep: float = 2 * SIZE) -> tuple[dict[str, Any], dict[str, Any]]:
    """3 boxes wide, and the water in it."""
    wide = 3 * SIZE
    return inside(box([0] * 3, [wide, wide, 4 * SIZE])), box([0] * 3, [wide, wide, deep])


def crate(ratio: float, **keys: Any) -> dict[str, Any]:
    """On the floor, in the middle."""
    shape = box([SIZE, SIZE, 0], [2 * SIZE, 2 * SIZE, SIZE])
    return body(shape, density=1000 * ratio, **({"lock_rotation": ["x", "y", "z"]} | keys))


def sunk(ratio: float, dt: float, **keys: Any) -> Scene:
    walls, water = tank()
    return scene([walls, crate(ratio, **keys)], [water], time_step=dt)


@pytest.mark.parametrize(
    ("ratio", "dt"), [(0.5, 0.008), (0.2, 0.016), pytest.param(0.5, 0.004, marks=pytest.mark.slow)]
)
def test_flush_box_rises_and_floats(ratio: float, dt: float) -> None:
    drafts, fastest = [], 0.0
    with Simulation(sunk(ratio, dt), timed=False) as sim:
        for frame in range(1, 41):
            sim.advance(frame)
            drafts.append(draft(sim, EDGE))
            fastest = max(fastest, float(sim.bodies.speeds()[0]))
    assert drafts[0] == pytest.approx(2.1, abs=0.1)
    assert np.mean(drafts[25:]) == pytest.approx(ratio, abs=0.5 / EDGE)
    assert fastest < np.sqrt(2 * G * SIZE)  # it is not shot up


def test_box_a_little_lighter_than_water_leaves_the_floor() -> None:
    """By a spacing: then particles are below, and carry it as they do any body."""
    with Simulation(sunk(0.95, 0.008), timed=False) as sim:
        sim.advance(25)
        assert sim.bodies.centre[0, 2] - SIZE / 2 > 0.8 * D


@pytest.mark.parametrize("dt", [0.008, pytest.param(0.016, marks=pytest.mark.slow)])
def test_heavy_box_stays(dt: float) -> None:
    with Simulation(sunk(1.2, dt, lock_rotation=[]), timed=False) as sim:
        start = sim.bodies.centre.copy()
        for frame in range(1, 31):
            sim.advance(frame)
            if frame > 5:  # the lattice has given way
                assert sim.bodies.speeds()[0] < 0.01
        assert np.abs(sim.bodies.centre - start).max() < 0.05 * D


def write_block(path: Path, half: float) -> None:
    corners = [(x, y, z) for x in (-half, half) for y in (-half, half) for z in (-half, half)]
    lines = [f"v {x} {y} {z}" for x, y, z in corners]
    quads = ("1 2 4 3", "5 7 8 6", "1 5 6 2", "3 4 8 7", "1 3 7 5", "2 6 8 4")
    path.write_text("\n".join([*lines, *(f"f {quad}" for quad in quads)]) + "\n")


@pytest.mark.parametrize("kind", ["sphere", "mesh"])
@pytest.mark.parametrize("ratio", [0.4, 1.4])
def test_other_shapes_rise_if_they_are_lighter(tmp_path: Path, kind: str, ratio: float) -> None:
    write_block(tmp_path / "block.obj", SIZE / 2)
    middle = [1.5 * SIZE, 1.5 * SIZE, SIZE / 2]
    shape: dict[str, Any] = {"sphere": {"center": middle, "radius": SIZE / 2}}
    keys: dict[str, Any] = {}
    if kind == "mesh":
        shape, keys = {"mesh": "block.obj"}, {"position": middle}
    walls, water = tank()
    setup = scene([walls, body(shape, density=1000 * ratio, **keys)], [water], tmp_path,
                  time_step=0.01)  # fmt: skip
    with Simulation(setup, timed=False) as sim:
        sim.advance(30)
        low = sim.bodies.centre[0, 2] - SIZE / 2
    if ratio < 1:
        assert low > 0.7 * SIZE
    else:
        assert low < 1.2 * D


def test_box_beside_shallow_water_stays() -> None:
    """Water at one of its sides only, less deep than its draft; the other three are dry."""
    walls, _ = tank()
    dam = {"shape": box([SIZE - D, 0, 0], [SIZE, SIZE, 2 * SIZE])}
    dam2 = {"shape": box([SIZE - D, 2 * SIZE, 0], [SIZE, 3 * SIZE, 2 * SIZE])}
    shallow = box([0, 0, 0], [SIZE - 2 * D, 3 * SIZE, 0.375 * SIZE])
    setup = scene([walls, dam, dam2, crate(0.6, contact_friction=2.0)], [shallow], time_step=0.01)
    with Simulation(setup, timed=False) as sim:
        for frame in range(1, 21):
            sim.advance(frame)
            assert sim.bodies.centre[0, 2] - SIZE / 2 < 0.1 * D


def test_gate_in_a_corner_keeps_calm() -> None:
    """Flush with the floor and two walls, a little denser than water: nothing throws it."""
    walls, water = tank()
    gate = body(box([0, 0, 0], [3 * D, SIZE, 1.5 * SIZE]), density=1100)
    with Simulation(scene([walls, gate], [water], time_step=0.008), timed=False) as sim:
        for frame in range(1, 26):
            report = sim.advance(frame)
            assert sim.bodies.speeds()[0] < 0.5
            assert report.max_speed < 1.5


@pytest.mark.parametrize("ratio", [0.3, 0.6])
def test_box_afloat_beside_a_wall_keeps_calm(ratio: float) -> None:
    """Flush with it, half under water: the film ends where the water does, and does not pull."""
    walls, water = tank()
    low = (2 - ratio) * SIZE
    afloat = body(box([0, SIZE, low], [SIZE, 2 * SIZE, low + SIZE]), density=1000 * ratio)
    drafts = []
    with Simulation(scene([walls, afloat], [water], time_step=0.008), timed=False) as sim:
        for frame in range(1, 31):
            sim.advance(frame)
            assert sim.bodies.speeds()[0] < 0.6
            drafts.append(draft(sim, EDGE))
            upright = sim.bodies._rotation[0, 2, 2]
            assert upright > 0.9
    assert np.mean(drafts[10:]) == pytest.approx(ratio, abs=1 / EDGE)


@pytest.mark.parametrize("device", ["auto", "reference"])
def test_a_particle_without_a_place_is_told_beside_a_film(device: str) -> None:
    setup = sunk(0.5, 0.008)
    with Simulation(setup, device=device, timed=False) as sim:
        sim.step()
        sim.particles.write("position", [int(sim.particles["id"][5])], [[np.nan, 0.0, 0.0]])
        with pytest.raises(RunnelError, match="particle"):
            sim.advance(2)


def test_stack_of_light_boxes_comes_up() -> None:
    """Two boxes one on the other: both films, below and between, have both their sides."""
    walls, water = tank(3 * SIZE)
    upper = body(box([SIZE, SIZE, SIZE], [2 * SIZE, 2 * SIZE, 2 * SIZE]), density=400)
    setup = scene([walls, crate(0.4, lock_rotation=[]), upper], [water], time_step=0.008)
    with Simulation(setup, timed=False) as sim:
        fastest = 0.0
        for frame in range(1, 31):
            sim.advance(frame)
            fastest = max(fastest, float(sim.bodies.speeds().max()))
        assert (sim.bodies.centre[:, 2] > 2 * SIZE).all()
    assert fastest < 6.0


def test_film_gives_both_bodies_the_same() -> None:
    """Between a box and one below it, nothing of momentum is made; on a floor, the floor has it."""
    walls, water = tank(3 * SIZE)
    upper = body(box([SIZE, SIZE, SIZE], [2 * SIZE, 2 * SIZE, 2 * SIZE]), density=2000)
    setup = scene([walls, crate(2.0), upper], [water], time_step=0.008)
    with Simulation(setup, timed=False) as sim:
        for _ in range(10):
            sim.step()
        between = [f for f in sim.bodies._films._films if len(f.bodies) == 2]
        assert len(between) == 1
        one, other = between[0].weights
        assert np.abs(one[2]).sum() > 0.5 * SIZE**2
        np.testing.assert_allclose(one[:3], -other[:3], atol=1e-12)
        turn = one[3:] + other[3:]  # about two centres, an arm apart
        arm = sim.bodies._films._centres[between[0].bodies]
        expected = np.cross((arm[1] - arm[0])[None], one[:3].T).T
        np.testing.assert_allclose(turn, expected, atol=1e-12)


def test_nothing_flush_asks_for_nothing() -> None:
    """A box that floats between walls: no particle is read back, no pressure asked for."""
    walls, water = tank()
    afloat = body(box([SIZE, SIZE, 1.5 * SIZE], [2 * SIZE, 2 * SIZE, 2.5 * SIZE]), density=500)
    with Simulation(scene([walls, afloat], [water], time_step=0.008), timed=False) as sim:
        backend = sim._backend

        def refuse(*_: Any) -> Any:
            raise AssertionError("nothing is flush")

        backend.rim = backend.multipliers = refuse  # type: ignore[method-assign]
        sim.advance(2)


def test_resumed_rise_is_the_same_to_the_bit() -> None:
    setup = sunk(0.5, 0.008, lock_rotation=[])
    with Simulation(setup, timed=False) as sim:
        sim.advance(1)
        state = sim.state()
        sim.advance(3)
        expected = sim.bodies.state() | {"x": sim.particles["position"]}
    with Simulation(setup, timed=False) as sim:
        sim.restore(*state)
        sim.advance(3)
        found = sim.bodies.state() | {"x": sim.particles["position"]}
    assert expected["body_centre"][0, 2] > SIZE / 2 + 0.2 * D
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


def test_device_and_reference_lift_alike() -> None:
    """In 2D, while the film alone lifts."""
    speeds = []
    for device in ("auto", "reference"):
        walls = inside(box([0, 0], [0.3, 0.4]))
        cube = body(box([0.1, 0], [0.2, 0.1]), density=400)
        setup = scene([walls, cube], [box([0, 0], [0.3, 0.24])], None, 2, time_step=0.008)
        with Simulation(setup, device=device, timed=False) as sim:
            for _ in range(5):
                sim.step()
            speeds.append(sim.bodies.velocity[0].copy())
    assert speeds[1][2] > 0.02
    np.testing.assert_allclose(speeds[0], speeds[1], atol=4e-3 * speeds[1][2])
