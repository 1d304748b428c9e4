"""Plots of what the physics tests measure: python -m tests.physics.plots [FOLDER]

Draws into docs/images/validation and writes the numbers that docs/validation.md quotes to stdout.
With names after the folder it draws only those: python -m tests.physics.plots FOLDER viscosity rest
Needs matplotlib. Takes some minutes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from . import test_dam_break as dam
from . import test_multiphase as phases
from . import test_rest as rest
from . import test_tension as tension
from . import test_vessels as vessels
from . import test_viscosity as viscosity
from . import test_vorticity as vorticity
from .eddy import STEP
from .setups import G, container, fluid, position, run, scene, volume

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images" / "validation"
BLUE, ORANGE, GREEN, RED, GREY = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#999999"


def say(text: str, *values: float) -> None:
    sys.stdout.write(text.format(*values) + "\n")


def axes(count: int, height: float = 3.6):
    figure, panels = plt.subplots(1, count, figsize=(5.2 * count, height), squeeze=False)
    for panel in panels[0]:
        panel.grid(alpha=0.3)
    return figure, panels[0]


def save(figure, folder: Path, name: str) -> None:
    figure.tight_layout()
    figure.savefig(folder / f"{name}.png", dpi=80, metadata={"Software": None})
    plt.close(figure)


# --- dam break ------------------------------------------------------------------------------------


def shifted(name: str, readings: np.ndarray) -> np.ndarray:
    """Readings on the time of the computation: aligned as the tests do."""
    first = readings[readings[:, 1] >= dam.ALIGN][0]
    shift = first[0] - dam.experiment(name).arrival(first[1])
    return readings - [shift, 0.0]


def draw_dam_break(folder: Path) -> None:
    figure, (tall, square, height) = axes(3)
    labels = ["Martin & Moyce, a = 1.125 in", "Martin & Moyce, a = 2.25 in", "", "Koshizuka & Oka"]
    colors, other = dict(zip("osxD", (ORANGE, RED, RED, GREEN), strict=True)), "Martin & Moyce"
    for (name, _), label, mark in zip(dam.EXPERIMENTS.items(), labels, "osxD", strict=True):
        readings, computed = dam.read(name), dam.experiment(name)
        error = dam.mean_error(dam.lateness(computed, readings))
        say(f"{name}: mean error in time {{:.1%}}", error)
        panel = tall if label else square
        panel.plot(
            *shifted(name, readings).T, mark, color=colors[mark], mfc="none", label=label or other
        )
    for panel, name, unit, last in (
        (tall, "martin_moyce_front_n2_2_a2.25in", "2g/a", 14.2),
        (square, "martin_moyce_front_n2_1_table", "g/a", 5.5),
    ):
        computed = dam.experiment(name)
        seen = computed.front <= last  # as far as there are readings
        panel.plot(computed.time[seen], computed.front[seen], color=BLUE, label="Runnel, 2D")
        panel.set(xlabel=f"T = t sqrt({unit})", ylabel="front Z = x/a", xlim=(0, None))
    mps = dam.read("koshizuka_oka_1996_front_mps")
    tall.plot(*mps.T, "--", color="black", label="Koshizuka & Oka's computation")
    computed = dam.experiment("koshizuka_oka_1996_front_exp")
    for name, keep in (("mps", 1.1), ("exp", 0.0)):
        readings = dam.read(f"koshizuka_oka_1996_front_{name}")
        late = dam.lateness(computed, readings[readings[:, 1] > keep], align=False)
        say(f"Koshizuka & Oka {name}, not aligned: {{:.1%}}", dam.mean_error(late))
    slab = dam.collapse(2.25 * dam.INCH, fineness=16, depth=8)
    late = dam.lateness(slab, dam.read("martin_moyce_front_n2_2_a2.25in"))
    say("3D, a/d = 16, against a = 2.25 in: {:.1%}", dam.mean_error(late))
    tall.plot(slab.time, slab.front, ":", color=GREY, lw=2.5, label="Runnel, 3D")
    computed = dam.experiment("martin_moyce_front_n2_1_table")
    height.plot(computed.time, computed.height, color=BLUE, label="Runnel")
    height.plot(
        *dam.read("martin_moyce_height_n2_1_table").T, "o", mfc="none", label="Martin & Moyce"
    )
    height.set(xlabel="T = t sqrt(g/a)", ylabel="height at the wall, h/a", xlim=(0, 5.5))
    marks = dam.read("martin_moyce_height_n2_1_table")
    marks = marks[marks[:, 0] < computed.time[-1]]
    off = np.interp(marks[:, 0], computed.time, computed.height) - marks[:, 1]
    say("height at the wall: off by at most {:.3f} a", np.abs(off).max())
    for panel, title in (
        (tall, "front, column a wide, 2a high"),
        (square, "front, a wide, a high"),
        (height, "what is left at the wall, a x a"),
    ):
        panel.set_title(title)
        panel.legend(fontsize=8)
    save(figure, folder, "dam_break")


# --- rest -----------------------------------------------------------------------------------------


def draw_rest(folder: Path) -> None:
    figure, (column, tank, drift) = axes(3)
    state = rest.hydrostatic_column()
    heights, compression = state["position"][:, 2], np.maximum(state["fill"] - 1, 0)
    say("column: compression mean {:.2%}, max {:.2%}", compression.mean(), compression.max())
    middle = (heights > 0.1) & (heights < 0.8)
    slope = np.polyfit(heights[middle], state["pressure"][middle], 1)[0]
    say("column: dP/dz / (-rho g) {:.3f}, depth {:.4f}", -slope / 1000 / G, 2 * heights.mean())
    column.plot(state["pressure"] / 1000 / G, heights, ",", color=BLUE)
    column.plot([1, 0], [0, 1], color=ORANGE, label="hydrostatic")
    column.set(xlabel="pressure / (rho g H)", ylabel="height [m]", title="20 x 20 x 50, 1 m deep")
    column.legend(fontsize=8)
    history = rest.still_tank()
    time, speed = history.time - history.time[0], history.speed / np.sqrt(G)
    away = np.abs(history.center - history.center[0]).max(axis=1) / 0.05
    say("tank: speed first {:.2%}, last {:.2%} of sqrt(gH)", speed[0], speed[-1])
    first, last = history.between(0, 2), history.between(8, 10)
    kinetic = history.kinetic[last].mean() / history.kinetic[first].mean()
    say("tank: drift {:.3f} d, kinetic energy last / first 2 s {:.2f}", away.max(), kinetic)
    tank.semilogy(time, speed, color=BLUE)
    tank.axhline(0.02, color=RED, ls="--", label="limit 2 %")
    tank.set(xlabel="time [s]", ylabel="rms speed / sqrt(g H)", title="20 480 at rest, dt = 16 ms")
    tank.legend(fontsize=8)
    drift.plot(time, away, color=BLUE)
    drift.axhline(0.1, color=RED, ls="--", label="limit 0.1 d")
    drift.set(xlabel="time [s]", ylabel="drift of the centre of mass / d", title="the same tank")
    drift.legend(fontsize=8)
    save(figure, folder, "rest")


def draw_energy(folder: Path) -> None:
    figure, (total, wave) = axes(2)
    for tolerance, color in ((0.01, BLUE), (0.001, ORANGE)):
        history = rest.dam_break(tolerance)
        energy = history.energy / history.energy[0]
        rise = np.diff(rest.moving_mean(energy, 10)).max()
        say(
            f"energy, tolerance {tolerance}: max {{:.4f}}, largest rise {{:.1e}}",
            energy.max(),
            rise,
        )
        total.plot(history.time, energy, color=color, label=f"all, tolerance {tolerance:.1%}")
        kinetic = history.kinetic / history.energy[0]
        total.plot(history.time, kinetic, ":", color=color, label="kinetic")
    total.set(xlabel="time [s]", ylabel="energy / start", title="dam break, 0.5 m x 1 m")
    total.legend(fontsize=8)
    for amplitude, color in ((0.025, BLUE), (0.05, ORANGE)):
        times, heights, period = rest.standing_wave(amplitude)
        level = rest.crossings(times, heights)
        level = level[level > 0.25 * period]
        after = np.abs(heights[(times > 0.9 * period) & (times < 1.4 * period)]).max()
        say(f"wave of {amplitude} m: period / theory {{:.3f}}", level[3] / 2 / period)
        say("wave: amplitude kept over one period {:.2f}", after / np.abs(heights).max())
        wave.plot(
            times / period, heights / np.abs(heights).max(), color=color, label=f"{amplitude} m"
        )
    wave.plot(times / period, -np.sin(2 * np.pi * times / period), ":", color=GREY, label="linear")
    wave.set(xlabel="t / T of linear theory", ylabel="first mode", title="standing wave, kH = 1.57")
    wave.legend(fontsize=8)
    save(figure, folder, "energy_and_wave")


def draw_vessels(folder: Path) -> None:
    figure, (level, speed) = axes(2)
    flow = vessels.outflow()
    steady = flow.time > 0.6
    slope, start = np.polyfit(flow.time[steady], np.sqrt(flow.level[steady]), 1)
    ratio = flow.speed / np.sqrt(2 * G * flow.level)
    contraction = -slope / (vessels.HOLE / vessels.WIDTH * np.sqrt(G / 2))
    say("Torricelli: speed {:.3f}, contraction {:.3f}", ratio[steady].mean(), contraction)
    level.plot(flow.time, np.sqrt(flow.level), color=BLUE, label="Runnel")
    level.plot(flow.time, start + slope * flow.time, ":", color=ORANGE, label="straight line")
    level.set(xlabel="time [s]", ylabel="sqrt(level) [sqrt m]", title="tank with a hole")
    level.legend(fontsize=8)
    speed.plot(flow.time[20:], ratio[20:], color=BLUE)
    speed.axhspan(0.9, 1.02, color=GREEN, alpha=0.15, label="0.90 to 1.02")
    speed.set(xlabel="time [s]", ylabel="speed / sqrt(2 g h)", ylim=(0.5, 1.1), title="its jet")
    speed.legend(fontsize=8)
    save(figure, folder, "outflow")


# --- viscosity and eddies -------------------------------------------------------------------------


def draw_viscosity(folder: Path) -> None:
    figure, (share, decay, eddies) = axes(3)
    for c, color in ((0.5, BLUE), (2.0, ORANGE)):
        step = np.log(viscosity.kept(c, viscosity.SHARE))
        for gravity, line in ((0.0, "-"), (G, "--")):
            logs = viscosity.decay_by_viscosity(c, gravity)
            say(f"viscosity alone, c = {c}, g = {gravity}: {{:.3f}}", logs.mean() / step)
            label = f"c = {c:g}{', with gravity' if gravity else ''}"
            time = STEP * np.arange(1, len(logs) + 1)
            share.plot(time, logs / step, line, color=color, lw=1, label=label)
        found, inviscid = viscosity.live_decay(c), viscosity.live_decay(0.0)
        time = STEP * np.arange(len(found))
        theory = inviscid * viscosity.kept(c, viscosity.SHARE) ** np.arange(len(found))
        extra = np.log(found[-1] / inviscid[-1]) / (step * (len(found) - 1))
        say(f"all decay, c = {c}: {{:.2f}} of what eq. 5 says", extra)
        decay.semilogy(time, found, color=color, label=f"c = {c:g}")
        decay.semilogy(time, theory, ":", color=color, label=f"c = {c:g}, expected")
    say("inviscid eddy: {:.3f} left after 0.8 s", inviscid[-1])
    decay.semilogy(time, inviscid, color=GREY, label="c = 0")
    share.axhspan(0.9, 1.1, color=GREEN, alpha=0.15, label="within 10 %")
    share.set(xlabel="time [s]", ylabel="decay by viscosity / eq. 5", ylim=(0.5, 1.5))
    share.set_title("what the viscosity of a step takes")
    decay.set(xlabel="time [s]", ylabel="eddy / its start", title="all of its decay, no gravity")
    for speed, color in zip((0.05, 0.1, 0.4), (BLUE, ORANGE, GREEN), strict=True):
        found = vorticity.eddy(speed, seconds=2.5)
        say(f"eddy of {speed} m/s: {{:.2f}} left, lowest {{:.2f}}", found[160], found.min())
        eddies.plot(STEP * np.arange(len(found)), found, color=color, label=f"{speed} m/s")
        if speed == 0.1:
            found = vorticity.eddy(speed, settled=True)
            say(f"eddy of {speed} m/s, settled: {{:.2f}} left after 0.8 s", found[-1])
            label = f"{speed} m/s, settled"
            eddies.plot(STEP * np.arange(len(found)), found, "--", color=color, label=label)
    eddies.plot([0.8], [0.3], "^", color=RED, label="limit")
    eddies.set(xlabel="time [s]", ylabel="eddy / its start")
    eddies.set_title("inviscid, under gravity, 0.64 m deep")
    for panel in (share, decay, eddies):
        panel.legend(fontsize=8)
    save(figure, folder, "viscosity")


def draw_collapse(folder: Path) -> None:
    figure, (wedge, resolution) = axes(2)
    for c, color in zip((0.0, 0.5, 2.0, 10.0, 50.0), (BLUE, GREEN, ORANGE, RED, GREY), strict=True):
        front = viscosity.collapse(c, stickiness=1.0)
        say(f"wedge, c = {c}: front at {{:.3f}} m after 0.4 s", front[-1])
        wedge.plot(0.01 * np.arange(len(front)), front, color=color, label=f"c = {c:g}")
    for coarse, fine, color in ((2.0, 8.0, BLUE), (8.0, 32.0, ORANGE)):
        fronts = viscosity.collapse(coarse), viscosity.collapse(fine, 0.01)
        apart = np.abs(fronts[1][20:] / fronts[0][20:] - 1).max()
        say(f"resolutions, c = {coarse} and {fine}: fronts apart by {{:.1%}}", apart)
        for front, label, line in zip(
            fronts, (f"d = 2 cm, c = {coarse:g}", f"d = 1 cm, c = {fine:g}"), "-:", strict=True
        ):
            resolution.plot(0.01 * np.arange(len(front)), front, line, color=color, label=label)
    wedge.set(xlabel="time [s]", ylabel="front [m]", title="a column on a sticky floor")
    resolution.set(xlabel="time [s]", ylabel="front [m]", title="one viscosity, two resolutions")
    for panel in (wedge, resolution):
        panel.legend(fontsize=8)
    save(figure, folder, "viscous_collapse")


# --- tension and two liquids ----------------------------------------------------------------------


def draw_tension_and_layers(folder: Path) -> None:
    figure, (brick, growth) = axes(2)
    times = (0.0, 0.24, 0.48, 0.72, 0.96, 1.2)
    for kappa, color in ((0.0, GREY), (0.25, BLUE), (1.0, ORANGE)):
        extents = [tension.brick(kappa, (0.32, 0.08, 0.08), time)[0] for time in times]
        ratios = [extent[2] / extent[0] for extent in extents]
        say(f"brick, kappa = {kappa}: length over width {{:.2f}} after 1.2 s", ratios[-1])
        brick.plot(times, ratios, "o-", color=color, label=f"kappa = {kappa:g}")
    brick.set(xlabel="time [s]", ylabel="length / width", title="a brick 4 x 1 x 1 in free space")
    brick.legend(fontsize=8)
    time, size, rate = rayleigh_taylor()
    trial = np.linspace(0.3, 1.5, 241) * rate
    misfit = [np.sum((size - size[0] * np.cosh(s * time)) ** 2) for s in trial]
    best = trial[int(np.argmin(misfit))]
    say("Rayleigh-Taylor: rate over theory {:.3f}", best / rate)
    growth.plot(time, size / size[0], color=BLUE, label="Runnel")
    growth.plot(time, np.cosh(best * time), ":", color=ORANGE, label=f"{best / rate:.2f} of theory")
    growth.plot(time, np.cosh(rate * time), "--", color=GREY, label="linear theory")
    growth.set(xlabel="time [s]", ylabel="amplitude / start", title="Rayleigh-Taylor, 3 : 1")
    growth.legend(fontsize=8)
    save(figure, folder, "tension_and_layers")


def rayleigh_taylor() -> tuple[np.ndarray, np.ndarray, float]:
    """Times [s], amplitudes [m] until k a = 0.5, and the rate of linear theory [1/s].

    As in test_multiphase.py.
    """
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
    rows: list[tuple[float, float]] = []
    for sim in run(setup, 3.0 / rate):
        if not rows:
            phases.interface(sim, width, height, d, True)
        light = sim.particles["phase"] == 1
        rows.append((sim.time, 2 / width * d * d * np.cos(k * position(sim)[light, 0]).sum()))
        if k * abs(rows[-1][1]) > 0.5:
            break
    times, sizes = np.array(rows).T
    return times, sizes, float(rate)


PICTURES = {
    "dam_break": draw_dam_break,
    "energy_and_wave": draw_energy,
    "outflow": draw_vessels,
    "rest": draw_rest,
    "viscosity": draw_viscosity,
    "viscous_collapse": draw_collapse,
    "tension_and_layers": draw_tension_and_layers,
}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or PICTURES:
        PICTURES[name](folder)


if __name__ == "__main__":
    main()
