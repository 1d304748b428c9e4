"""Water at rest and water that loses its energy: columns, tanks, walls, waves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from scipy.spatial import cKDTree

import runnel

from .setups import (
    FPS,
    Floats,
    G,
    box,
    center_of_mass,
    column,
    container,
    fill,
    kinetic_energy,
    position,
    potential_energy,
    run,
    scene,
    settle,
    tank,
    velocity,
    volume,
)

STEP = 0.016  # the step of all examples of P004 [s]
COARSE = {"fps": 1 / STEP, "solver": {"time_step": STEP}}


@dataclass(frozen=True)
class History:
    """What was seen frame by frame."""

    time: Floats  # [s]
    kinetic: Floats  # [J]
    energy: Floats  # kinetic and of gravity [J]
    speed: Floats  # rms [m/s]
    center: Floats  # of mass, (n, 3) [m]
    low: Floats  # (n, 3) [m] corners of what holds all particles
    high: Floats

    def between(self, start: float, end: float) -> np.ndarray:
        """Mask of frames, in seconds from the first."""
        time = self.time - self.time[0]
        return (time >= start - 1e-9) & (time <= end + 1e-9)


def watch(simulation_frames) -> History:
    rows = []
    for sim in simulation_frames:
        x, kinetic = position(sim), kinetic_energy(sim)
        speed = np.sqrt((velocity(sim) ** 2).sum(axis=1).mean())
        energy = kinetic + potential_energy(sim)
        center = center_of_mass(sim)
        rows.append((sim.time, kinetic, energy, speed, center, x.min(axis=0), x.max(axis=0)))
    return History(*(np.array(values) for values in zip(*rows, strict=True)))


def moving_mean(values: Floats, count: int) -> Floats:
    return np.convolve(values, np.ones(count) / count, "valid")


# --- hydrostatics ---------------------------------------------------------------------------------


@cache
def hydrostatic_column() -> dict[str, Floats]:
    """20 x 20 x 50 particles, 1 m deep, after 1.5 s."""
    for sim in run(tank((0.4, 0.4, 1.3), 1.0, 0.02), 1.5):
        state = {"position": position(sim), "fill": fill(sim)}
        state["pressure"] = sim.particles["pressure"].astype(np.float64)
    return state


@pytest.mark.slow
def test_column_is_not_compressed():
    """Still water of 50 layers: density off by 1 % in the mean and by 3 % at most."""
    state = hydrostatic_column()
    compression = np.maximum(state["fill"] - 1, 0)
    assert compression.mean() <= 0.01
    assert compression.max() <= 0.03
    depth = 2 * state["position"][:, 2].mean()
    assert depth == pytest.approx(1.0, rel=0.015)


@pytest.mark.slow
def test_lowest_layers_are_as_far_apart_as_upper_ones():
    """Counted, not as the solver sees it: as many particles per litre below as near the top."""
    heights = hydrostatic_column()["position"][:, 2]
    lowest, upper = (((heights >= z) & (heights < z + 0.2)).sum() for z in (0.0, 0.7))
    assert (lowest / upper) ** (1 / 3) == pytest.approx(1.0, abs=0.01)


@pytest.mark.slow
def test_pressure_rises_with_depth():
    """dP/dz = -rho g (Pascal), from the channel `pressure`, away from floor and surface."""
    state = hydrostatic_column()
    heights = state["position"][:, 2]
    middle = (heights > 0.1) & (heights < 0.8)
    slope, _ = np.polyfit(heights[middle], state["pressure"][middle], 1)
    assert slope == pytest.approx(-1000 * G, rel=0.02)


# --- a tank at rest -------------------------------------------------------------------------------


@cache
def still_tank() -> History:
    """20 480 particles, 1 m deep, steps of 16 ms: 10 s of rest after 1 s to settle."""
    scene_of_tank = tank((1.6, 1.6, 1.5), 1.0, 0.05, **COARSE)
    return watch(run(scene_of_tank, 10.0, start=settle(scene_of_tank, 1.0)))


@pytest.mark.slow
def test_tank_stays_at_rest():
    """Speeds below 2 % of sqrt(g H), the centre of mass within 0.1 spacings; for ten seconds."""
    history = still_tank()
    assert history.speed.max() <= 0.02 * np.sqrt(G * 1.0)
    assert np.abs(history.center - history.center[0]).max() <= 0.1 * 0.05


@pytest.mark.slow
def test_tank_does_not_boil():
    """Kinetic energy in the last two seconds is at most what it was in the first two."""
    history = still_tank()
    first, last = history.between(0, 2), history.between(8, 10)
    assert history.kinetic[last].mean() <= history.kinetic[first].mean()
    assert history.speed[last].max() <= 0.005 * np.sqrt(G * 1.0)


@pytest.mark.slow
def test_tank_keeps_all_particles_inside():
    """With steps of 16 ms none gets closer to a wall than its radius, or above the surface."""
    history = still_tank()
    radius = 0.025
    assert history.low.min() >= 0.99 * radius
    assert history.high[:, :2].max() <= 1.6 - 0.99 * radius
    assert history.high[:, 2].max() <= 1.0


@cache
def mixed_up_tank() -> Floats:
    """Positions in a tank of 0.4 m, 2 s after a random start; 4096 particles."""
    messy = tank((0.4, 0.4, 0.8), 0.4, 0.025)
    messy["source"][0]["jitter"] = 0.4
    for sim in run(messy, 2.0):
        x = position(sim)
    return x


def test_density_at_walls_is_that_of_the_middle():
    """From each wall to a distance of 1 to 6 spacings there is as much fluid as should be.

    Counted from the wall on: like molecules, particles lie in layers near a flat wall, and single
    bins would tell where the layers are.
    """
    spacing, size, depth = 0.025, 0.4, 0.4
    x = mixed_up_tank()
    x = x[(x[:, 2] > 2 * spacing) & (x[:, 2] < depth - 3 * spacing)]
    wall = np.minimum(x[:, :2], size - x[:, :2]).min(axis=1)  # distance to the nearest one
    reach = np.arange(1, 7) * spacing
    counts = (wall[:, None] < reach).sum(axis=0)
    areas = size**2 - (size - 2 * reach) ** 2
    assert counts / areas == pytest.approx(np.full(6, len(x) / size**2), rel=0.04)


def test_no_holes_and_no_stacks():
    """No place in the fluid is a spacing away from all particles; no two are closer than 0.6."""
    spacing = 0.025
    x = mixed_up_tank()
    top = np.array([0.4, 0.4, 0.4 - 2 * spacing])  # below the surface
    places = np.random.default_rng(1).uniform(np.zeros(3), top, (100_000, 3))
    assert cKDTree(x).query(places)[0].max() <= 1.0 * spacing  # on the lattice 0.87
    apart, _ = cKDTree(x).query(x[(x < top).all(axis=1)], k=2)
    assert apart[:, 1].min() >= 0.6 * spacing


@pytest.mark.slow
@pytest.mark.parametrize(("layers", "dt"), [(30, 0.01), (60, 0.005), (60, 0.004)])
def test_long_waves_let_deep_water_rest(layers: int, dt: float) -> None:
    """From a random start: after 2 s as calm as without, as still, and less compressed."""
    found = {}
    for on in (False, True):
        d = 0.025
        messy = tank((0.4, 0.4, 2 * layers * d), layers * d, d)
        messy["solver"] |= {"time_step": dt, "long_waves": on}
        messy["source"][0]["jitter"] = 0.4
        speeds, heights = [], []
        for sim in run(messy, 2.0):
            speeds.append(np.sqrt((velocity(sim) ** 2).sum(axis=1).mean()))
            heights.append(position(sim)[:, 2].mean())
            compression = np.maximum(fill(sim) - 1, 0).mean()
        found[on] = np.mean(speeds[150:]), np.ptp(heights[100:]), compression
    assert found[True][0] < 1.2 * found[False][0]
    assert found[True][1] < 0.05 * 0.025 + found[False][1]
    assert found[True][2] < 0.9 * found[False][2]


# --- walls let go ---------------------------------------------------------------------------------


def test_walls_let_go_of_a_falling_column():
    """Settled between walls, then the floor opens: the last particle is gone in sqrt(2 H / g)."""
    draining = tank((0.3, 1.2), 1.0, 0.02)
    draining["sink"] = [{"shape": box((-1.0, -1.0), (1.0, 0.1)), "frames": [50, 1000]}]
    left = {round(sim.time, 6): sim.particles.count for sim in run(draining, 1.0)}
    free_fall = np.sqrt(2 * 0.9 / G)
    assert left[0.49] == 15 * 50
    assert left[round(0.5 + 0.5 * free_fall, 2)] > 0
    assert left[round(0.5 + 1.1 * free_fall, 2)] == 0


def test_nothing_hangs_on_walls_after_a_splash():
    """Where the fluid has left a vertical wall, what is still there falls as fast as a stone.

    Without an offset at contact particles pile up on a wall and stay (P003 fig. 3.8, 3.9).
    """
    spacing, length, hanging = 0.02, 2.0, 0
    seen: list[dict[int, float]] = []  # per frame: vertical speeds of what is above the fluid
    for sim in run(column((length, 2.0), (0.5, 1.0), spacing), 4.0):
        x, v, ids = position(sim), velocity(sim), sim.particles["id"]
        lone = {}
        for wall in (x[:, 0], length - x[:, 0]):
            beside = x[(wall > 2 * spacing) & (wall < 8 * spacing), 2].max(initial=0.0)
            above = (wall < 1.5 * spacing) & (x[:, 2] > beside + 3 * spacing)
            lone |= dict(zip(ids[above].tolist(), v[above, 2].tolist(), strict=True))
        seen.append(lone)
        earlier = seen[max(0, len(seen) - 6)]
        gain = [lone[key] - earlier[key] for key in lone.keys() & earlier.keys()]
        hanging += sum(change > -0.5 * G * 5 / FPS for change in gain) if len(seen) > 5 else 0
    assert any(seen)
    assert hanging == 0


# --- energy and symmetry --------------------------------------------------------------------------


@cache
def dam_break(tolerance: float = 0.01) -> History:
    """A column 0.5 m wide and 1 m high, in 2D."""
    solver = {"tolerance": tolerance, "iterations": [4, 100 if tolerance < 0.01 else 20]}
    return watch(run(column((2.0, 2.5), (0.5, 1.0), 0.02, solver=solver), 3.0))


def test_energy_is_never_gained():
    """Kinetic energy and that of gravity together never exceed the start by 1 %."""
    history = dam_break()
    assert history.energy.max() <= 1.01 * history.energy[0]


def test_energy_is_lost_all_the_time():
    """Over 0.1 s a dam break always loses: compression, 0.1 % here, stores next to nothing."""
    history = dam_break(tolerance=0.001)
    lost = np.diff(moving_mean(history.energy, 10)) / history.energy[0]
    assert lost.max() <= 0
    assert history.energy[-1] < 0.5 * history.energy[0]


def test_mirrored_dams_mirror():
    """Two dams, left and right, move alike (ORACLES 10, 50 000 particles).

    Their centres to half a spacing, and their energies; after they met, centres to 2 %.
    """
    spacing, length = 0.02, 2.0
    low, high = (0.5, 0.4, 1), (2, 0.4, 1)
    dams = [volume((0, 0, 0), low, spacing), volume((1.5, 0, 0), high, spacing)]
    mirrored = scene(3, source=dams, collider=[container((length, 0.4, 2.5))])
    met = False
    for sim in run(mirrored, 1.5):
        x, v = position(sim), velocity(sim)
        half = len(x) // 2
        left, right = x[:half].mean(axis=0), x[half:].mean(axis=0)
        apart = np.abs([left[0] + right[0] - length, left[2] - right[2]]).max()
        met = met or x[:half, 0].max() > x[half:, 0].min() - 2 * spacing
        assert apart <= (0.02 * length if met else 0.5 * spacing)
        if not met:
            kinetic = [(part**2).sum() for part in (v[:half], v[half:])]
            assert kinetic[0] == pytest.approx(kinetic[1], rel=0.02, abs=1e-6)
    assert met


# --- steps of 16 ms -------------------------------------------------------------------------------


@pytest.mark.slow
def test_shipped_dam_break_in_steps_of_16_ms():
    """The dam break of 29 791 particles: no energy gained, nothing outside, nothing lost (A14)."""
    shipped = {**runnel.example("dam_break").to_dict(), "frames": [0, 1000], **COARSE}
    history = watch(run(shipped, 2.0))
    assert history.energy.max() <= history.energy[0]
    assert history.low.min() >= 0.99 / 62
    assert (history.high <= np.array([2.5, 1.25, 1.25]) - 0.99 / 62).all()


@pytest.mark.parametrize("spacing", [1 / 25, 1 / 31, 1 / 40])
def test_flat_dam_break_in_steps_of_16_ms(spacing):
    """The same in 2D, 1 m deep: no energy gained, nothing outside (A14)."""
    history = watch(run(column((2.5, 1.25), (1.0, 1.0), spacing, **COARSE), 3.0))
    assert history.energy.max() <= 1.01 * history.energy[0]
    assert history.energy[-1] <= 0.6 * history.energy[0]
    corner = np.array([2.5, 1.25]) - 0.495 * spacing
    assert history.low[:, [0, 2]].min() >= 0.495 * spacing
    assert (history.high[:, [0, 2]] <= corner).all()


# --- waves ----------------------------------------------------------------------------------------


@cache
def standing_wave(amplitude: float, spacing: float = 0.02) -> tuple[Floats, Floats, float]:
    """Times [s], heights of the first mode, and the period of linear theory [s].

    A tank of 1 m, half a wave long and 0.5 m deep, is settled and given the velocities of a wave of
    this amplitude [m] as it passes through level: u = grad phi, phi ~ cosh(k z) cos(k x).
    """
    length, depth = 1.0, 0.5
    k = np.pi / length
    omega = np.sqrt(G * k * np.tanh(k * depth))
    pool = tank((length, 0.8), depth, spacing)
    times, heights = [], []
    for sim in run(pool, 2.2 * 2 * np.pi / omega, start=settle(pool, 1.0)):
        x = position(sim)
        if not times:
            speed = amplitude * omega / np.sinh(k * depth)
            v = np.zeros_like(x)
            v[:, 0] = speed * np.cosh(k * x[:, 2]) * np.sin(k * x[:, 0])
            v[:, 2] = -speed * np.sinh(k * x[:, 2]) * np.cos(k * x[:, 0])
            sim.particles.write("velocity", sim.particles["id"], v.astype(np.float32))
        times.append(sim.time)
        heights.append((np.cos(k * x[:, 0]) * x[:, 2]).mean())
    return np.array(times) - times[0], np.array(heights) - heights[0], 2 * np.pi / omega


def crossings(times: Floats, values: Floats) -> Floats:
    """Times at which values change sign."""
    at = np.flatnonzero(values[:-1] * values[1:] < 0)
    return times[at] - values[at] * (times[at + 1] - times[at]) / (values[at + 1] - values[at])


@pytest.mark.parametrize("amplitude", [0.025, 0.05])
def test_standing_wave_has_its_period(amplitude):
    """A wave of 5 % and of 10 % of the depth swings with omega^2 = g k tanh(k H), to 3 %."""
    times, heights, period = standing_wave(amplitude)
    level = crossings(times, heights)
    level = level[level > 0.25 * period]
    assert len(level) >= 4
    assert level[3] / 2 == pytest.approx(period, rel=0.03)
