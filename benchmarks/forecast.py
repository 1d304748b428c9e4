"""Forecasts of `runnel check --measure` beside what runs take: the shipped scenes, one by one.

Each scene is forecast and then run, its first frames only, in processes of their own. Time is that
of the run's frames as it tells itself, without the start of Python and with programs that were
built before; disk what the cache holds. A run that was stopped goes on where it was (--fresh begins
anew). With --docs the table goes into docs/.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import OUT, Row, Rows, conditions_text, publish, say, table

BOUND = 0.3  # of the forecast, either way


def runnel(*arguments: str) -> dict[str, Any]:
    """What a command prints with --json."""
    command = [sys.executable, "-m", "runnel", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def disk_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def measure(name: str, frames: int) -> Row:
    """Forecast and run of the first frames of a shipped scene."""
    last = runnel("check", name)["frames"]
    frames = min(frames, last)
    forecast = runnel("check", name, "--measure", "--set", f"frames=[1, {frames}]")
    with tempfile.TemporaryDirectory(prefix="runnel-forecast-") as folder:
        cache = Path(folder, "cache")
        runnel("run", name, "--out", str(Path(folder, "first")), "--frames", "1-2")
        run = runnel("run", name, "--out", str(cache), "--frames", f"1-{frames}")
        disk = disk_bytes(cache)
    return {
        "scene": name,
        "frames": frames,
        "particles": run["particles"],
        "seconds": run["seconds"],
        "seconds_forecast": forecast["seconds_per_frame"] * frames,
        "disk": disk,
        "disk_forecast": forecast["disk_bytes"],
    }


def ratio(row: Row, what: str) -> float:
    """Real over forecast."""
    return float(row[what] / row[f"{what}_forecast"])


def within(row: Row, what: str) -> bool:
    return 1 - BOUND <= ratio(row, what) <= 1 + BOUND


def text_of(rows: Sequence[Row]) -> str:
    head = ["scene", "particles", "frames", "time [s]", "time / forecast", "disk / forecast"]
    cells = [
        [
            row["scene"],
            str(row["particles"]),
            str(row["frames"]),
            f"{row['seconds']:.1f}",
            f"{ratio(row, 'seconds'):.2f}",
            f"{ratio(row, 'disk'):.2f}",
        ]
        for row in rows
    ]
    counts = [sum(within(row, what) for row in rows) for what in ("seconds", "disk")]
    note = (
        f"Within {100 * BOUND:.0f} % of the forecast: time {counts[0]}, disk {counts[1]} of "
        f"{len(rows)} scenes. {conditions_text(rows)}"
    )
    return f"{note}\n\n{table(head, cells)}"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenes", nargs="*", help="names of shipped scenes; all by default")
    parser.add_argument("--frames", type=int, default=48, help="of each scene, at most")
    parser.add_argument("--fresh", action="store_true", help="measure all anew")
    parser.add_argument("--docs", action="store_true", help="write the table to the page")
    parser.add_argument("--out", type=Path, default=OUT)
    return parser.parse_args()


def main() -> None:
    args = parse()
    from runnel import example_names

    known = Rows(args.out / "forecast.jsonl", args.fresh)
    found = []
    for name in args.scenes or example_names():
        key = f"{name} {args.frames}"
        row = known.get(key) or known.add(key, measure(name, args.frames))
        say(f"{name}: time {ratio(row, 'seconds'):.2f}, disk {ratio(row, 'disk'):.2f}")
        found.append(row)
    text = text_of(found)
    print(text)
    if args.docs:
        publish("forecast", text)


if __name__ == "__main__":
    main()
