"""How cost and memory grow with the number of particles; emission and deletion at full rate.

The dam break of compare_peers.py (h = 2d, a fixed number of iterations) at several sizes: ms per
step, per stage and per kernel, ns per particle, bytes per particle and buffer, pairs per second.
From two numbers of iterations follow the rates that `runnel check` assumes.
Then the shipped fountain with a finer spacing, after it has filled: the longest step over the
median, and how often large buffers were allocated anew.

Each size is stored as it ends, and not measured again; --fresh forgets them. With --docs the
picture and tables go into docs/, else the picture goes into out/bench.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from common import (
    BLUE,
    GREY,
    IMAGES,
    OUT,
    Row,
    Rows,
    axes,
    commit,
    conditions_text,
    publish,
    save,
    say,
    table,
    timed_step,
)

SIDES = {"30k": 31, "125k": 50, "500k": 80, "2M": 126, "5M": 171}
LANES = 8  # particles that share a neighbour list
LARGE = 1 << 16  # [bytes] smaller buffers, such as tables of sinks, are no reallocation
FILLED = 3.2  # [s] after which as much leaves the fountain as comes
SORT = ("make_keys", "sort_", "reorder")  # kernels that sort; the rest of the stage builds lists
FEW_AND_MANY = (2, 10)  # iterations, to tell those from the rest of a step
SAMPLE = 20_000  # particles whose neighbours are counted


@contextmanager
def wrapped(backend: Any, name: str, instead: Any) -> Iterator[None]:
    """`instead(original, *args, **keys)` in the place of a method of the backend."""
    original = getattr(backend, name)
    setattr(backend, name, lambda *args, **keys: instead(original, *args, **keys))
    try:
        yield
    finally:
        delattr(backend, name)


def kernel_times(sim: Any, steps: int) -> dict[str, float]:
    """ms per step of each kernel, the device waited for after each."""
    spent: dict[str, float] = defaultdict(float)

    def run(original: Any, program: Any, name: str, *args: Any, **keys: Any) -> None:
        start = time.perf_counter()
        original(program, name, *args, **keys)
        sim.synchronize()
        spent[name] += 1e3 * (time.perf_counter() - start) / steps

    with wrapped(sim._backend, "_run", run):
        for _ in range(steps):
            sim.bare_step(timed=False)
    return dict(spent)


def neighbors_in_reach(sim: Any) -> float:
    """Mean number of others within h of a particle."""
    from scipy.spatial import cKDTree

    x = sim.particles["position"].astype(np.float64)
    h = sim.scene.solver.support / 2 * sim.scene.smallest_spacing
    some = np.random.default_rng(0).choice(len(x), min(SAMPLE, len(x)), replace=False)
    return float(cKDTree(x).query_ball_point(x[some], h, return_length=True).mean() - 1)


def measure_size(side: int, args: argparse.Namespace) -> Row:
    from runnel import Simulation
    from runnel.bench import measure, tank

    scene = tank(side**3, args.iterations)
    with Simulation(scene, args.device, timed=False) as sim:
        row = measure(sim, args.steps)
        backend: Any = sim._backend
        row["kernels"] = kernel_times(sim, max(3, args.steps // 3))
        row["capacity"] = backend.capacity
        row["buffers"] = backend.buffer_bytes
        row["entries"] = backend.list_used
        row["neighbors"] = neighbors_in_reach(sim)
    return row


def measure_rate(args: argparse.Namespace) -> Row:
    """ns per particle of a step without iterations and of an iteration, on a unit of the device."""
    from runnel.backends.devices import choose
    from runnel.bench import bench, tank

    info = choose(args.device)
    few, many = (bench(tank(args.rate_particles, k), args.steps, info) for k in FEW_AND_MANY)
    per_ms = 1e6 / few["particles"] * max(1, info.compute_units)
    between = FEW_AND_MANY[1] - FEW_AND_MANY[0]
    iteration = (many["ms_per_step"] - few["ms_per_step"]) / between * per_ms
    step = few["ms_per_step"] * per_ms - FEW_AND_MANY[0] * iteration
    return {"particles": few["particles"], "step": step, "iteration": iteration, "kind": info.kind}


def rate_text(row: Row) -> str:
    from runnel.estimate import PER_UNIT

    assumed = PER_UNIT[row["kind"]]
    return (
        f"ns per particle and core at h = 2d ({row['particles']} particles): {row['step']:.0f} for "
        f"a step and {row['iteration']:.0f} for each iteration; `runnel check` assumes "
        f"{assumed.step:g} and {assumed.iteration:g}. {conditions_text([row])}"
    )


def measure_fountain(args: argparse.Namespace) -> Row:
    """Steps of the fountain after it has filled."""
    from runnel import Simulation, example

    data = example("fountain").to_dict()
    for source in data["source"]:
        source["spacing"] = args.fountain_spacing
    scene = type(example("fountain")).from_dict(data)
    allocated: list[float] = []
    end = FILLED + args.fountain_seconds

    def allocate(original: Any, nbytes: int) -> Any:
        if nbytes >= LARGE:
            allocated.append(sim.time)
        return original(nbytes)

    steps: list[tuple[float, float]] = []
    shown = time.monotonic()
    with (
        Simulation(scene, args.device, timed=False) as sim,
        wrapped(sim._backend, "_allocate", allocate),
    ):
        while sim.time < end:
            steps.append((sim.time, 1e3 * timed_step(sim)))
            if time.monotonic() > shown + 10:
                shown = time.monotonic()
                say(f"fountain: {sim.time:.2f} of {end:g} s, {sim.particles.count} particles")
        emitted = sum(account.count for account in sim.ledger.emitted.values())
        counts = {"particles": sim.particles.count, "emitted": emitted}
    late = [ms for at, ms in steps if at >= FILLED]
    return {
        **counts,
        "steps": len(late),
        "median_ms": median(late),
        "p99_ms": float(np.percentile(late, 99)),
        "largest_ms": max(late),
        "reallocations_filling": sum(at < FILLED for at in allocated),
        "reallocations": sum(at >= FILLED for at in allocated),
    }


# --- results --------------------------------------------------------------------------------------


def per_particle(row: Row) -> float:
    """ns per particle and step."""
    return float(1e6 * row["ms_per_step"] / row["particles"])


def pair_rates(row: Row, stage: str) -> tuple[float, float]:
    """1e9 pairs per second of a stage: all that are computed, and those in reach."""
    seconds = 1e-3 * row["stages"][stage] / row["iterations"]
    computed, real = row["entries"] * LANES, row["neighbors"] * row["particles"]
    return 1e-9 * computed / seconds, 1e-9 * real / seconds


def sort_share(row: Row) -> tuple[float, float]:
    """Shares of a step: sorting, and all of finding neighbours."""
    whole = sum(row["stages"].values())
    sort = sum(ms for name, ms in row["kernels"].items() if name.startswith(SORT))
    return sort / whole, row["stages"]["neighbors"] / whole


def size_tables(rows: list[Row]) -> str:
    head = ["particles", "ms/step", "ns per particle", "of that at the first size", "bytes"]
    head += ["bytes at full capacity", "sort", "neighbours in all"]
    head += ["pressure: pairs/s computed, in reach [1e9]", "correction"]
    lines = []
    for row in rows:
        growth = per_particle(row) / per_particle(rows[0])
        rates = ["{:.2f}, {:.2f}".format(*pair_rates(row, s)) for s in ("pressure", "correction")]
        shares = [f"{share:.0%}" for share in sort_share(row)]
        full = sum(row["buffers"].values()) / row["capacity"]
        cells = [f"{row['particles']:,}".replace(",", " "), f"{row['ms_per_step']:.1f}"]
        cells += [f"{per_particle(row):.0f}", f"{growth:.2f}"]
        cells += [f"{row['bytes_per_particle']:.0f}", f"{full:.0f}"]
        lines.append([*cells, *shares, *rates])
    stages = list(rows[-1]["stages"])
    by_stage = [
        [f"{row['particles']}", *(f"{row['stages'].get(s, 0.0):.2f}" for s in stages)]
        for row in rows
    ]
    last = rows[-1]
    buffers = {n: b / last["capacity"] for n, b in last["buffers"].items()}
    listed = ", ".join(f"{n} {b:.1f}" for n, b in buffers.items() if b >= 0.05)
    lists = LANES * last["entries"] / last["particles"]
    return "\n\n".join(
        [
            f"{last['iterations']} iterations. {conditions_text(rows)}",
            table(head, lines),
            "ms of each stage:",
            table(["particles", *stages], by_stage),
            f"Bytes per particle of capacity, by buffer, at {last['particles']}: {listed}. Lists "
            f"hold {lists:.0f} entries per eight particles, each of which has "
            f"{last['neighbors']:.1f} neighbours.",
        ]
    )


def fountain_text(row: Row) -> str:
    ratio = row["largest_ms"] / row["median_ms"]
    return (
        f"{conditions_text([row])}\n\n{row['particles']} particles alive, {row['emitted']} emitted;"
        f" {row['steps']} steps after it has filled: median {row['median_ms']:.1f} ms, 99 % within "
        f"{row['p99_ms'] / row['median_ms']:.2f} times that, longest {ratio:.2f} times. Large "
        f"buffers allocated: {row['reallocations_filling']} while it filled, "
        f"{row['reallocations']} after."
    )


def draw(rows: list[Row], file: Path) -> None:
    figure, (cost, memory) = axes(2)
    count = [row["particles"] for row in rows]
    bottom = np.zeros(len(rows))
    for stage in rows[-1]["stages"]:
        height = [1e6 * row["stages"].get(stage, 0.0) / row["particles"] for row in rows]
        cost.fill_between(count, bottom, bottom + height, alpha=0.7, label=stage)
        bottom += height
    cost.plot(count, [per_particle(row) for row in rows], "o-", color="black", label="whole step")
    cost.set(xscale="log", xlabel="particles", ylabel="ns per particle and step", ylim=(0, None))
    cost.legend(fontsize=7, loc="lower left")
    full = [sum(row["buffers"].values()) / row["capacity"] for row in rows]
    used = [row["bytes_per_particle"] for row in rows]
    memory.plot(count, used, "o-", color=BLUE, label="per particle")
    memory.plot(count, full, "o--", color=GREY, label="per particle of capacity")
    memory.set(xscale="log", xlabel="particles", ylabel="bytes on the device", ylim=(0, None))
    memory.legend(fontsize=7)
    save(figure, file)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    sizes = [name for name in SIDES if name != "5M"]
    parser.add_argument("--sizes", nargs="*", choices=SIDES, default=sizes)
    parser.add_argument("--iterations", type=int, default=4)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rate-particles", type=int, default=125_000, help="0: no rates")
    parser.add_argument("--no-fountain", action="store_true")
    parser.add_argument("--fountain-spacing", type=float, default=0.0125, help="[m]")
    parser.add_argument("--fountain-seconds", type=float, default=1.0, help="timed, once filled")
    parser.add_argument("--quick", action="store_true", help="30k and 125k, few steps")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    parser.add_argument("--docs", action="store_true", help="write picture and tables to docs/")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    if args.quick:
        args.sizes, args.steps, args.fountain_spacing = ["30k", "125k"], 6, 0.025
        args.rate_particles = 29_791
    return args


def main() -> int:
    args = parse()
    stored = Rows(args.out / "scale.jsonl", args.fresh)
    rows = []
    for size in args.sizes:
        key = f"{size} {args.iterations} {args.steps} {commit()}"
        row = stored.get(key) or stored.add(key, measure_size(SIDES[size], args))
        say(f"{size}: {row['ms_per_step']:.1f} ms, {per_particle(row):.0f} ns per particle")
        rows.append(row)
    if rows:
        text = size_tables(rows)
        print(text)
        draw(rows, (IMAGES if args.docs else args.out) / "scale.png")
        if args.docs:
            publish("scale", text)
    if args.rate_particles:
        key = f"rate {args.rate_particles} {args.steps} {commit()}"
        row = stored.get(key) or stored.add(key, measure_rate(args))
        print(rate_text(row))
        if args.docs:
            publish("rate", rate_text(row))
    if not args.no_fountain:
        key = f"fountain {args.fountain_spacing} {args.fountain_seconds} {commit()}"
        row = stored.get(key) or stored.add(key, measure_fountain(args))
        print(fountain_text(row))
        if args.docs:
            publish("fountain", fountain_text(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
