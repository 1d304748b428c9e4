"""Liquids of different density and resolution (P004 section 3, rows B, ORACLES 21-23)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import runnel

from .setups import G, container, fill, fluid, position, rms_speed, run, scene, velocity, volume

pytestmark = pytest.mark.slow


def after(setup: dict[str, Any], seconds: float) -> runnel.Simulation:
    """The simulation, open, after some time."""
    sim = runnel.Simulation(runnel.Scene.from_dict(setup), timed=False)
    sim.advance(sim.frame + round(seconds * sim.scene.fps))
    return sim


def layers(
    ratio: float, size: tuple[float, ...], spacing: float, upper: float | None = None
) -> dict[str, Any]:
    """Heavy water under a lighter liquid, each half of the depth; `upper` is the light spacing."""
    corner = list(size)
    middle = [*size[:-1], size[-1] / 2]
    bottom = [0.0] * (len(size) - 1) + [size[-1] / 2]
    return scene(
        len(size),
        fluids=[fluid(), fluid("light", density=1000.0 / ratio)],
        source=[
            volume([0.0] * len(size), middle, spacing, name="below"),
            volume(bottom, corner, upper or spacing, name="above", fluid="light"),
        ],
        collider=[container([*size[:-1], 1.3 * size[-1]])],
        fps=25.0,
    )


@pytest.mark.parametrize(
    ("ratio", "size", "seconds"),
    [(2.0, (0.6, 1.0), 5.0), (10.0, (0.6, 1.0), 5.0), (10.0, (0.24, 0.24, 0.48), 2.0)],
)
def test_layers_stay_apart(ratio: float, size: tuple[float, ...], seconds: float) -> None:
    """Heavy below light: mixed over at most 2 d, each phase dense within 2 % (ORACLES 21)."""
    d = 0.02
    with after(layers(ratio, size, d), seconds) as sim:
        z, phase, c = position(sim)[:, 2], sim.particles["phase"], fill(sim) - 1
        speed = rms_speed(sim)
    overlap = np.percentile(z[phase == 0], 99) - np.percentile(z[phase == 1], 1)
    assert overlap <= 2 * d
    for k in (0, 1):
        assert np.maximum(c[phase == k], 0).mean() <= 0.02
    assert speed <= 0.05 * np.sqrt(G * size[-1])


def test_a_hundred_to_one_is_stable() -> None:
    """A liquid a hundred times lighter rests on water (row B10, beyond P004's stated limit)."""
    d = 0.02
    with after(layers(100.0, (0.5, 0.8), d), 1.0) as sim:
        z, phase, speed = position(sim)[:, 2], sim.particles["phase"], rms_speed(sim)
    assert np.percentile(z[phase == 0], 99) - np.percentile(z[phase == 1], 1) <= 2 * d
    assert speed <= 0.1 * np.sqrt(G * 0.8)


def test_two_resolutions_share_a_flat_interface() -> None:
    """Ten times as many particles above: no denser than one resolution by 2 % (row B02)."""

    def error(upper: float) -> float:
        with after(layers(1.0, (0.36, 0.36, 0.36), 0.04, upper), 1.5) as sim:
            return float(np.maximum(fill(sim) - 1, 0).mean())

    assert error(0.02) <= error(0.04) + 0.02


@pytest.mark.parametrize(("ratio", "sign"), [(3.0, -1), (0.2, 1)])
def test_drops_settle_by_density(ratio: float, sign: int) -> None:
    """A drop three times as dense sinks in a bath, one of a fifth rises (ORACLES 23)."""
    d, low, high = 0.02, [0.4, 0.5], [0.6, 0.7]
    parts = [
        volume([0.0, 0.0], [1.0, low[1]], d, name="below"),
        volume([0.0, low[1]], [low[0], high[1]], d, name="left"),
        volume([high[0], low[1]], [1.0, high[1]], d, name="right"),
        volume([0.0, high[1]], [1.0, 1.2], d, name="above"),
        volume(low, high, d, name="drop", fluid="drop"),
    ]
    setup = scene(
        2,
        fluids=[fluid(), fluid("drop", density=1000.0 * ratio)],
        source=parts,
        collider=[container([1.0, 1.5])],
        fps=25.0,
    )
    with after(setup, 0.8) as sim:
        drop = position(sim)[sim.particles["phase"] == 1, 2].mean()
    assert sign * (drop - 0.6) > 0.1


def interface(
    sim: runnel.Simulation, width: float, height: float, d: float, heavy_top: bool
) -> None:
    """Give the particles of a full box phases either side of a cosine of amplitude 2 d."""
    arrays, meta = sim.state()
    x = arrays["position"]
    level = height / 2 + 2 * d * np.cos(2 * np.pi / width * x[:, 0])
    heavy = (x[:, 2] > level) == heavy_top
    arrays["phase"] = np.where(heavy, 0, 1).astype(np.uint32).reshape(arrays["phase"].shape)
    sim.restore(arrays, meta)


@pytest.mark.parametrize("heavy_top", [True, False])
def test_rayleigh_taylor(heavy_top: bool) -> None:
    """Heavy on light grows at 0.7-1.05 of sqrt(At g k); light on heavy does not (ORACLES 22)."""
    d, width, height, ratio = 0.01, 0.4, 1.6, 3.0
    setup = scene(
        2,
        fluids=[fluid(), fluid("light", density=1000.0 / ratio)],
        source=[volume([0.0, 0.0], [width, height], d)],
        collider=[container([width, height])],
        fps=60.0,
    )
    k = 2 * np.pi / width
    rate = np.sqrt((ratio - 1) / (ratio + 1) * G * k)
    times, sizes, started = [], [], False
    for sim in run(setup, 3.0 / rate):
        if not started:
            interface(sim, width, height, d, heavy_top)
            started = True
        lower = sim.particles["phase"] == (1 if heavy_top else 0)
        times.append(sim.time)
        sizes.append(2 / width * np.sum(d * d * np.cos(k * position(sim)[lower, 0])))
        if k * abs(sizes[-1]) > 0.5:
            break
    if not heavy_top:
        assert max(abs(a) for a in sizes) < 1.5 * abs(sizes[0])
        return
    t, a = np.array(times), np.array(sizes)
    trial = np.linspace(0.3, 1.5, 241) * rate  # least squares of a0 cosh(s t)
    misfit = [np.sum((a - a[0] * np.cosh(s * t)) ** 2) for s in trial]
    assert 0.7 <= trial[int(np.argmin(misfit))] / rate <= 1.05


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize(("name", "sign"), [("dam_ratio_3", 1), ("dam_ratio_02", -1)])
def test_the_denser_dam_sweeps_the_lighter(name: str, sign: int, mixed: bool) -> None:
    """Pink pushes blue back when denser and gives way when lighter, at any resolution (fig. 4)."""
    left, right = (1 / 7, 1 / 15) if mixed else (0.1, 0.1)
    setup = runnel.example(name + ("_mixed" if mixed else "")).with_overrides(
        [f"source.left.spacing={left}", f"source.right.spacing={right}"]
    )
    with runnel.Simulation(setup, timed=False) as sim:
        sim.advance(20)
        x, phase = position(sim)[:, 0], sim.particles["phase"]
        assert np.isfinite(velocity(sim)).all()
        pink, blue = x[phase == 0].mean() - 0.5, 2.5 - x[phase == 1].mean()
    assert sign * (pink - blue) > 0.05
