"""Rigid bodies in fluid: Archimedes, momentum, contact, and what bad input leads to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from runnel import Scene, SceneError, Simulation

from .setups import G, box

D = 0.02  # spacing [m]


def scene(
    colliders: list[dict[str, Any]], water: list[dict[str, Any]], folder: Path | None = None,
    dimensions: int = 3, gravity: float = G, **solver: Any,
) -> Scene:  # fmt: skip
    down = solver.pop("gravity_vector", [0, 0, -gravity])
    data = {
        "fps": 25, "frames": [0, 1000], "dimensions": dimensions,
        "solver": {"gravity": down, **solver},
        "fluid": [{"name": "water"}],
        "source": [{"fluid": "water", "shape": shape, "spacing": D} for shape in water],
        "collider": colliders,
    }  # fmt: skip
    return Scene.from_dict(data, folder)


def body(shape: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"shape": shape, "body": "rigid"} | keys


def inside(shape: dict[str, Any]) -> dict[str, Any]:
    return {"shape": shape, "mode": "inside"}


def pool(ratio: float, edge: int, *, flat: bool, drop: float = 0.0, **solver: Any) -> Scene:
    """A box of `edge` spacings at Archimedes' draft, or `drop` edges above, in a tank 3 wide."""
    size, n = edge * D, 2 if flat else 3
    wide, deep = 3 * size, 2 * size
    low = deep - ratio * size + drop * size
    corner = (*[size] * (n - 1), low), (*[2 * size] * (n - 1), low + size)
    floating = body(box(*corner), density=1000 * ratio, lock_rotation=["x", "y", "z"])
    tank = inside(box([0] * n, [*[wide] * (n - 1), 2 * deep]))
    water = box([0] * n, [*[wide] * (n - 1), deep])
    return scene([tank, floating], [water], dimensions=n, **solver)


def draft(sim: Simulation, edge: int) -> float:
    """Of the box, over its edge; the level follows from the volume of the water."""
    size, n = edge * D, sim.scene.dimensions
    volume = float(sim.particles.store["volume"].sum(dtype=np.float64))
    low = sim.bodies.centre[0, 2] - size / 2  # type: ignore[union-attr]
    level = (volume - size ** (n - 1) * low) / ((3 * size) ** (n - 1) - size ** (n - 1))
    return (level - low) / size


@pytest.mark.parametrize("ratio", [0.2, 0.5, 0.8])
def test_box_floats_at_archimedes_draft(ratio: float) -> None:
    """ORACLES 14, in 2D: 12 spacings an edge, within a spacing."""
    drafts = []
    with Simulation(pool(ratio, 12, flat=True, drop=0.2, time_step=0.01), timed=False) as sim:
        for frame in range(1, 51):
            sim.advance(frame)
            drafts.append(draft(sim, 12))
    assert np.mean(drafts[25:]) == pytest.approx(ratio, abs=1 / 12)
    assert np.ptp(drafts[25:]) < np.ptp(drafts[:25])  # bobbing dies down
    assert max(drafts) > ratio  # and there was some: it fell in from above


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [0.05, 0.5, 0.8])
def test_box_floats_in_long_steps(ratio: float) -> None:
    """In 3D, at 16 ms: light bodies are where coupling by turns explodes."""
    with Simulation(pool(ratio, 8, flat=False, time_step=0.016), timed=False) as sim:
        drafts = []
        for frame in range(1, 26):
            report = sim.advance(frame)
            drafts.append(draft(sim, 8))
            assert report.max_speed < 0.5
    assert np.mean(drafts[8:]) == pytest.approx(ratio, abs=0.5 / 8)


def test_heavy_box_sinks_and_equal_one_drifts() -> None:
    size = 8 * D
    with Simulation(pool(1.0, 8, flat=True, drop=-0.2, time_step=0.008), timed=False) as sim:
        start = sim.bodies.centre[0, 2]
        sim.advance(10)
        assert abs(sim.bodies.centre[0, 2] - start) / 0.4 < 0.1 * np.sqrt(G * size)
    with Simulation(pool(1.2, 8, flat=True, drop=-0.2, time_step=0.008), timed=False) as sim:
        sim.advance(40)
        # One layer of particles stays below: there is no room to press it out through.
        assert sim.bodies.centre[0, 2] < size / 2 + 1.5 * D


def test_sphere_bobs_at_its_period() -> None:
    """Half as dense as water: m w^2 (1 + c) = rho g A, c its added mass over that displaced, 0.83
    for slow and 0.5 for fast bobbing in wide water; a tank adds to it."""
    r, wide, deep, d = 0.15, 0.6, 0.36, 0.03
    ball = body({"sphere": {"center": [wide / 2, wide / 2, deep + 0.5 * r], "radius": r}},
                density=500)  # fmt: skip
    tank = inside(box([0, 0, 0], [wide, wide, 0.9]))
    setup = scene([tank, ball], [box([0, 0, 0], [wide, wide, deep])], time_step=0.01)
    setup = setup.with_overrides([f"source[0].spacing={d}"])
    heights = []
    with Simulation(setup, timed=False) as sim:
        water = float(sim.particles["volume"].sum(dtype=np.float64))
        level = (water + 0.5 * 4 / 3 * np.pi * r**3) / wide**2
        for frame in range(1, 61):
            sim.advance(frame)
            heights.append(sim.bodies.centre[0, 2] - level)
    late = np.array(heights[8:])
    assert abs(late.mean()) < 0.5 * d
    down = np.flatnonzero((late[1:] < 0) & (late[:-1] >= 0))
    assert len(down) >= 2
    period = (down[-1] - down[0]) / (len(down) - 1) / 25
    least, most = (2 * np.pi * np.sqrt(2 / 3 * r / G * (1 + c)) for c in (0.5, 0.83))
    assert 0.9 * least < period < 1.2 * most


def totals(sim: Simulation) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Linear and angular momentum of everything."""
    mass = sim.particles["mass"].astype(np.float64)[:, None]
    linear = mass * sim.particles["velocity"]
    p, turn = sim.bodies.momentum()
    return p + linear.sum(axis=0), turn + np.cross(sim.particles["position"], linear).sum(axis=0)


def thrown_at_water(
    kind: str, spacing: float, dt: float, times: float = 1.0, off: float = 0.0
) -> Scene:
    """A spinning body hits a block of water; no gravity, no walls. `times` as fast, `off` the
    origin along each axis."""

    def at(*place: float) -> list[float]:
        return [off + x for x in place]

    shape = box(at(-0.08, -0.08, 0.14), at(0.08, 0.08, 0.3))
    if kind == "sphere":
        shape = {"sphere": {"center": at(0.03, 0, 0.22), "radius": 0.08}}
    thrown = body(
        shape,
        velocity=[times * v for v in (0.2, 0.1, -1.5)],
        angular_velocity=[times * w for w in (100, 50, 30)],
        friction=0.3,
        bounce=0.2,
    )
    water = box(at(-0.12, -0.12, -0.12), at(0.12, 0.12, 0.12))
    setup = scene([thrown], [water], gravity=0.0, time_step=dt)
    return setup.with_overrides([f"source[0].spacing={spacing}"])


def losses(setup: Scene, steps: int) -> tuple[float, float]:
    """Worst change of linear momentum over what was exchanged, and of angular momentum over that
    times 0.2 m, of fluid and body together."""
    with Simulation(setup, timed=False) as sim:
        (p0, l0), own = totals(sim), sim.bodies.momentum()[0]
        exchanged = linear = angular = 0.0
        for k in range(steps):
            sim.step()
            if k % 10 == 9:
                exchanged = max(exchanged, float(np.linalg.norm(sim.bodies.momentum()[0] - own)))
                p, turn = totals(sim)
                linear = max(linear, float(np.linalg.norm(p - p0)))
                angular = max(angular, float(np.linalg.norm(turn - l0)))
    assert exchanged > 0.3 * np.linalg.norm(own)
    return linear / exchanged, angular / (0.2 * exchanged)


@pytest.mark.parametrize("kind", ["box", "sphere"])
def test_momentum_is_kept(kind: str) -> None:
    """ORACLES 5, small. Particles push each other along lines that turn within a step: of angular
    momentum that much is lost by the fluid itself (docs/theory/bodies.md)."""
    linear, angular = losses(thrown_at_water(kind, D, 0.004), 150)
    assert linear < 1e-6
    assert angular < 1e-3


@pytest.mark.parametrize("off", [0.0, 1.0, 10.0])
def test_gentle_impacts_keep_momentum_anywhere(off: float) -> None:
    """Corrections there are below the last digit of positions, 1e-6 m at 10 m: 5e-3, 8e-2 and 2e-1
    were lost while velocities were taken from those."""
    linear, _ = losses(thrown_at_water("sphere", D, 0.002, 0.1, off), 400)
    assert linear < 1e-6


@pytest.mark.slow
def test_momentum_is_kept_over_500_steps() -> None:
    """ORACLES 5 as written: 19 000 particles. Its 1e-4 holds of linear momentum."""
    linear, angular = losses(thrown_at_water("box", 0.009, 0.002), 500)
    assert linear < 1e-6
    assert angular < 1e-3


def test_gravity_adds_its_impulse_and_nothing_else() -> None:
    """ORACLES 5: dP = M g t of fluid and body together, while they meet in free fall."""
    setup = thrown_at_water("sphere", D, 0.004).with_overrides(["solver.gravity=[0, 0, -9.81]"])
    with Simulation(setup, timed=False) as sim:
        p0, own = totals(sim)[0], sim.bodies.velocity[0].copy()
        mass = float(sim.particles["mass"].sum(dtype=np.float64)) + sim.bodies.mass[0]
        for _ in range(100):
            sim.step()
        given = np.array([0, 0, -mass * G * sim.time])
        fell = own - np.array([0, 0, G * sim.time])
        exchanged = sim.bodies.mass[0] * float(np.linalg.norm(sim.bodies.velocity[0] - fell))
        assert exchanged > 0.1
        assert np.linalg.norm(totals(sim)[0] - p0 - given) < 1e-4 * exchanged


def test_locked_axes_stay_and_others_move() -> None:
    setup = thrown_at_water("box", D, 0.004)
    locks = ["collider[0].lock_translation=['x']", "collider[0].lock_rotation=['y', 'z']"]
    with Simulation(setup.with_overrides(locks), timed=False) as sim:
        start = sim.bodies.centre[0].copy()
        for _ in range(60):
            sim.step()
        centre, turn = sim.bodies.centre[0], sim.bodies.angular_velocity()[0]
        assert centre[0] == start[0]
        assert (turn[1:] == 0).all()
        assert np.abs(centre[1:] - start[1:]).min() > 1e-3
        assert abs(turn[0]) > 0.01


def test_what_stops_fast_water_gets_its_momentum() -> None:
    """At a plate thinner than their way in a step, ahead of all corrections."""
    plate = body(box([-0.16, -0.16, 0.125], [0.16, 0.16, 0.15]))
    setup = scene([plate], [box([-0.12] * 3, [0.12] * 3)], gravity=0.0, time_step=0.008)
    with Simulation(setup.with_overrides(["source[0].velocity=[0, 0, 12]"]), timed=False) as sim:
        start, stopped = totals(sim)[0], 0.0
        find = sim._backend.find_neighbors

        def watched() -> None:
            nonlocal stopped
            stopped = max(stopped, float(sim.bodies.momentum()[0][2]))
            find()

        sim._backend.find_neighbors = watched  # type: ignore[method-assign]
        sim.step()
        given = sim.bodies.momentum()[0][2]
        assert 0.02 * given < stopped
        np.testing.assert_allclose(totals(sim)[0], start, atol=1e-4 * given)


def test_velocity_pass_gives_back_all_that_it_takes() -> None:
    """Friction and bounce alone, in angular momentum too: to rounding."""
    ball = body({"sphere": {"center": [0, 0, 0.13], "radius": 0.07}}, friction=0.8, bounce=0.5,
                velocity=[0.5, 0, -1], angular_velocity=[0, 400, 0])  # fmt: skip
    with Simulation(
        scene([ball], [box([-0.1] * 3, [0.1, 0.1, 0.06])], gravity=0.0, time_step=0.004),
        timed=False,
    ) as sim:
        backend, seen, mass = sim._backend, [], 1000 * D**3
        original = backend.update_velocities

        def free() -> np.ndarray:
            """Momenta if nothing bounced or rubbed."""
            x, v = (backend.read(n).astype(np.float64) for n in ("position", "velocity"))
            to = backend.read("predicted").astype(np.float64)
            return mass * (v + (to - (x + backend._dt * v)) / backend._dt)  # type: ignore[attr-defined]

        before = np.zeros((0, 3))

        def watched(at_bodies: bool | None = None) -> None:
            nonlocal before
            if at_bodies is False:  # nearly all particles, the others follow
                before = free()
                original(at_bodies=False)
                return
            original(at_bodies=at_bodies)
            to = backend.read("predicted").astype(np.float64)
            change = mass * backend.read("velocity").astype(np.float64) - before
            back = backend.reactions()()[0]
            centre = sim.bodies.table[0, :3].astype(np.float64)
            turn = np.cross(to - centre, change).sum(axis=0)
            seen.append((change.sum(axis=0) + back[:3], turn + back[3:], np.abs(change).sum()))

        backend.update_velocities = watched  # type: ignore[method-assign]
        for _ in range(8):
            sim.step()
    size = max(amount for *_, amount in seen)
    assert size > 0
    for linear, angular, _ in seen:
        assert np.abs(linear).max() < 2e-5 * size
        assert np.abs(angular).max() < 2e-5 * size * 0.1


def far_drop() -> list[dict[str, Any]]:
    return [box([0, 0, 0], [0.08, 0.08, 0.04])]


def test_stack_stands_and_sleeps() -> None:
    stack = [body(box([0.5, 0.4, 0.1 * k], [0.6, 0.5, 0.1 * k + 0.1])) for k in range(5)]
    tank = inside(box([0, 0, 0], [1, 1, 1]))
    with Simulation(scene([tank, *stack], far_drop(), time_step=0.01), timed=False) as sim:
        start = sim.bodies.centre.copy()
        sim.advance(40)
        assert np.abs(sim.bodies.centre - start).max() < 0.002
        assert (sim.bodies.calm >= 0.5).all()
        assert (sim.bodies.velocity == 0).all()


def test_flight_is_ballistic_after_keyframes_end() -> None:
    """Driven at 1 m/s along x for 0.4 s, then free."""
    thrown = body({"sphere": {"center": [0, 0, 1], "radius": 0.05}})
    thrown["motion"] = [{"frame": 0}, {"frame": 10, "position": [0.4, 0, 0]}]
    with Simulation(scene([thrown], far_drop(), time_step=0.005), timed=False) as sim:
        sim.advance(5)
        np.testing.assert_allclose(sim.bodies.centre[0], [0.2, 0, 1], atol=1e-6)
        sim.advance(15)
        # Symplectic Euler: g dt^2 n (n + 1) / 2.
        n = 40
        fall = G * 0.005**2 * n * (n + 1) / 2
        np.testing.assert_allclose(sim.bodies.centre[0], [0.6, 0, 1 - fall], atol=1e-6)


def test_turning_goes_on_after_keyframes_end() -> None:
    """A quarter of a turn about z in 0.4 s, then free: pi / 0.8 rad/s."""
    thrown = body(box([-0.1, -0.05, 1.0], [0.1, 0.05, 1.1]))
    thrown["motion"] = [{"frame": 0}, {"frame": 10, "rotation": [0, 0, 90]}]
    with Simulation(scene([thrown], far_drop(), time_step=0.005), timed=False) as sim:
        sim.advance(15)
        np.testing.assert_allclose(sim.bodies.angular_velocity()[0], [0, 0, np.pi / 0.8], atol=1e-3)


@pytest.mark.parametrize(("friction", "slides"), [(0.7, False), (0.3, True)])
def test_box_on_a_slope(friction: float, slides: bool) -> None:
    """27 degrees, tan 0.5: it stands above, and below goes at g (sin a - mu cos a)."""
    a = np.arctan(0.5)
    crate = body(box([0.1, 0.1, 0], [0.2, 0.2, 0.05]), contact_friction=friction)
    tank = inside(box([0, 0, 0], [4, 1, 1])) | {"contact_friction": friction}
    setup = scene([tank, crate], [box([3.9, 0.9, 0], [3.98, 0.98, 0.04])], time_step=0.005,
                  gravity_vector=[G * float(np.sin(a)), 0, -G * float(np.cos(a))])  # fmt: skip
    with Simulation(setup, timed=False) as sim:
        start = sim.bodies.centre[0, 0]
        sim.advance(15)
        way = sim.bodies.centre[0, 0] - start
        expected = 0.5 * G * (np.sin(a) - friction * np.cos(a)) * sim.time**2
    assert way == pytest.approx(expected if slides else 0.0, abs=0.05 * abs(expected))


def test_free_body_keeps_spin() -> None:
    spun = body(box([0, 0, 0], [0.1, 0.2, 0.3]), angular_velocity=[300, 50, 200])
    with Simulation(scene([spun], [box([5, 5, 5], [5.08, 5.08, 5.04])], gravity=0.0)) as sim:
        spin = sim.bodies.spin.copy()
        sim.advance(25)
        np.testing.assert_allclose(sim.bodies.spin, spin, rtol=1e-12)
        np.testing.assert_allclose(sim.bodies.centre[0], [0.05, 0.1, 0.15], atol=1e-12)


def test_overlapping_bodies_part_calmly() -> None:
    pair = [
        body(box([0.1, 0.1, 0.3], [0.2, 0.2, 0.4])),
        body(box([0.15, 0.1, 0.3], [0.25, 0.2, 0.4])),
    ]
    with Simulation(scene(pair, far_drop(), gravity=0.0, time_step=0.01), timed=False) as sim:
        fastest = 0.0
        for frame in range(1, 26):
            sim.advance(frame)
            fastest = max(fastest, float(sim.bodies.speeds().max()))
    assert fastest < 0.1
    assert np.abs(np.diff(sim.bodies.centre[:, 0]))[0] > 0.09


@pytest.mark.parametrize(
    "low", [[0.3, 0.3, -0.04], [-0.04, 0.3, 0.2], [0.44, 0.3, 0.3], [0.3, 0.3, 0.3]]
)
def test_starts_within_something_are_settled(low: list[float]) -> None:
    """In the floor, in a wall, in another box, and just where that is."""
    other = body(box([0.3, 0.3, 0.3], [0.5, 0.5, 0.5]))
    crate = body(box(low, [x + 0.2 for x in low]))
    tank = inside(box([0, 0, 0], [1, 1, 1]))
    with Simulation(scene([tank, other, crate], far_drop(), time_step=0.01), timed=False) as sim:
        fastest = 0.0
        for frame in range(1, 41):
            sim.advance(frame)
            fastest = max(fastest, float(np.linalg.norm(sim.bodies.velocity, axis=1).max()))
        assert fastest < np.sqrt(2 * G * 0.4)  # no faster than by falling
        assert (sim.bodies.centre > 0.05).all()
        assert (sim.bodies.centre < 0.95).all()


def test_hundred_bodies() -> None:
    """Dropped together into a tank: they stay in it and out of each other, nothing goes faster
    than by falling as far as there is to fall, and the light ones rise above the heavy ones."""
    light = np.array([(k + k // 4) % 2 for k in range(100)], bool)  # by turns, at all heights
    many = [
        body({"sphere": {"center": [x, y, z], "radius": 0.04}}, density=200 if light[k] else 1600)
        for k, (x, y, z) in enumerate(
            (0.06 + 0.1 * i, 0.06 + 0.1 * j, 0.2 + 0.1 * m)
            for i in range(5) for j in range(5) for m in range(4)
        )
    ]  # fmt: skip
    tank = inside(box([0, 0, 0], [0.52, 0.52, 0.8]))
    setup = scene([tank, *many], [box([0, 0, 0], [0.52, 0.52, 0.16])])
    fastest = np.sqrt(2 * G * 0.5)
    with Simulation(setup, timed=False) as sim:
        for frame in range(1, 21):
            report = sim.advance(frame)
            x = sim.bodies.centre
            assert (x > 0.038).all()
            assert (x[:, :2] < 0.482).all()
            assert (np.linalg.norm(x[:, None] - x, axis=2) + np.eye(100)).min() > 0.078
            assert np.linalg.norm(sim.bodies.velocity, axis=1).max() < fastest
            assert np.linalg.norm(sim.particles["velocity"], axis=1).max() < fastest
        assert len(sim.bodies) == len(report.bodies) == 100
        assert x[light, 2].mean() > x[~light, 2].mean() + 0.05  # 0 at first


def write_cross(path: Path, arm: float, half: float, depth: float) -> None:
    """A plus sign in the plane of x and z: two boxes that cross."""
    parts = [(half, arm), (arm, half)]
    lines, faces = [], []
    for k, (x, z) in enumerate(parts):
        corners = [(a, b, c) for a in (-x, x) for b in (-depth, depth) for c in (-z, z)]
        lines += [f"v {a} {b} {c}" for a, b, c in corners]
        for quad in (
            (0, 1, 3, 2),
            (4, 6, 7, 5),
            (0, 4, 5, 1),
            (2, 3, 7, 6),
            (0, 2, 6, 4),
            (1, 5, 7, 3),
        ):
            faces.append("f " + " ".join(str(8 * k + 1 + i) for i in quad))
    path.write_text("\n".join(lines + faces) + "\n")


def test_a_body_lies_on_what_deforms(tmp_path: Path) -> None:
    """A floor, file by file 1 cm higher and 1 cm wider: a box on it is lifted along with it."""
    for frame in range(11):
        end, top = 0.3 + 0.01 * frame, 0.01 * frame
        corners = [(x, y, z) for x in (-end, end) for y in (-end, end) for z in (-0.2, top)]
        lines = [f"v {x} {y} {z}" for x, y, z in corners]
        quads = ("1 2 4 3", "5 7 8 6", "1 5 6 2", "3 4 8 7", "1 3 7 5", "2 6 8 4")
        text = "\n".join([*lines, *(f"f {quad}" for quad in quads)]) + "\n"
        (tmp_path / f"floor_{frame:02}.obj").write_text(text)
    floor = {"shape": {"mesh": "floor_##.obj"}}
    crate = body(box([-0.1] * 2 + [0.005], [0.1] * 2 + [0.205]), density=500)
    water = box([0.2, 0.2, 1.0], [0.24, 0.24, 1.04])
    data = scene([floor, crate], [water], tmp_path).to_dict()
    with Simulation(Scene.from_dict({**data, "frames": [0, 10]}, tmp_path), timed=False) as sim:
        sim.advance(10)
        assert sim.bodies.centre[0, 2] - 0.1 == pytest.approx(0.1, abs=0.02)
        assert abs(sim.bodies.centre[0, :2]).max() < 0.02


def test_waterwheel_reaches_a_steady_rate(tmp_path: Path) -> None:
    """A jet on the paddles of a wheel, in 2D: it turns the way it is pushed, at the jet's speed at
    most, and no faster in the end than a little before."""
    write_cross(tmp_path / "cross.obj", 0.2, 0.03, 0.5)
    wheel = body({"mesh": "cross.obj"}, density=1500, lock_translation=["x", "y", "z"])
    setup = scene([wheel], [box([0.4, 1.0], [0.44, 1.04])], tmp_path, 2)
    data = setup.to_dict()
    data["source"] = [{
        "fluid": "water", "kind": "emitter", "spacing": D, "speed": 4.0, "velocity": [1, 0, 0],
        "shape": box([-0.4, 0.12], [-0.36, 0.2]), "lifetime": 0.5,
    }]  # fmt: skip
    rates = []
    with Simulation(Scene.from_dict(data, tmp_path), timed=False) as sim:
        for frame in range(1, 51):
            sim.advance(frame)
            rates.append(float(sim.bodies.angular_velocity()[0, 1]))
    late, later = np.mean(rates[20:35]), np.mean(rates[35:])
    assert 1.0 < later < 4.0 / 0.12  # about +y, from z to x
    assert later == pytest.approx(late, rel=0.25)


def test_symmetry_is_kept() -> None:
    """A box dropped in the middle of a 2D tank stays there for a while."""
    with Simulation(pool(0.5, 10, flat=True, drop=0.3, time_step=0.004), timed=False) as sim:
        middle = sim.bodies.centre[0, 0]
        sim.advance(12)
        assert abs(sim.bodies.centre[0, 0] - middle) < 0.25 * D


def test_resumed_run_is_the_same_to_the_bit() -> None:
    setup = pool(0.3, 6, flat=False, drop=0.5, time_step=0.008)
    with Simulation(setup, timed=False) as sim:
        sim.advance(3)
        state = sim.state()
        sim.advance(6)
        expected = sim.bodies.state() | {"x": sim.particles["position"]}
    with Simulation(setup, timed=False) as sim:
        sim.restore(*state)
        sim.advance(6)
        found = sim.bodies.state() | {"x": sim.particles["position"]}
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


def test_device_and_reference_agree() -> None:
    """A few steps of a box and a ball, side by side in the water."""
    states = []
    for device in ("auto", "reference"):
        ball = body({"sphere": {"center": [0.26, 0, 0.11], "radius": 0.05}}, friction=0.5)
        cube = body(box([0.06, 0.06], [0.18, 0.18]), density=300, friction=0.2, bounce=0.3)
        tank = inside(box([0, 0], [0.36, 0.3]))
        setup = scene([tank, ball, cube], [box([0, 0], [0.36, 0.16])], None, 2, time_step=0.008)
        with Simulation(setup, device=device, timed=False) as sim:
            for _ in range(3):
                sim.step()
            states.append((sim.bodies.velocity.copy(), sim.bodies.angular_velocity()))
    for found, expected in zip(*states, strict=True):
        size = float(np.abs(expected).max())
        np.testing.assert_allclose(found, expected, atol=2e-3 * size)


BALL = {"sphere": {"center": [0, 0, 0], "radius": 1}}
OPEN = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 2 3\nf 1 3 4\nf 1 4 2\n"


@pytest.mark.parametrize(
    ("part", "key", "words"),
    [
        ({"shape": BALL, "mass": 0}, "mass", "between"),
        ({"shape": BALL, "density": -1}, "density", "between"),
        ({"shape": {"plane": {"normal": [0, 0, 1]}}}, "body", "no plane"),
        ({"shape": BALL, "mode": "inside"}, "body", "solid"),
        ({"shape": {"mesh": "open.obj"}}, "shape.mesh", "open"),
    ],
)  # fmt: skip
def test_bad_bodies_are_refused(tmp_path: Path, part: dict[str, Any], key: str, words: str) -> None:
    (tmp_path / "open.obj").write_text(OPEN)
    with pytest.raises(SceneError, match=words) as caught:
        Simulation(scene([part | {"body": "rigid"}], [box([3, 3, 3], [3.1, 3.1, 3.1])], tmp_path))
    assert caught.value.key == f"collider[0].{key}"
