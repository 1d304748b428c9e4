"""Start-up and overhead: import, time to the first step with cold and warm caches, transfers.

Times to the first step are those of whole processes, from their start to the end of the first step
of the dam break. Cold: no device was ever probed and no kernel built (all cache folders empty);
warm: the second start. The transfer is that of a frame's output channels to the host, beside the
steps of that frame. With --docs the table goes into docs/.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from common import (
    OUT,
    Row,
    append_line,
    conditions,
    conditions_text,
    publish,
    say,
    table,
    timed_step,
)

IMPORT = "import time; t = time.perf_counter(); import runnel; print(time.perf_counter() - t)"
FIRST_STEP = """
import sys, runnel
from runnel.bench import tank
with runnel.Simulation(tank(int(sys.argv[1]), 4), sys.argv[2]) as sim:
    sim.step()
    sim.synchronize()
    print("done", flush=True)
"""
CHANNELS = ("position", "velocity", "radius", "density", "phase", "id")  # the default output
TARGETS = {"import": "0.3 s", "warm": "3 s", "share": "5 %"}  # target 4, at most


def python(code: str, *arguments: str, caches: Path | None = None) -> tuple[float, str]:
    """Seconds until the first line of output of a new process, and that line."""
    environment = dict(os.environ)
    if caches is not None:
        # All there are: our own, PoCL's (by default in ours), pyopencl's, numba's.
        for name in ("POCL_CACHE_DIR", "NUMBA_CACHE_DIR"):
            environment.pop(name, None)
        environment["XDG_CACHE_HOME"] = str(caches)
        environment["RUNNEL_CACHE_DIR"] = str(caches / "runnel")
    start = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        spent = time.perf_counter() - start
    if process.returncode:
        sys.exit(f"a process failed with status {process.returncode}")
    return spent, line


def start_up(args: argparse.Namespace) -> Row:
    imports = [float(python(IMPORT)[1]) for _ in range(args.repeats)]
    say(f"import runnel: {median(imports):.3f} s")
    cold, warm = [], []
    for _ in range(max(1, args.repeats // 3)):
        with tempfile.TemporaryDirectory(prefix="runnel-bench-") as folder:
            Path(folder, "runnel").mkdir()
            go = FIRST_STEP, str(args.particles), args.device
            cold.append(python(*go, caches=Path(folder))[0])
            warm += [python(*go, caches=Path(folder))[0] for _ in range(3)]
        say(f"to the first step: {cold[-1]:.2f} s cold, {warm[-1]:.2f} s warm")
    return {"import": median(imports), "cold": median(cold), "warm": median(warm)}


def transfer(args: argparse.Namespace) -> Row:
    """Seconds of a frame's steps, and of reading its channels; default solver settings."""
    from runnel import Simulation
    from runnel.bench import tank

    data = tank(args.particles, 4).to_dict()
    data["solver"] = {}
    steps, reads = [], []
    with Simulation(type(tank(1, 1)).from_dict(data), args.device, timed=False) as sim:
        for _ in range(args.frames + 1):
            spent, frame = 0.0, sim.frame
            while sim.frame == frame:
                spent += timed_step(sim)
            start = time.perf_counter()
            for name in CHANNELS:
                sim.particles[name]
            reads.append(time.perf_counter() - start)
            steps.append(spent)
            say(f"frame {sim.frame}: {spent:.3f} s, transfer {reads[-1]:.4f} s")
    shares = [read / (read + step) for read, step in zip(reads[1:], steps[1:], strict=True)]
    return {"frame": median(steps[1:]), "transfer": median(reads[1:]), "share": median(shares)}


def report(row: Row) -> str:
    spent, frame = 1e3 * row["transfer"], 1e3 * row["frame"]
    found = {
        "import": ["`import runnel`", f"{row['import']:.3f} s"],
        "cold": ["to the first step, caches empty", f"{row['cold']:.2f} s"],
        "warm": ["to the first step, second start", f"{row['warm']:.2f} s"],
        "share": [
            f"channels of a frame to the host: {spent:.1f} ms beside steps of {frame:.0f} ms",
            f"{100 * row['share']:.1f} %",
        ],
    }
    rows = [[*cells, TARGETS.get(name, "-")] for name, cells in found.items()]
    head = ["what", "measured", "target"]
    note = f"{row['particles']} particles. {conditions_text([row])}"
    return f"{note}\n\n{table(head, rows)}"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--particles", type=int, default=125_000)
    parser.add_argument("--repeats", type=int, default=9, help="imports; a third of it cold starts")
    parser.add_argument("--frames", type=int, default=6, help="to transfer")
    parser.add_argument("--quick", action="store_true", help="8000 particles, few repeats")
    parser.add_argument("--docs", action="store_true", help="write the table to docs/")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    if args.quick:
        args.particles, args.repeats, args.frames = 8000, 3, 3
    return args


def main() -> int:
    args = parse()
    row = {**conditions(), "particles": args.particles, **start_up(args), **transfer(args)}
    args.out.mkdir(parents=True, exist_ok=True)
    append_line(args.out / "startup.jsonl", row)
    print(report(row))
    if args.docs:
        publish("startup", report(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
