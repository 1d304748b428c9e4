"""What must not change: momentum in the passes, mass in the books, bits between runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import runnel
from runnel.backends.base import FORCE_COLUMNS, SOLID_COLUMNS, Backend
from runnel.simulation.setup import make_model, open_backend
from runnel.solver.acceleration import weights
from runnel.solver.coarse import CoarseLevel

from .setups import Floats, box, fluid, mass, run, scene, velocity, volume

D = 0.02  # spacing of the coarse particles [m]
FINE = 0.7  # the spacing of the fine ones over it
NO_SOLIDS = np.zeros((0, SOLID_COLUMNS), np.float32)
NO_FORCES = np.zeros((0, FORCE_COLUMNS), np.float32)

# --- momentum of the passes -----------------------------------------------------------------------


def mixed_scene(dimensions: int, **of_fluids: float) -> runnel.Scene:
    """Two fluids of densities 1000 and 300, two spacings."""
    cube = box([0.0] * dimensions, [1.0] * dimensions)
    sources = [
        {"name": "coarse", "fluid": "heavy", "shape": cube, "spacing": D},
        {"name": "fine", "fluid": "light", "shape": cube, "spacing": FINE * D},
    ]
    fluids = [fluid("heavy", density=1000.0, surface_tension=0.5, **of_fluids)]
    fluids += [fluid("light", density=300.0, surface_tension=0.1, **of_fluids)]
    return runnel.Scene.from_dict(scene(dimensions, source=sources, fluids=fluids))


def disordered(dimensions: int, *, speed: float = 0.0, jitter: float = 0.3) -> dict[str, Any]:
    """10 000 compressed particles: two sizes side by side, two fluids at random."""
    rng = np.random.default_rng(1)
    counts = ((14, 20), (60, 90))[dimensions == 2]
    blocks = []
    for n, d, start in zip(counts, (D, FINE * D), (0.0, counts[0] * D), strict=True):
        shape = (n, n, n) if dimensions == 3 else (n, 1, n)
        blocks.append((np.indices(shape).reshape(3, -1).T + 0.5) * d + [start, 0, 0])
    spacing = np.repeat([D, FINE * D], [len(block) for block in blocks])
    x = np.concatenate(blocks) + rng.uniform(-jitter, jitter, (len(spacing), 3)) * spacing[:, None]
    x = 0.97 * (x - x.mean(axis=0))
    v = rng.normal(0.0, 1.0, x.shape) * speed
    if dimensions == 2:
        x[:, 1] = v[:, 1] = 0.0
    return {
        "position": x.astype(np.float32),
        "velocity": v.astype(np.float32),
        "volume": (spacing**dimensions).astype(np.float32),
        "kernel_radius": (2.0 * spacing).astype(np.float32),
        "phase": rng.integers(0, 2, len(x)).astype(np.uint32),
        "id": np.arange(len(x), dtype=np.uint32),
    }


def begin(it: runnel.Scene, rows: dict[str, Any], device: str, dt: float) -> tuple[Backend, Floats]:
    """A backend ready for the first iteration of a step, and the masses in its order."""
    model = make_model(it)
    backend, _, _ = open_backend(it, model, device)
    backend.load(rows)
    backend.set_solids(NO_SOLIDS)
    backend.predict(dt, np.zeros(3, np.float32), NO_FORCES)
    backend.find_neighbors()
    rest = model.rest_density.astype(np.float64)[backend.read("phase").reshape(-1)]
    return backend, rest * backend.read("volume").reshape(-1)


def residues(m: Floats, at: Floats, change: Floats) -> tuple[float, float]:
    """|sum m dx| and |sum x x m dx|, over the sums of the moduli.

    Less what rounding of the places themselves may add up to: late corrections are small.
    """
    moved = m * np.linalg.norm(change, axis=1)
    rounding = 2.0**-24 * np.linalg.norm(m[:, None] * at)
    linear = max(0.0, np.linalg.norm(m @ change) - rounding) / moved.sum()
    angular = np.linalg.norm(m @ np.cross(at, change)) / (moved @ np.linalg.norm(at, axis=1))
    return float(linear), float(angular)


def momentum_residues(
    dimensions: int, device: str, iterations: int, long_waves: bool = False
) -> NDArray[np.float64]:
    """(iterations, 2): residues of linear and angular momentum of each iteration."""
    it = mixed_scene(dimensions)
    backend, m = begin(it, disordered(dimensions), device, dt=0.005)
    rows = []
    model = make_model(it)
    for k, (momentum, gain) in enumerate(weights(model.calibration, iterations, 0.0)):
        before = backend.read("predicted").astype(np.float64)
        backend.compute_pressure(momentum, gain, 1 - k / iterations if long_waves and k else 0.0)
        if long_waves and k == 0:
            backend.add_coarse(CoarseLevel(model, tolerance=0.0), iterations)
        backend.correct_positions()
        change = backend.read("predicted").astype(np.float64) - before
        assert np.linalg.norm(change, axis=1).mean() > 1e-3 * D  # there is something to balance
        rows.append(residues(m, before, change))
    backend.close()
    return np.array(rows)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_a_correction_keeps_momentum(backend_name: str, dimensions: int) -> None:
    """Eq. 3: sum m dx = 0 and sum x x m dx = 0, at mixed m, V, h and rho0, to rounding."""
    assert momentum_residues(dimensions, backend_name, 1).max() <= 1e-6


@pytest.mark.parametrize("dimensions", [2, 3])
def test_every_iteration_keeps_momentum(backend_name: str, dimensions: int) -> None:
    """The same in later iterations, when particles have left the places pairs were found at."""
    assert momentum_residues(dimensions, backend_name, 5).max() <= 1e-6


@pytest.mark.parametrize("dimensions", [2, 3])
def test_long_waves_keep_momentum(backend_name: str, dimensions: int) -> None:
    """What the coarse grid finds moves particles by pairs, as any other pressure."""
    assert momentum_residues(dimensions, backend_name, 3, long_waves=True).max() <= 1e-6


@pytest.mark.parametrize("dimensions", [2, 3])
def test_viscosity_keeps_linear_momentum(backend_name: str, dimensions: int) -> None:
    """Eq. 5, between phases and sizes too, where P004's eq. 8 loses 2.4 % of the exchange."""
    it = mixed_scene(dimensions, viscosity=5.0)
    backend, m = begin(it, disordered(dimensions, speed=1.0), backend_name, dt=1e-6)
    backend.compute_pressure(0.0, 0.0)
    before = backend.read("velocity").astype(np.float64)
    backend.apply_viscosity()
    change = backend.read("velocity").astype(np.float64) - before
    backend.close()
    assert np.linalg.norm(change, axis=1).mean() > 0.1
    assert np.linalg.norm(m @ change) <= 1e-6 * m @ np.linalg.norm(change, axis=1)


# --- mass -----------------------------------------------------------------------------------------


def nozzle(name: str, liquid: str, x: float, spacing: float, **keys: Any) -> dict[str, Any]:
    shape = box([x, 0, 0.9], [x + 0.2, 0.2, 0.9 + spacing])
    stream = {"name": name, "fluid": liquid, "kind": "emitter", "shape": shape, "spacing": spacing}
    return {**stream, "velocity": [0, 0, -2], "jitter": 0.1, **keys}


def busy_scene(**keys: Any) -> dict[str, Any]:
    """Two fluids at two spacings fall into a pool with a drain; what leaves the domain dies."""
    floor = {"shape": {"plane": {"point": [0, 0, 0], "normal": [0, 0, 1]}}}
    return scene(
        source=[
            volume([0, 0, 0], [0.8, 0.4, 0.2], 0.04, name="pool"),
            nozzle("jet", "water", 0.05, 0.04),
            nozzle("mist", "oil", 0.4, 0.025, lifetime=0.3),
        ],
        fluids=[fluid(viscosity=0.1), fluid("oil", density=600.0)],
        collider=[{"name": "floor", **floor}],
        sink=[{"name": "drain", "shape": box([0.6, 0, -0.1], [0.8, 0.4, 0.08])}],
        domain={"min": [-0.5, -0.3, -0.5], "max": [1.5, 0.7, 1.5]},
        **{"fps": 50.0, **keys},
    )


def test_mass_in_less_mass_out_is_mass() -> None:
    """Through emission, drain, lifetimes and a domain: counts exact, mass to 1e-6, ids unique."""
    emitted = removed = 0
    for sim in run(busy_scene(), 0.6):
        emitted, removed = emitted + sim.report.emitted, removed + sim.report.removed
        booked = sum(account.count for account in sim.ledger.emitted.values())
        assert booked - sim.ledger.removed.count == sim.particles.count == sim.ledger.count
        assert sim.ledger.mass == pytest.approx(mass(sim).sum(), rel=1e-6)
        ids = sim.particles["id"]
        assert len(np.unique(ids)) == len(ids) == sim.particles.count
    assert removed == sim.ledger.removed.count > 500
    assert {name: account.count > 0 for name, account in sim.ledger.emitted.items()} == {
        "pool": True,
        "jet": True,
        "mist": True,
    }


# --- momentum of a whole simulation ---------------------------------------------------------------


def colliding_drops() -> dict[str, Any]:
    """Two drops of different density, viscosity, tension and spacing meet off-centre."""
    drops = []
    for name, side, d in (("heavy", -1, 0.02), ("light", 1, 0.014)):
        ball = {"sphere": {"center": [0.13 * side, 0, 0.03 * side], "radius": 0.12}}
        parts = {"name": name, "fluid": name, "shape": ball, "spacing": d}
        drops.append({**parts, "velocity": [-1.5 * side, 0, 0]})
    fluids = [fluid("heavy", density=1500.0, viscosity=0.5, surface_tension=0.3)]
    fluids += [fluid("light", density=500.0, viscosity=0.1, surface_tension=0.6)]
    return scene(source=drops, fluids=fluids, solver={"gravity": [0, 0, 0]})


def test_free_fluid_keeps_momentum(backend_name: str) -> None:
    """Drops that collide without gravity: within 1e-5 of the momentum that they exchange."""
    total, of_light = [], []
    for sim in run(colliding_drops(), 0.15, backend_name):
        p = mass(sim)[:, None] * velocity(sim)
        total.append(p.sum(axis=0))
        of_light.append(p[sim.particles["phase"] == 1].sum(axis=0))
    exchanged = np.linalg.norm(of_light[-1] - of_light[0])
    assert exchanged > 0.3 * np.linalg.norm(of_light[0])
    assert np.linalg.norm(total[-1] - total[0]) <= 1e-5 * exchanged


# --- the same bits --------------------------------------------------------------------------------

FINGERPRINT = """
import hashlib, json, sys
from runnel.backends import devices
devices.prepare_environment()
import runnel
digest = hashlib.sha256()
with runnel.Simulation(runnel.Scene.from_dict(json.loads(sys.stdin.read())), timed=False) as sim:
    sim.advance(4)
    for name in ("id", "position", "velocity", "pressure", "density", "vorticity"):
        digest.update(sim.particles[name].tobytes())
    print(sim.particles.count, digest.hexdigest())
"""


def crowded_scene() -> dict[str, Any]:
    """30 000 particles: a dam of two spacings and two fluids, and an emitter."""
    return scene(
        source=[
            volume([0, 0, 0], [0.4, 0.4, 0.8], 0.02, name="dam"),
            volume([0.6, 0, 0], [1, 0.4, 0.4], 0.0155, name="other", fluid="oil"),
            nozzle("jet", "water", 0.7, 0.02),
        ],
        fluids=[fluid(viscosity=1.2, vorticity=0.1), fluid("oil", density=600.0)],
        collider=[{"name": "tank", "mode": "inside", "shape": box([0, 0, 0], [1, 0.4, 1])}],
        fps=30.0,
        frames=[1, 10],
    )


def fingerprint(threads: int) -> str:
    environment = {
        **os.environ,
        "RUNNEL_THREADS": str(threads),
        "PYTHONPATH": str(Path(runnel.__file__).parents[1]),
    }
    done = subprocess.run(
        [sys.executable, "-c", FINGERPRINT],
        input=json.dumps(crowded_scene()),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_bits_do_not_depend_on_threads_or_luck() -> None:
    """30 000 particles for 3 frames: one thread, two threads, and two again give the same bits."""
    one, two = fingerprint(1), fingerprint(2)
    assert int(one.split()[0]) > 25_000
    assert one == two
    assert two == fingerprint(2)


@pytest.mark.parametrize("steps", [0, 3])
def test_a_restored_run_has_the_same_bits(steps: int) -> None:
    """What `state` holds is all there is: between frames and in the middle of one."""
    it = runnel.Scene.from_dict(busy_scene(frames=[1, 100], fps=20.0))
    with runnel.Simulation(it, timed=False) as first:
        first.advance(9)
        for _ in range(steps):
            first.step()
        kept = first.state()
        first.advance(14)
        with runnel.Simulation(it, timed=False) as second:
            second.restore(*kept)
            second.advance(14)
            assert second.report.iterations == first.report.iterations
            for name in ("id", "phase", "position", "velocity", "pressure"):
                np.testing.assert_array_equal(second.particles[name], first.particles[name])
