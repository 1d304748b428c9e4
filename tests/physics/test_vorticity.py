"""Vorticity: what is measured, what confinement adds, what the cache holds."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import runnel
from runnel.cli import main

from .eddy import SPACING, STEP, amplitude, eddy_tank, turning
from .setups import Floats, State, position, scene, settle, velocity, volume

D = 0.05  # [m]


@pytest.mark.parametrize("dimensions", [2, 3])
def test_rigid_rotation_has_twice_its_rate(backend_name: str, dimensions: int) -> None:
    """E01: omega = 2 Omega wherever the kernel is full, sign and axis included."""
    side = 12 * D
    block = volume([0.0] * dimensions, [side] * dimensions, D)
    it = runnel.Scene.from_dict(
        scene(dimensions, source=[block], solver={"gravity": [0, 0, 0]}, fps=24.0)
    )
    turning = np.array([0.0, 2.0, 0.0] if dimensions == 2 else [1.0, 2.0, -0.5])
    with runnel.Simulation(it, backend_name) as sim:
        axes = list(it.axes)
        x = position(sim)
        x[:, axes] -= side / 2
        sim.particles.write("velocity", sim.particles["id"], np.cross(turning, x))
        omega = sim.particles["vorticity"].astype(np.float64)
    reach = it.solver.support / 2 * D
    inner = (np.abs(x[:, axes]) < side / 2 - reach).all(axis=1)
    assert inner.sum() >= 4**dimensions
    np.testing.assert_allclose(omega[inner], np.tile(2 * turning, (inner.sum(), 1)), atol=1e-4)


# --- eddies last ----------------------------------------------------------------------------------


@cache
def settled_tank() -> State:
    """After 3 s under its own weight: the lattice has melted.

    After 2 s it has only in part: then 0.16 to 0.31 of an eddy of 0.05 m/s is left after 0.8 s.
    """
    return settle(eddy_tank(gravity=9.81), 3.0)


@cache
def eddy(speed: float, settled: bool = False, seconds: float = 0.8) -> Floats:
    """Amplitudes of an eddy in a closed tank 0.64 m deep, over its first."""
    start = settled_tank() if settled else None
    tank = eddy_tank(gravity=9.81)
    found = [amplitude(sim) for sim in turning(tank, speed, seconds, start=start)]
    return np.array(found) / found[0]


@pytest.mark.parametrize(
    ("speed", "settled"),
    [
        (0.05, False),
        (0.1, False),
        (0.4, False),
        (0.2, True),
        (0.4, True),
        (0.1, True),
    ],
)
def test_an_eddy_keeps_turning(speed: float, settled: bool) -> None:
    """Inviscid, under its own weight: it does not turn back, and 0.3 of it is left after 0.8 s.

    With h = 2 d the lattice springs back, to -0.5 of the eddy (decision 0005).
    """
    found = eddy(speed, settled)
    assert found.min() > 0
    assert found[-1] >= 0.3


def test_a_slow_eddy_in_settled_tanks() -> None:
    """0.05 m/s: what is left after 0.8 s depends on how the lattice melted, 0.2 to 0.5.

    So four fillings are looked at, that differ by a hundredth of a spacing at first.
    """
    left = []
    for seed in range(4):
        tank = eddy_tank(gravity=9.81)
        tank["source"][0]["jitter"], tank["seed"] = 0.01, seed
        start = settle(tank, 2.5)
        found = [amplitude(sim) for sim in turning(tank, 0.05, 0.8, start=start)]
        assert min(found) > 0
        left.append(found[-1] / found[0])
    assert np.mean(left) >= 0.2


@pytest.mark.xfail(
    raises=AssertionError,
    reason="-0.23 after 1.8 s: the lattice melts too slowly for so slow an eddy",
)
def test_a_slow_eddy_never_turns_back() -> None:
    """0.05 m/s on the lattice that a source fills, for 2.5 s: never below -0.1 of its start."""
    assert eddy(0.05, seconds=2.5).min() >= -0.1


# --- confinement ----------------------------------------------------------------------------------

REACH = 2.2 * SPACING  # h at the default support [m]


def test_confinement_pushes_as_hard_as_eq_19() -> None:
    """One step with and without, from one state: |dv| = dt eps h |omega|, never more (row E02)."""
    eps, seen = 0.8, []
    for strength in (0.0, eps):
        for sim in turning(eddy_tank(vorticity=strength), 0.4, STEP):
            v, omega = velocity(sim), np.linalg.norm(sim.particles["vorticity"], axis=1)
        seen.append((v, omega))
    (plain, omega), (confined, _) = seen
    gained = np.linalg.norm(confined - plain, axis=1)
    limit = STEP * eps * REACH * omega
    assert (gained <= 1.001 * limit + 1e-6).all()
    assert gained.mean() >= 0.9 * limit.mean()


@cache
def confined_eddy(eps: float) -> tuple[Floats, Floats]:
    """Kinetic energy per mass after each step, and the mean of |v| |omega| [m^2/s^2, m/s^2]."""
    rows = []
    for sim in turning(eddy_tank(vorticity=eps), 0.4, 0.8):
        speed = np.linalg.norm(velocity(sim), axis=1)
        omega = np.linalg.norm(sim.particles["vorticity"], axis=1)
        rows.append(((speed**2).mean() / 2, (speed * omega).mean()))
    energy, power = np.array(rows).T
    return energy, power


@pytest.mark.parametrize("eps", [0.2, 1.0, 2.0])
def test_confinement_feeds_at_most_what_eps_allows(eps: float) -> None:
    """E <= E(0) + eps h sum dt |v| |omega|: confinement does no more work than its force (E02)."""
    energy, power = confined_eddy(eps)
    fed = eps * REACH * STEP * np.cumsum(power[1:])
    assert (energy[1:] <= energy[0] + fed).all()


def test_confinement_keeps_eddies_alive() -> None:
    """The larger eps, the more of an eddy's energy is left after 0.8 s; none explodes (E02)."""
    left = [energy[-1] / energy[0] for energy, _ in map(confined_eddy, (0.0, 0.2, 1.0, 2.0))]
    assert (np.diff(left) > 0.01).all()
    assert left[-1] > left[0] + 0.1
    assert left[-1] < 1.5


# --- the channel ----------------------------------------------------------------------------------


def test_vorticity_is_a_channel_of_the_cache(tmp_path: Path) -> None:
    """A vortex spins a block up; each cached frame holds the curl of its velocities (E03)."""
    force = {"kind": "vortex", "strength": 2.0, "center": [0.25, 0.25, 0.25], "axis": [0, 0, 1]}
    whirl = scene(
        source=[volume([0, 0, 0], [0.5, 0.5, 0.5], D)],
        solver={"gravity": [0, 0, 0]},
        force=[force],
        frames=[1, 6],
        fps=24.0,
        output={"channels": ["position", "velocity", "vorticity"]},
    )
    path, out = tmp_path / "whirl.json", tmp_path / "cache"
    path.write_text(json.dumps(whirl), encoding="utf-8")
    assert main(["run", str(path), "--out", str(out), "--quiet"]) == 0
    spins = []
    for frame in range(2, 7):
        found = runnel.Cache.open(out).read(frame)
        arm = found["position"] - np.array([0.25, 0.25, 0.25], np.float32)
        r = np.hypot(arm[:, 0], arm[:, 1])
        ring = (np.abs(r - 0.12) < 0.04) & (np.abs(arm[:, 2]) < 0.13)
        around = (arm[:, 0] * found["velocity"][:, 1] - arm[:, 1] * found["velocity"][:, 0]) / r
        # at even acceleration v = a t around the axis, so omega = d(r v)/dr / r = v/r
        expected = (around[ring] / r[ring]).mean()
        spins.append(found["vorticity"][ring, 2].mean())
        assert spins[-1] == pytest.approx(expected, rel=0.1)
    assert (np.diff(spins) > 0).all()
