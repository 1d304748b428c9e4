"""Forecasts of `runnel check --measure` beside what runs take: the shipped scenes, one by one.

Each scene is forecast and then run, its first frames only, in processes of their own; all scenes,
one round after the other. Time is that of the run's frames as it tells itself, without the start of
Python and with programs that were built before; disk what the cache holds. On a machine that others
share, a forecast and its run may see different shares of it: so the median of the rounds' ratios
counts, beside the least and the most. A run that was stopped goes on where it was (--fresh begins
anew). With --docs the table goes into docs/.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
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


def processor_time() -> tuple[int, int]:
    """(Taken from this machine by others, all) since it started, as Linux tells; else (0, 0)."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0, 0
    spent = [int(word) for word in stat.read_text(encoding="ascii").split("\n")[0].split()[1:9]]
    return spent[7], sum(spent)


def measure(name: str, frames: int) -> Row:
    """Forecast and run of the first frames of a shipped scene."""
    last = runnel("check", name)["frames"]
    frames = min(frames, last)
    before = processor_time()
    forecast = runnel("check", name, "--measure", "--set", f"frames=[1, {frames}]")
    with tempfile.TemporaryDirectory(prefix="runnel-forecast-") as folder:
        cache = Path(folder, "cache")
        runnel("run", name, "--out", str(Path(folder, "first")), "--frames", "1-2")
        run = runnel("run", name, "--out", str(cache), "--frames", f"1-{frames}")
        disk = disk_bytes(cache)
    stolen, spent = (b - a for a, b in zip(before, processor_time(), strict=True))
    return {
        "scene": name,
        "frames": frames,
        "particles": run["particles"],
        "seconds": run["seconds"],
        "seconds_forecast": forecast["seconds_per_frame"] * frames,
        "disk": disk,
        "disk_forecast": forecast["disk_bytes"],
        "stolen": round(stolen / spent, 3) if spent else None,
    }


def ratios(rows: Iterable[Row], what: str) -> list[float]:
    """Real over forecast."""
    return [float(row[what] / row[f"{what}_forecast"]) for row in rows]


def within(rows: Sequence[Row], what: str) -> bool:
    return 1 - BOUND <= median(ratios(rows, what)) <= 1 + BOUND


def text_of(scenes: dict[str, list[Row]]) -> str:
    head = ["scene", "particles", "frames", "time [s]", "time / forecast", "disk / forecast"]
    cells = []
    for name, rows in scenes.items():
        times = ratios(rows, "seconds")
        spread = f" ({min(times):.2f} to {max(times):.2f})" if len(times) > 1 else ""
        cells.append(
            [
                name,
                str(rows[0]["particles"]),
                str(rows[0]["frames"]),
                f"{median(row['seconds'] for row in rows):.1f}",
                f"{median(times):.2f}{spread}",
                f"{median(ratios(rows, 'disk')):.2f}",
            ]
        )
    every = [row for rows in scenes.values() for row in rows]
    counts = [sum(within(rows, what) for rows in scenes.values()) for what in ("seconds", "disk")]
    rounds = max(len(rows) for rows in scenes.values())
    told = [row["stolen"] for row in every if row["stolen"] is not None]
    others = f" Others took up to {100 * max(told):.0f} % of the processors." if told else ""
    note = (
        f"Within {100 * BOUND:.0f} % of the forecast: time {counts[0]}, disk {counts[1]} of "
        f"{len(scenes)} scenes; medians of {rounds} rounds.{others} {conditions_text(every)}"
    )
    return f"{note}\n\n{table(head, cells)}"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenes", nargs="*", help="names of shipped scenes; all by default")
    parser.add_argument("--frames", type=int, default=48, help="of each scene, at most")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--fresh", action="store_true", help="measure all anew")
    parser.add_argument("--docs", action="store_true", help="write the table to the page")
    parser.add_argument("--out", type=Path, default=OUT)
    return parser.parse_args()


def main() -> None:
    args = parse()
    from runnel import example_names

    known = Rows(args.out / "forecast.jsonl", args.fresh)
    names = args.scenes or example_names()
    found: dict[str, list[Row]] = {name: [] for name in names}
    for turn in range(args.rounds):
        for name in names:
            key = f"{name} {args.frames} {turn}"
            row = known.get(key) or known.add(key, measure(name, args.frames))
            found[name].append(row)
            (time,), (disk,) = ratios([row], "seconds"), ratios([row], "disk")
            say(f"{turn + 1} of {args.rounds}, {name}: time {time:.2f}, disk {disk:.2f}")
    text = text_of(found)
    print(text)
    if args.docs:
        publish("forecast", text)


if __name__ == "__main__":
    main()
