"""Times Runnel beside SPlisHSPlasH on one scene, turn by turn, and prints the ratio.

The scene: a tank of 2.5 x 1.25 x 1.25 m with 1 m^3 of water in a corner, kernel radius twice the
spacing; PBF and Runnel with a fixed number of iterations, DFSPH to 0.05 %. Both start anew in each
round and are timed over the same steps, 10 to 40. A round gives one ratio; what counts is their
median. Without the peer only Runnel runs.

A line with the result is added to benchmarks/history.jsonl; plot_history.py draws them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import splish
from common import OUT, PEER_GAP, ROOT, Row, append_line, conditions, dam_break, say

SIDES = {"a": 31, "b": 50, "c": 80}  # 29 791, 125 000 and 512 000 particles
HISTORY = ROOT / "benchmarks" / "history.jsonl"
BEGIN, END = 10, 40  # steps that are timed
DFSPH_TOLERANCE = 0.05  # [%]


def run_peer(python: Path, method: str, side: int, iterations: int, work: Path) -> float:
    """ms per step (median)."""
    step = 1 / 480 if side > 50 else 1 / 240
    settings: Row = {"method": method, "time_step": step, "steps": END}
    if method == "PBF":
        settings["iterations"] = iterations
    else:
        settings["tolerance"] = DFSPH_TOLERANCE
    found = splish.run(python, dam_break(side, PEER_GAP), settings, work)
    return float(1e3 * np.median(found["seconds"][BEGIN:END]))


def run_runnel(side: int, iterations: int, device: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "runnel", "bench", "--particles", str(side**3), "--json"]
    command += ["--iterations", str(iterations), "--steps", str(END - BEGIN), "--device", device]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def rounds(args: argparse.Namespace) -> tuple[list[Row], dict[str, list[float]]]:
    """Results of Runnel, and ms per step of each peer, round by round."""
    side, methods = SIDES[args.size], args.methods
    try:
        python = splish.prepare(args.peer_venv) if methods else Path()
    except splish.Skipped as reason:
        say(f"peers left out: {reason}")
        methods = []
    ours: list[Row] = []
    peers: dict[str, list[float]] = {method: [] for method in methods}
    for k in range(args.rounds):
        ours.append(run_runnel(side, args.iterations, args.device))
        text = f"round {k + 1} of {args.rounds}: Runnel {ours[-1]['ms_per_step']:.2f} ms"
        for method in methods:
            spent = run_peer(python, method, side, args.iterations, args.out / "splish")
            peers[method].append(spent)
            text += f", {method} {spent:.1f} ms ({spent / ours[-1]['ms_per_step']:.1f} x)"
        say(text)
    return ours, peers


def summary(ours: list[Row], peers: dict[str, list[float]]) -> Row:
    """The line of the history: medians over the rounds; spread is (least, most)."""
    own = [row["ms_per_step"] for row in ours]
    last = ours[-1]
    line = {
        **conditions(),
        **{key: last[key] for key in ("device", "particles", "iterations", "bytes_per_particle")},
        "rounds": len(ours),
        "ms_per_step": median(own),
        "ms_spread": [min(own), max(own)],
        "stages": {
            name: round(median(row["stages"][name] for row in ours), 3) for name in last["stages"]
        },
        "density_error_avg": last["density_error_avg"],
        "peers": {},
    }
    line["dirty"] = line["commit"].endswith("+")
    for method, spent in peers.items():
        ratios = [theirs / ms for theirs, ms in zip(spent, own, strict=True)]
        line["peers"][method] = {
            "ms_per_step": median(spent),
            "ratio": median(ratios),
            "spread": [min(ratios), max(ratios)],
        }
    return line


def text_of(line: Row) -> str:
    low, high = line["ms_spread"]
    lines = [
        f"{line['particles']} particles, {line['iterations']} iterations, {line['rounds']} rounds, "
        f"commit {line['commit']}, {line['device']}",
        f"{'Runnel':10}{line['ms_per_step']:10.2f} ms/step ({low:.2f} to {high:.2f})",
    ]
    for method, peer in line["peers"].items():
        low, high = peer["spread"]
        lines.append(
            f"{method:10}{peer['ms_per_step']:10.2f} ms/step, {peer['ratio']:.1f} times Runnel "
            f"({low:.1f} to {high:.1f})"
        )
    stages = ", ".join(f"{name} {ms:.2f}" for name, ms in line["stages"].items())
    lines.append(f"stages [ms]: {stages}; {line['bytes_per_particle']:.0f} bytes per particle")
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIDES, default="b", help="particles: 31^3, 50^3, 80^3")
    parser.add_argument("--iterations", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--methods", nargs="*", choices=("PBF", "DFSPH"), default=["PBF"], help="of the peer"
    )
    parser.add_argument("--quick", action="store_true", help="size a, two rounds, no history")
    parser.add_argument("--no-history", action="store_true")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--peer-venv", type=Path, default=splish.VENV)
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    if args.quick:
        args.size, args.rounds, args.no_history = "a", 2, True
    return args


def main() -> int:
    args = parse()
    try:
        line = summary(*rounds(args))
    except splish.Skipped as reason:
        say(str(reason))
        return 1
    if not args.no_history:
        append_line(HISTORY, line)
    print(text_of(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
