"""Long waves of compression on the coarse grid, against solutions of Poisson's equation."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from runnel import Scene
from runnel.backends.base import SOLID_COLUMNS
from runnel.colliders import Solids
from runnel.simulation import Simulation
from runnel.simulation.clock import is_deep
from runnel.simulation.setup import make_model
from runnel.solver.coarse import SHARE, CoarseLevel

D = 0.1  # [m]


def scene(dimensions: int = 3, **solver: object) -> Scene:
    """Water and something heavier."""
    return Scene.from_dict(
        {
            "dimensions": dimensions,
            "frames": [1, 100],
            "solver": {"long_waves": True, **solver},
            "fluid": [{"name": "water"}, {"name": "brine", "density": 2000.0}],
            "source": [
                {
                    "name": "block",
                    "fluid": "water",
                    "spacing": D,
                    "shape": {"box": {"min": [0, 0, 0], "max": [0.8, 0.8, 4.0]}},
                }
            ],
            "collider": [
                {
                    "name": "tank",
                    "mode": "inside",
                    "shape": {"box": {"min": [0, 0, 0], "max": [0.8, 0.8, 6.0]}},
                }
            ],
        }
    )


def tank(*size: float) -> NDArray[np.float32]:
    """Solids: a container from the origin on."""
    data = scene().to_dict()
    data["collider"][0]["shape"]["box"]["max"] = list(size)
    return Solids(Scene.from_dict(data)).rows(0.0, 0.0)


def column(width: int, layers: int, dimensions: int) -> NDArray[np.float32]:
    """A lattice that stands on z = 0."""
    axes = [np.arange(width), np.arange(width if dimensions == 3 else 1), np.arange(layers)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)
    return ((points + 0.5) * D).astype(np.float32)


def solve(
    x: NDArray[np.float32],
    fill: NDArray[np.float64],
    *,
    dimensions: int = 3,
    phase: int = 0,
    parts: int = 1000,
    around: NDArray[np.float32] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float32], float]:
    """q of all iterations together, the compression that it undoes, share that needs more parts."""
    level = CoarseLevel(make_model(scene(dimensions)), tolerance=0.0)
    level.begin(tank(0.8, 0.8, 6.0) if around is None else around, (), fall=1.0)
    change, smooth = np.empty((2, len(x)), np.float32)
    volume = np.full(len(x), D**dimensions, np.float32)
    phases = np.full(len(x), phase, np.uint32)
    over = level.pressure(x, fill.astype(np.float32), volume, phases, parts, change, smooth)
    return -parts * change.astype(np.float64) / SHARE, smooth / SHARE, over


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize(("phase", "density"), [(0, 1000.0), (1, 2000.0)])
def test_even_compression_of_a_column(dimensions: int, phase: int, density: float) -> None:
    """-q'' = rho0 c, closed below and beside, q = 0 at the surface: q = rho0 c (H^2 - z^2)/2."""
    x = column(8, 40, dimensions)
    fill = np.where(x[:, 2] > 3.9, 0.75, 1.01)
    q, undone, _ = solve(x, fill, dimensions=dimensions, phase=phase)
    z = x[:, 2].astype(np.float64)
    exact = density * 0.01 * (4.0**2 - z**2) / 2
    assert abs(q - exact).max() < 0.05 * exact.max()
    assert undone[x[:, 2] < 3].mean() == pytest.approx(0.01, rel=0.05)


def test_a_surface_as_full_as_the_rest() -> None:
    """Fluid at rest packs its top layer: where it is open tells its shape, not how full it is."""
    x = column(8, 40, 3)
    packed, _, _ = solve(x, np.full(len(x), 1.01))
    loose, _, _ = solve(x, np.where(x[:, 2] > 3.9, 0.75, 1.01))
    assert abs(packed - loose).max() < 0.03 * loose.max()


def test_a_full_closed_tank() -> None:
    """Nothing is open, so there is no level: only what differs from the mean counts, from 0 on."""
    x = column(8, 40, 3)
    lid = tank(0.8, 0.8, 4.0)
    even, _, _ = solve(x, np.full(len(x), 1.01), around=lid)
    assert abs(even).max() < 1e-6
    z = x[:, 2].astype(np.float64)
    q, _, _ = solve(x, 1.01 + 0.01 * np.cos(np.pi * z / 4), around=lid)
    exact = 1000 * 0.01 / (np.pi / 4) ** 2 * np.cos(np.pi * z / 4)
    assert abs(q - q.mean() - exact).max() < 0.1 * exact.max()
    assert q.min() > -0.01 * q.max()


def test_a_wave_between_walls() -> None:
    """c = a cos(k x) between walls where it is even: q = rho0 a cos(k x)/k^2, up to its mean."""
    x = column(32, 8, 3)
    x = x[x[:, 1] < 0.8]
    k = 2 * np.pi / 3.2
    q, _, _ = solve(x, 1 + 0.01 * np.cos(k * x[:, 0]), around=tank(3.2, 0.8, 0.8))
    exact = 1000 * 0.01 / k**2 * np.cos(k * x[:, 0].astype(np.float64))
    assert abs(q - q.mean() - exact).max() < 0.15 * exact.max()


def test_before_the_first_particle(backend_name: str) -> None:
    """A scene that starts empty, with water to come."""
    nozzle = {"kind": "emitter", "velocity": [0.0, 0.0, -1.0], "frames": [3, 100]}
    data = scene().to_dict()
    data["source"][0] |= nozzle
    model = make_model(scene())
    with Simulation(Scene.from_dict(data), backend_name) as sim:
        backend = sim._backend
        assert backend.add_coarse(CoarseLevel(model, 0.01), 4) == 0
        backend.compute_pressure(0.0, 1.0, 0.5)


def test_shallow_and_weightless_fluid_is_left_to_the_particles() -> None:
    assert is_deep(scene(), hydrostatic(4.0))
    assert not is_deep(scene(), hydrostatic(1.5))
    assert not is_deep(scene(gravity=[0, 0, 0]), 0.0)


def hydrostatic(depth: float) -> float:
    """sqrt(P/rho) [m/s]"""
    return float(np.sqrt(9.81 * depth))


def test_drops_and_short_waves_are_left_to_the_particles() -> None:
    x = column(16, 16, 3)
    signs = np.where(np.round(x / D - 0.5).astype(int).sum(axis=1) % 2, 1, -1)
    walls = tank(1.6, 1.6, 6.0)
    short, _, _ = solve(x, np.where(x[:, 2] > 1.5, 0.6, 1 + 0.03 * signs), around=walls)
    long, _, _ = solve(x, np.where(x[:, 2] > 1.5, 0.6, 1.03), around=walls)
    assert abs(short).max() < 0.03 * long.max()
    drops, _, _ = solve(x, np.full(len(x), 0.6))
    assert not drops.any()


def test_no_iteration_pushes_farther_than_is_stable() -> None:
    """Whatever the compression, even pressure moves short waves by less than they measure."""
    x = column(8, 40, 3)
    fill = np.where(x[:, 2] > 3.9, 0.75, 1.2)
    model = make_model(scene())
    for parts in (1, 4):
        q, _, over = solve(x, fill, parts=parts)
        push = q * SHARE / parts * model.calibration.push_eigenvalue / (1000 * D * D)
        assert push.max() == pytest.approx(1.2, rel=1e-5)
        assert 0.5 < over <= 1


def test_places_do_not_matter() -> None:
    """Far from the origin, in any order: the same pressure, to rounding of places."""
    x, nothing = column(8, 20, 3), np.zeros((0, SOLID_COLUMNS), np.float32)
    fill = 1 + 0.02 * np.random.default_rng(5).random(len(x))
    fill[x[:, 2] > 1.9] = 0.75
    here, _, _ = solve(x, fill, around=nothing)
    there, _, _ = solve((x + np.float32(40 * 0.4)).astype(np.float32), fill, around=nothing)
    assert abs(there - here).max() < 1e-2 * here.max()
    order = np.random.default_rng(6).permutation(len(x))
    mixed, _, _ = solve(x[order], fill[order], around=nothing)
    assert abs(mixed - here[order]).max() < 1e-2 * here.max()


def test_deep_fluid_keeps_its_volume(backend_name: str) -> None:
    """A column of 40 layers that starts to feel gravity, with four iterations a step: it comes to
    rest at what is left alone of the tolerance; without, it goes on to swing at several times that.
    """
    worst = {}
    for on in (False, True):
        it = scene(iterations=[4, 4], time_step=1 / 96).with_overrides(
            [f"solver.long_waves={str(on).lower()}"]
        )
        with Simulation(it, backend_name) as sim:
            errors = []
            while sim.time < 0.8:
                errors.append(sim.step().density_error_avg)
        worst[on] = max(errors[len(errors) // 2 :])
    assert worst[True] < 0.9 * it.solver.tolerance
    assert worst[False] > 2 * it.solver.tolerance


def test_backends_agree() -> None:
    """The same steps on the device and on the reference."""
    found = []
    for device in ("auto", "reference"):
        with Simulation(scene(iterations=[3, 3], time_step=1 / 96), device) as sim:
            for _ in range(3):
                sim.step()
            order = np.argsort(sim.particles["id"])
            found.append(sim.particles["position"][order])
    assert abs(found[0] - found[1]).max() < 1e-3 * D
