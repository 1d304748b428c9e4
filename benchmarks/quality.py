"""Error against wall time: Runnel, SPlisHSPlasH's PBF and its DFSPH at several settings.

Two scenes: `dam`, the dam break of compare_peers.py, looked at early (at 0.15 to 0.167 s) and in
the splash (0.55 to 0.75 s), and `tank`, water 2 m deep that settles for 1 s from a filled lattice
and is looked at over the next second. The error is the mean compression in percent by an
independent check (`compression` in common.py). Wall time is that of the steps per simulated second;
builds of kernels and the start are left out. Solvers take turns.

Each run is stored as it ends, and not made again; --fresh forgets them. With --docs pictures and
tables go into docs/, else pictures go into out/bench.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import splish
from common import (
    BLUE,
    GREEN,
    GREY,
    IMAGES,
    ORANGE,
    OUT,
    PEER_GAP,
    SKY,
    Row,
    Rows,
    Setup,
    axes,
    commit,
    compression,
    conditions_text,
    dam_break,
    deep_tank,
    publish,
    save,
    say,
    table,
    timed_step,
)

EARLY = [k / 240 for k in (36, 38, 40)]  # [s]
SPLASH = [0.55, 0.60, 0.65, 0.70, 0.75]
REST = [1 + k / 10 for k in range(11)]
START = 10 / 240  # [s] steps up to then are not timed: they build kernels and touch pages
LIMITS = {"early": 1.0, "splash": 2.0}  # [%] target 2
TARGET, TARGET_PARTICLES = 20, 125_000  # times less wall time
NAMES = {"runnel": "Runnel", "PBF": "SPlisHSPlasH PBF", "DFSPH": "SPlisHSPlasH DFSPH"}


@dataclass(frozen=True)
class Case:
    """A solver and its settings."""

    solver: str  # runnel, PBF, DFSPH
    rate: int | None  # steps per second; None: chosen by the solver
    iterations: int | None = None  # fixed; None: to the tolerance
    tolerance: float | None = None  # [%]; None: the default
    support: float | None = None  # of Runnel; the peer's is 4
    long_waves: bool = False  # of Runnel
    cfl: float = 1.0  # of the peer's own rule

    @property
    def label(self) -> str:
        """As at the points of the pictures: steps per second / iterations or tolerance."""
        own = "auto" if self.solver == "runnel" else f"cfl {self.cfl:g}"
        if self.long_waves:
            own += ", long waves"
        steps = f"{self.rate}" if self.rate else own
        if self.iterations:
            return f"{steps}/{self.iterations}"
        return f"{steps}/{self.tolerance:g}%" if self.tolerance else steps

    @property
    def group(self) -> str:
        name = NAMES[self.solver]
        return f"{name}, support {self.support or 4.4:g}" if self.solver == "runnel" else name


def cases(quick: bool, few: bool) -> list[Case]:
    """Runnel and its peers in turns."""
    if few:
        ours = [Case("runnel", rate, 4, support=4.0) for rate in (192, 200, 216, 240)]
        ours += [Case("runnel", 240, 4), Case("runnel", None), Case("runnel", None, support=4.0)]
        ours += [Case("runnel", None, tolerance=t, support=4.0) for t in (2.0, 2.5)]
        peers = [Case("PBF", 240, 2), Case("PBF", 240, 4), Case("PBF", 240, tolerance=1.0)]
        peers += [Case("DFSPH", 240, tolerance=t) for t in (1.0, 0.05)]
        peers += [Case("DFSPH", 120, tolerance=1.0), Case("DFSPH", None, tolerance=1.0, cfl=2.0)]
    elif quick:
        ours = [Case("runnel", 240, 4, support=4.0), Case("runnel", None)]
        peers = [Case("PBF", 240, 4), Case("DFSPH", 240, tolerance=0.05)]
    else:
        pairs = [(60, 8), (60, 16), (120, 4), (120, 8), (120, 16), (240, 2), (240, 4), (240, 8)]
        pairs += [(480, 1), (480, 2), (480, 4), (960, 1)]
        ours = [Case("runnel", *pair, support=s) for pair in pairs for s in (4.0, 4.4)]
        ours += [Case("runnel", None, support=s) for s in (4.0, 4.4)]
        ours += [Case("runnel", None, support=s, long_waves=True) for s in (4.0, 4.4)]
        peers = [Case("PBF", rate, k) for rate, k in [(120, 8), (240, 2), (240, 4), (240, 8)]]
        peers += [Case("PBF", 480, 2), Case("PBF", 480, 4), Case("PBF", 240, tolerance=1.0)]
        peers += [Case("PBF", None, tolerance=1.0), Case("PBF", None, tolerance=1.0, cfl=2.0)]
        peers += [Case("DFSPH", 240, tolerance=t) for t in (5.0, 1.0, 0.2, 0.05)]
        peers += [Case("DFSPH", 120, tolerance=t) for t in (5.0, 1.0, 0.2)]
        peers += [Case("DFSPH", None, tolerance=t, cfl=c) for t in (1.0, 0.05) for c in (1.0, 2.0)]
    turns = zip_longest(ours, peers)
    return [case for turn in turns for case in turn if case is not None]


# --- runs -----------------------------------------------------------------------------------------


def run_runnel(case: Case, setup: Setup, looks: list[float], device: str) -> dict[str, Any]:
    """The same fields as splish.run."""
    from runnel import Simulation

    solver: Row = {} if case.support is None else {"support": case.support}
    if case.rate:
        solver["time_step"] = 1 / case.rate
    if case.iterations:
        solver["iterations"] = [case.iterations, case.iterations]
    if case.tolerance:
        solver["tolerance"] = case.tolerance / 100
    solver["long_waves"] = case.long_waves
    found: dict[str, Any] = {"time": [], "seconds": []}
    with Simulation(setup.scene(solver), device, timed=False) as sim:
        for k, look in enumerate(looks):
            while sim.time < look - 1e-6:
                found["seconds"].append(timed_step(sim))
                found["time"].append(sim.time)
            found[f"x_{k}"] = sim.particles["position"].copy()
            found[f"v_{k}"] = sim.particles["velocity"].copy()
    return {name: np.asarray(values) for name, values in found.items()}


def run_case(case: Case, scene: str, args: argparse.Namespace, python: Path | None) -> Row:
    """One run and what it is worth."""
    gap = 0.5 if case.solver == "runnel" else PEER_GAP
    if scene == "dam":
        setup, looks = dam_break(args.side, gap), EARLY + SPLASH
    else:
        setup, looks = deep_tank(args.width, args.layers, gap), REST
    if case.solver == "runnel":
        found = run_runnel(case, setup, looks, args.device)
    else:
        settings: Row = {"method": case.solver, "looks": looks, "wall": args.wall, "cfl": case.cfl}
        settings["time_step"] = 1 / case.rate if case.rate else None
        settings |= {"iterations": case.iterations, "tolerance": case.tolerance}
        assert python is not None
        found = splish.run(python, setup, settings, args.out / "splish")
    return judge(found, scene, setup, looks)


def judge(found: dict[str, Any], scene: str, setup: Setup, looks: list[float]) -> Row:
    """Errors at the looks, and seconds per simulated second."""
    if f"x_{len(looks) - 1}" not in found:
        end = found["time"][-1] if len(found["time"]) else 0.0
        return {"failed": f"stopped at {end:.3g} s"}
    errors = [compression(found[f"x_{k}"], setup) for k in range(len(looks))]
    if not np.isfinite(errors).all():
        return {"failed": "positions are not finite"}
    time, seconds = found["time"], found["seconds"]
    later = time > START + 1e-6
    row: Row = {
        "particles": setup.particles,
        "steps": len(time),
        "wall": float(seconds[later].sum() / (time[-1] - time[~later].max(initial=0.0))),
    }
    if scene == "dam":
        row["early"] = float(np.mean(errors[: len(EARLY)]))
        row["splash"] = float(np.mean(errors[len(EARLY) :]))
    else:
        row["rest"] = float(np.mean(errors))
        squares = [np.mean(np.sum(found[f"v_{k}"] ** 2.0, axis=1)) for k in range(len(looks))]
        row["speed"] = float(np.sqrt(np.mean(squares)))
    return row


def measure(scene: str, args: argparse.Namespace, python: Path | None) -> list[tuple[Case, Row]]:
    rows = Rows(args.out / f"quality_{scene}.jsonl", args.fresh)
    wanted = [case for case in cases(args.quick, args.few) if case.solver == "runnel" or python]
    size = args.side if scene == "dam" else f"{args.width}x{args.layers}"
    measured = []
    for k, case in enumerate(wanted):
        key = f"{size} {case}" + (f" {commit()}" if case.solver == "runnel" else "")
        row = rows.get(key)
        if row is None:
            try:
                result = run_case(case, scene, args, python)
            except Exception as error:  # a setting at which a solver fails is a result too
                result = {"failed": " ".join(str(error).split())[:200]}
            row = rows.add(key, result)
        facts = {name: row[name] for name in (*SERIES[scene], "wall", "failed") if name in row}
        shown = ", ".join(f"{n} {v:.3g}" if n != "failed" else v for n, v in facts.items())
        say(f"{scene} {k + 1}/{len(wanted)} {case.group} {case.label}: {shown}")
        measured.append((case, row))
    return measured


# --- results --------------------------------------------------------------------------------------

SERIES = {
    "dam": {"early": "compression early [%]", "splash": "compression in the splash [%]"},
    "tank": {"rest": "compression at rest [%]", "speed": "rms speed [m/s]"},
}
COLORS = {"runnel 4": SKY, "runnel 4.4": BLUE, "PBF": ORANGE, "DFSPH": GREEN}


def draw(scene: str, measured: list[tuple[Case, Row]], file: Path) -> None:
    figure, panels = axes(2)
    for panel, (name, title) in zip(panels, SERIES[scene].items(), strict=True):
        for case, row in measured:
            if "failed" in row:
                continue
            kind = f"runnel {case.support or 4.4:g}" if case.solver == "runnel" else case.solver
            point = row["wall"], max(row[name], 1e-3)
            mark = "*" if case.rate is None else "o"
            panel.plot(*point, mark, color=COLORS[kind], ms=10 if mark == "*" else 5)
            panel.annotate(case.label, point, (3, 3), textcoords="offset points", fontsize=6)
        if name in LIMITS:
            panel.axhline(LIMITS[name], color=GREY, ls="--", lw=1)
        panel.set(xscale="log", yscale="log", ylabel=title, xlabel="wall seconds per second")
    groups = {case.group: COLORS.get(case.solver, BLUE) for case, _ in measured}
    groups |= {f"Runnel, support {s:g}": COLORS[f"runnel {s:g}"] for s in (4.0, 4.4)}
    for group, color in groups.items():
        panels[0].plot([], [], "o", color=color, label=group)
    panels[0].plot([], [], "*", color=GREY, ms=10, label="the solver's own steps")
    panels[0].legend(fontsize=7)
    particles = next(row["particles"] for _, row in measured if "particles" in row)
    figure.suptitle(
        f"{scene}, {particles} particles; labels: steps per second / iterations or tolerance",
        fontsize=9,
    )
    save(figure, file)


def within_limits(measured: list[tuple[Case, Row]]) -> dict[str, tuple[float, str]]:
    """The cheapest setting of each solver that is: its wall time and its name."""
    best: dict[str, tuple[float, str]] = {}
    for case, row in measured:
        if all(row.get(name, math.inf) <= limit for name, limit in LIMITS.items()):
            name = f"{case.group} {case.label}"
            best[case.solver] = min(best.get(case.solver, (math.inf, "")), (row["wall"], name))
    return best


def verdict(measured: list[tuple[Case, Row]]) -> str:
    """Target 2: the cheapest settings within the limits, and the ratios."""
    best = within_limits(measured)
    limits = " and ".join(f"{limit:g} % {name}" for name, limit in LIMITS.items())
    if "runnel" not in best:
        return f"Target 2: no setting of Runnel is within {limits}."
    own, name = best["runnel"]
    text = f"Target 2, cheapest within {limits}: {name} takes {own:.3g} s per simulated second"
    for solver in ("PBF", "DFSPH"):
        if solver in best:
            wall, name = best[solver]
            text += f"; {name} {wall:.3g} s, {wall / own:.1f} times as much"
        elif any(case.solver == solver for case, _ in measured):
            text += f"; no setting of {NAMES[solver]} is within them"
    tried = {NAMES[n]: sum(case.solver == n for case, _ in measured) for n in NAMES}
    settings = ", ".join(f"{name} {count}" for name, count in tried.items())
    return (
        f"{text}. Settings tried: {settings}. The target, {TARGET} times, is one for "
        f"{TARGET_PARTICLES} particles."
    )


def report(scene: str, measured: list[tuple[Case, Row]]) -> str:
    head = ["solver", "steps per second / iterations or tolerance", "wall s per s"]
    head += list(SERIES[scene].values())
    cheapest = within_limits(measured).get("runnel", (math.nan, ""))[0] if scene == "dam" else 0.0
    if cheapest:
        head.append("times Runnel's cheapest within the limits")
    lines = []
    for case, row in sorted(measured, key=lambda m: (m[0].group, m[1].get("wall", math.inf))):
        values = [row["failed"], *["-"] * len(SERIES[scene])] if "failed" in row else []
        values = values or [f"{row[name]:.3g}" for name in ("wall", *SERIES[scene])]
        if cheapest:
            values.append(f"{row['wall'] / cheapest:.1f}" if "wall" in row else "-")
        lines.append([case.group, case.label, *values])
    text = conditions_text(row for _, row in measured)
    particles = next((row["particles"] for _, row in measured if "particles" in row), 0)
    text = f"{particles} particles. {text}\n\n{table(head, lines)}"
    return f"{verdict(measured)}\n\n{text}" if scene == "dam" else text


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenes", nargs="*", choices=("dam", "tank", []), default=[])
    parser.add_argument("--side", type=int, default=31, help="dam: particles along 1 m; b is 50")
    parser.add_argument("--width", type=int, default=16, help="tank: particles across")
    parser.add_argument("--layers", type=int, default=80, help="tank: particles in 2 m of depth")
    parser.add_argument("--quick", action="store_true", help="four settings, small scenes")
    parser.add_argument("--few", action="store_true", help="settings near the limits of target 2")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--wall", type=float, default=1200.0, help="of one run of a peer [s]")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    parser.add_argument("--docs", action="store_true", help="write pictures and tables to docs/")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--peer-venv", type=Path, default=splish.VENV)
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    if args.quick:
        args.side, args.width, args.layers = 16, 8, 20
    return args


def main() -> int:
    args = parse()
    python = None
    try:
        python = None if args.no_peers else splish.prepare(args.peer_venv)
    except splish.Skipped as reason:
        say(f"peers left out: {reason}")
    for scene in args.scenes or ("dam", "tank"):
        measured = measure(scene, args, python)
        draw(scene, measured, (IMAGES if args.docs else args.out) / f"quality_{scene}.png")
        text = report(scene, measured)
        print(text)
        if args.docs:
            publish(f"quality {scene}", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
