"""Motion that is known in closed form: falling, flying, being blown, pushed, stopped, removed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial import cKDTree

from .setups import (
    FPS,
    G,
    box,
    center_of_mass,
    column,
    mass,
    position,
    run,
    scene,
    tank,
    velocity,
    volume,
)

D = 1 / 8  # spacing of most scenes here [m]
DT = 1 / 64  # one step a frame [s]
EVEN = {"time_step": DT}
WEIGHTLESS = {"time_step": DT, "gravity": [0, 0, 0]}


def block(side: int, corner=(0.0, 0.0, 0.0), speed=(0.0, 0.0, 0.0), solver=EVEN, **keys):
    """A cube of side^3 particles, its centre at `corner`; one step a frame."""
    low = [c - side * D / 2 for c in corner]
    high = [c + side * D / 2 for c in corner]
    source = volume(low, high, D, velocity=list(speed))
    return scene(source=[source], solver=solver, **{"fps": 1 / solver["time_step"], **keys})


def plane(normal, **keys):
    return {"shape": {"plane": {"normal": list(normal)}}, **keys}


def fallen(steps: int, dt: float = DT) -> float:
    """Way of a fall from rest, exact for the solver's (symplectic Euler) steps [m]."""
    return G * dt**2 * steps * (steps + 1) / 2


# --- without contact ------------------------------------------------------------------------------


def test_free_fall(backend_name):
    """A block at rest density falls as one, each particle exactly as the step says."""
    start = np.array([0.5, 0.25, 1.0])
    seen = [position(sim) for sim in run(block(10, speed=start), 12 * DT, backend_name)]
    way = 12 * DT * start - [0, 0, fallen(12)]
    assert len(seen[0]) == 1000
    assert np.abs(seen[-1] - seen[0] - way).max() <= 1e-6 * 10 * D
    shape = [x - x.mean(axis=0) for x in (seen[0], seen[-1])]
    assert np.abs(shape[1] - shape[0]).max() <= 1e-5 * D


def test_long_fall():
    """A fall of a second: 5 m to one millionth, and the block is still a block."""
    seen = [position(sim) for sim in run(block(10), 1.0)]
    assert seen[-1].mean(axis=0) == pytest.approx(np.array([0, 0, -fallen(64)]), abs=5e-6)
    shape = [x - x.mean(axis=0) for x in (seen[0], seen[-1])]
    assert np.abs(shape[1] - shape[0]).max() <= 1e-3 * D


def test_teleport_adds_no_inertia(backend_name):
    """Particles that users move between steps arrive with the velocity they had (row A09)."""
    away = np.array([3.0, -2.0, 5.0], np.float32)
    for sim in run(block(4), 20 * DT, backend_name):
        if sim.frame == 10:
            ids, start = sim.particles["id"], sim.particles["position"]
            half = ids[: len(ids) // 2]
            sim.particles.write("position", half, start[: len(half)] + away)
        v, x = velocity(sim), position(sim)
    assert np.abs(v - [0, 0, -20 * G * DT]).max() <= 1e-4
    moved = x - [0, 0, fallen(10) - fallen(20)] - start
    assert np.abs(moved[: len(half)] - away).max() <= 1e-4
    assert np.abs(moved[len(half) :]).max() <= 1e-4


def test_velocity_can_be_set(backend_name):
    """A velocity that users set is the one the next step starts from, whatever was before."""
    for sim in run(block(4, speed=(-3, 1, 2)), 11 * DT, backend_name):
        if sim.frame == 10:
            ids = sim.particles["id"]
            sim.particles.write("velocity", ids, np.tile(np.float32([1, 0, 0]), (len(ids), 1)))
        v = velocity(sim)
    assert np.abs(v - [1, 0, -G * DT]).max() <= 1e-5


# --- emitters -------------------------------------------------------------------------------------


def jet(speed: float, width: float, spacing: float, *, angle: float = 0.0, **keys):
    """A square stream (2D: a sheet) from 1 m above the origin, `angle` [deg] up from the x axis."""
    nozzle = {
        "name": "nozzle",
        "fluid": "water",
        "kind": "emitter",
        "shape": box((-spacing, -width / 2, -width / 2), (spacing, width / 2, width / 2)),
        "spacing": spacing,
        "velocity": [speed, 0, 0],
        "rotation": [0, -angle, 0],
        "position": [0, 0, 1],
    }
    return scene(source=[nozzle], **keys)


def landing(jet_scene, seconds: float):
    """Where particles cross z = 0 [m]; particles emitted; the time [s]; speeds along x [m/s]."""
    crossings, before, speeds = [], {}, []
    for sim in run(jet_scene, seconds):
        now = dict(zip(sim.particles["id"].tolist(), position(sim).tolist(), strict=True))
        for key, (x0, _, z0) in before.items():
            x1, _, z1 = now[key]
            if z0 > 0 >= z1:
                crossings.append(x0 + (x1 - x0) * z0 / (z0 - z1))
        before = now
        speeds.append(velocity(sim)[:, 0])
    emitted = sim.ledger.emitted["nozzle"].count
    return np.array(crossings), emitted, sim.time, np.concatenate(speeds)


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize(
    ("speed", "width", "step"),
    [
        (6.0, 0.1, "auto"),
        (3.0, 0.2, "auto"),
        (3.0, 0.2, 0.001),
        (3.0, 0.2, 0.002),
        (3.0, 0.2, 0.004),
        (3.0, 0.2, 0.016),
    ],
)
def test_jet_lands_where_a_stone_would(speed, width, step, dimensions):
    """A level jet at speed v from height h: Q t / V_p particles, and a range of v sqrt(2 h / g).

    No particle is thrown out of the stream on its way, however many steps a layer takes.
    """
    spacing = 0.02
    fps = 62.5 if step == 0.016 else FPS
    stream = jet(speed, width, spacing, solver={"time_step": step}, fps=fps, dimensions=dimensions)
    crossings, emitted, time, speeds = landing(stream, 0.56)
    assert speeds == pytest.approx(np.full(len(speeds), speed), rel=0.05)
    area = width ** (dimensions - 1)
    assert emitted == pytest.approx(area * speed * time / spacing**dimensions, rel=0.01)
    assert crossings.mean() == pytest.approx(speed * math.sqrt(2 / G), rel=0.01)
    assert np.ptp(crossings) <= 4 * width


@pytest.mark.parametrize("step", [0.004, "auto", 0.016])
def test_wide_jet_leaves_upwards_at_its_speed(step):
    """Against gravity too: the first h of the way at the stream's speed, all particles there."""
    speed, width, spacing, fps = 4.0, 0.2, 0.02, 62.5
    solver = {"time_step": step}
    # What has just left the nozzle has fallen freely for up to a step, a third of a frame here.
    slack = 0.03 * speed + G / fps / 3
    for sim in run(jet(speed, width, spacing, angle=90, solver=solver, fps=fps), 0.32):
        x, v = position(sim), velocity(sim)
        near = x[:, 2] < 1 + 2.2 * spacing
        assert np.abs(v[near] - [0, 0, speed]).max(initial=0.0) <= slack
        assert np.linalg.norm(v, axis=1).max(initial=0.0) <= 1.03 * speed
    count = width**2 * speed * sim.time / spacing**3
    assert sim.ledger.emitted["nozzle"].count == pytest.approx(count, rel=0.01)


def test_jet_rises_as_high_as_a_stone_would():
    """A jet at speed v, 60 degrees up: where it turns, its middle has risen by (v sin 60)^2 / 2g.

    There the stream is half as fast and twice as wide: its upper edge lies higher than that.
    """
    speed, width, spacing = 4.0, 0.06, 0.02
    up, along = speed * math.sin(math.pi / 3), speed * math.cos(math.pi / 3)
    heights = []
    for sim in run(jet(speed, width, spacing, angle=60), 0.6):
        x = position(sim)
        heights.extend(x[np.abs(x[:, 0] - along * up / G) < spacing, 2])
    assert np.mean(heights) - 1.0 == pytest.approx(up**2 / 2 / G, rel=0.01)
    count = width**2 * speed * sim.time / spacing**3
    assert sim.particles.count == pytest.approx(count, rel=0.01)


# --- forces ---------------------------------------------------------------------------------------


def test_wind_carries_fluid_to_its_own_speed(backend_name):
    """dv/dt = k (u - v) + g: v(t) = (u + g/k)(1 - exp(-k t)), at last u + g/k."""
    wind = {"kind": "wind", "strength": 5.0, "velocity": [2, 0, 1]}
    last = np.array([2, 0, 1 - G / 5])
    for sim in run(block(2, force=[wind]), 2.0, backend_name):
        growth = 1 - (1 - 5.0 * DT) ** sim.frame  # of explicit steps; tends to the exponential
        assert np.abs(velocity(sim) - growth * last).max() <= 1e-4
    assert np.abs(velocity(sim) - last).max() <= 1e-3


def test_a_wind_that_rises(backend_name):
    """dv/dt = k t (u - v): v(t) = u (1 - exp(-k t^2 / 2)), whichever way a keyframe cuts it."""
    rate = 6.0 * DT  # 1/s a frame
    keys = [{"frame": n, "strength": rate * n} for n in (0, 13, 64)]
    wind = {"kind": "wind", "strength": 99.0, "velocity": [2, 0, 1], "keyframes": keys}
    for sim in run(block(2, solver=WEIGHTLESS, force=[wind]), 1.0, backend_name):
        growth = 1 - np.prod([1 - DT * rate * n for n in range(sim.frame)])  # of explicit steps
        assert np.abs(velocity(sim) - growth * np.array([2, 0, 1])).max() <= 1e-4
    assert growth == pytest.approx(1 - math.exp(-6.0 / 2), rel=0.02)


def test_drag_stops_fluid():
    """Drag is wind that stands still."""
    drag = {"kind": "drag", "strength": 5.0}
    for sim in run(block(2, speed=(3, 0, 0), solver=WEIGHTLESS, force=[drag]), 1.0):
        v = velocity(sim)
    assert np.abs(v - [3 * (1 - 5 * DT) ** 64, 0, 0]).max() <= 1e-4


def test_point_force_pulls_to_the_centre(backend_name):
    """Constant pull a from 2 m away: half the way after sqrt(2 / a)."""
    pull = {"kind": "point", "strength": 2.0, "center": [2.0, 0, 0]}
    for sim in run(block(1, solver=WEIGHTLESS, force=[pull]), 1.0, backend_name):
        x = position(sim)
    assert x[0] == pytest.approx([2.0 / G * fallen(64), 0, 0], abs=1e-4)


def test_point_force_ends_at_its_radius(backend_name):
    """The pull falls off linearly to nothing at the radius."""
    pull = {"kind": "point", "strength": 8.0, "center": [0, 0, 0], "radius": 2.0}
    for away, share in ((0.5, 0.75), (1.5, 0.25), (2.5, 0.0)):
        start = block(1, (away, 0, 0), solver=WEIGHTLESS, force=[pull])
        for sim in run(start, DT, backend_name):
            v = velocity(sim)
        assert v[0] == pytest.approx([-8.0 * share * DT, 0, 0], abs=1e-5)


def test_vortex_turns_fluid_about_its_axis(backend_name):
    """A vortex about z accelerates along z x r, the same at all distances."""
    swirl = {"kind": "vortex", "strength": 4.0, "center": [0, 0, 0], "axis": [0, 0, 2]}
    for place, way in (((1, 0, 0), (0, 1, 0)), ((0, 3, 1), (-1, 0, 0))):
        for sim in run(block(1, place, solver=WEIGHTLESS, force=[swirl]), DT, backend_name):
            v = velocity(sim)
        assert v[0] == pytest.approx(4.0 * DT * np.array(way), abs=1e-5)


# --- walls ----------------------------------------------------------------------------------------


def test_piston_displaces_its_volume():
    """A piston pushes 0.5 m into a tank of 2 m: nothing passes it, the level rises by 4/3."""
    spacing, depth = 0.02, 0.4
    piston = {
        "name": "piston",
        "shape": box((-1.0, -1.0), (0.0, 3.0)),
        "body": "animated",
        "motion": [{"frame": 0, "position": [0, 0, 0]}, {"frame": 100, "position": [0.5, 0, 0]}],
    }
    pushed = column((2.0, 1.5), (2.0, depth), spacing)
    pushed["collider"].append(piston)
    for sim in run(pushed, 4.0):
        face = 0.5 * min(sim.time, 1.0)
        assert position(sim)[:, 0].min() >= face + 0.45 * spacing
    assert 2 * center_of_mass(sim)[2] == pytest.approx(depth * 2.0 / 1.5, rel=0.02)
    assert center_of_mass(sim)[0] == pytest.approx(1.25, abs=0.02)
    assert sim.particles.count == 100 * 20


def test_pushed_fluid_takes_the_speed_of_the_wall():
    """A wall that comes at 1 m/s drives what it hits at 1 m/s, not faster."""
    wall = {
        "shape": {"plane": {"normal": [1, 0, 0], "point": [-0.5, 0, 0]}},
        "body": "animated",
        "motion": [{"frame": 0, "position": [0, 0, 0]}, {"frame": 64, "position": [1.0, 0, 0]}],
    }
    for sim in run(block(1, solver=WEIGHTLESS, collider=[wall]), 1.0):
        v = velocity(sim)
    assert v[0] == pytest.approx([1.0, 0, 0], abs=0.01)


def three_drops(key: str, values, speed=(0.0, 0.0, 0.0), height=0.0, dt=DT):
    """Drops side by side, each over a floor of its own: `values` of `key`."""
    drops, floors = [], []
    for k, value in enumerate(values):
        y = 4.0 * k
        low, high = [-D / 2, y - D / 2, height], [D / 2, y + D / 2, height + D]
        drops.append(volume(low, high, D, velocity=list(speed)))
        floors.append({"shape": box((-9, y - 1, -1), (9, y + 1, 0)), key: value})
    return scene(source=drops, collider=floors, solver={"time_step": dt}, fps=1 / dt)


def test_friction_is_coulombs(backend_name):
    """A drop that slides on a floor loses mu g of speed per second until it stops."""
    friction = np.array([0.0, 0.1, 0.4])
    for sim in run(three_drops("friction", friction, speed=(1.5, 0, 0)), 1.0, backend_name):
        expected = np.maximum(0.0, 1.5 - friction * G * sim.time)
        # Contact lies at up to 1.01 radii: the first step may push by that much more.
        assert velocity(sim)[:, 0] == pytest.approx(expected, abs=0.4 * 0.01 * D / 2 / DT + 0.002)


def test_friction_holds_within_coulombs_cone(backend_name):
    """On a slope of 30 degrees a drop stays where it lies if mu > tan(a), to a thousandth of a
    spacing in a second; else it slides by g (sin(a) - mu cos(a)) t^2 / 2."""
    sine, cosine = 0.5, math.sqrt(0.75)
    friction = np.array([0.0, 0.3, 0.45, 1.05 * sine / cosine, 3.0])
    table = three_drops("friction", friction)
    table["solver"]["gravity"] = [G * sine, 0, -G * cosine]
    for sim in run(table, 1.0, backend_name):
        moved, time = position(sim)[:, 0], sim.time
    n = round(time / DT)
    sliding = np.maximum(0.0, G * (sine - friction * cosine)) * DT**2 * n * (n + 1) / 2
    # The first step may push by a hundredth of the radius more, as above.
    assert moved[:3] == pytest.approx(sliding[:3], abs=0.45 * 0.01 * D / 2 / DT * time + 0.002)
    assert np.abs(moved[3:]).max() < 1e-3 * D


def test_bounce_returns_its_share(backend_name):
    """Dropped from h, a drop comes back up to e^2 h."""
    bounce, dt = np.array([0.0, 0.5, 0.9]), 1 / 240
    fall = three_drops("bounce", bounce, height=1.0, dt=dt)
    heights = [position(sim)[:, 2] - D / 2 for sim in run(fall, 0.9, backend_name)]
    landed = round(math.sqrt(2 / G) / dt) + 2
    assert np.min(heights) >= -0.01 * D
    assert np.max(heights[landed:], axis=0) == pytest.approx(bounce**2, abs=0.02)


@pytest.mark.parametrize("normal", [(1, 0, 0), (1, 0, -1), (0, 0, -1)])
def test_sticky_walls_hold(normal, backend_name):
    """A drop thrown at a wall or a ceiling of stickiness 1 stays where it hit."""
    n = np.array(normal) / np.linalg.norm(normal)
    wall = plane(n, stickiness=1.0)
    thrown = block(1, 0.5 * n, -4 * n, collider=[wall])
    for sim in run(thrown, 1.0, backend_name):
        if sim.frame == 16:
            start = position(sim)
    assert np.abs(position(sim) - start).max() <= 0.01 * D


def test_sticky_walls_slow(backend_name):
    """Down a wall of stickiness 1 a drop does not fall; down one of 0 it does."""
    way = []
    for stickiness in (0.0, 1.0):
        wall = plane((1, 0, 0), stickiness=stickiness)
        heights = [
            position(sim)[0, 2]
            for sim in run(block(1, (0.5, 0, 0), (-4, 0, 0), collider=[wall]), 1.0, backend_name)
        ]
        way.append(heights[16] - heights[-1])
    assert way[0] == pytest.approx(fallen(64) - fallen(16), rel=0.01)
    assert way[1] <= 0.05 * way[0]


def test_stickiness_is_a_rate():
    """Stickiness 0.5 halves the speed along a floor in 1/60 s, however long the steps are."""
    for dt in (1 / 240, 1 / 60):
        sliding = block(
            1,
            (0, 0, D / 2),
            (2.0, 0, 0),
            solver={"time_step": dt},
            collider=[plane((0, 0, 1), stickiness=0.5)],
        )
        for sim in run(sliding, 4 / 60):
            speed = velocity(sim)[0, 0]
        assert speed == pytest.approx(2.0 / 16, rel=0.02)


# --- coming and going -----------------------------------------------------------------------------


def test_books_balance(backend_name):
    """Emitter, sink, lifetime and the domain's end: what came less what went is what is there."""
    nozzle = {
        "name": "nozzle",
        "fluid": "water",
        "kind": "emitter",
        "shape": box((-0.1, -0.1, 0.9), (0.1, 0.1, 1.1)),
        "spacing": 0.04,
        "velocity": [3, 0, 0],
        "lifetime": 0.5,
    }
    pool = volume((0.5, -0.3, 2.5), (1.0, 0.3, 2.8), 0.04)
    busy = scene(
        source=[nozzle, pool],
        sink=[{"shape": {"sphere": {"center": [0.9, 0, 0.7], "radius": 0.2}}}],
        domain={"min": [-5, -5, 0.0], "max": [5, 5, 5]},
    )
    for sim in run(busy, 1.5, backend_name):
        came = sum(account.count for account in sim.ledger.emitted.values())
        assert sim.particles.count == came - sim.ledger.removed.count
        assert mass(sim).sum() == pytest.approx(1000 * 0.04**3 * sim.particles.count, rel=1e-6)
    assert came > 2000
    assert sim.ledger.removed.count > 1500
    assert sim.particles["age"][sim.particles["id"] >= 1].max() <= 1.5
    assert position(sim)[:, 2].min() >= 0.0


def test_particles_live_as_long_as_they_should():
    """Nothing of a lifetime of 0.5 s is older than that by more than a step."""
    mortal = jet(6.0, 0.1, 0.02)
    mortal["source"][0]["lifetime"] = 0.5
    ages = [sim.particles["age"].max(initial=0.0) for sim in run(mortal, 0.8)]
    assert 0.49 <= max(ages) <= 0.5 + 1 / FPS


def test_twins_part(backend_name):
    """Particles put into one place part steadily, and end as far apart as all others."""
    still = tank((0.8, 0.8, 1.2), 0.8, 0.1, fps=1 / DT, solver=EVEN)
    for sim in run(still, 3.0, backend_name):
        if sim.frame == 1:
            ids, x = sim.particles["id"], sim.particles["position"]
            first, second = ids[0::20], ids[1::20]
            sim.particles.write("position", second, x[0::20][: len(second)])
        if sim.frame in (2, 6, 14):  # a smooth kernel pushes weakly where it is flat: 0.2 s
            gap = position(sim)[first[: len(second)]] - position(sim)[second]
            assert np.linalg.norm(gap, axis=1).min() >= {2: 0.005, 6: 0.015, 14: 0.05}[sim.frame]
    x = position(sim)
    apart, _ = cKDTree(x).query(x[x[:, 2] < 0.6], k=2)
    assert apart[:, 1].min() >= 0.05
