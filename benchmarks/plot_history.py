"""Draws benchmarks/history.jsonl: how many times faster than the peers each commit was.

Writes docs/images/benchmarks/history.png and the table of docs/benchmarks.md. Lines of other
numbers of particles than the last line's are left out. Needs matplotlib (extra `dev`).
"""

from __future__ import annotations

import json

from common import BLUE, GREY, IMAGES, ORANGE, Row, axes, publish, save, table
from compare_peers import HISTORY

TARGET = 20  # times faster than PBF
SHOWN = 10  # rows of the table


def read() -> list[Row]:
    lines = [json.loads(line) for line in HISTORY.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line["particles"] == lines[-1]["particles"]]


def draw(lines: list[Row]) -> None:
    figure, (ratio, stages) = axes(2)
    places = range(len(lines))
    for method, color in (("PBF", BLUE), ("DFSPH", ORANGE)):
        found = [
            (k, line["peers"][method]) for k, line in enumerate(lines) if method in line["peers"]
        ]
        if not found:
            continue
        x, peers = zip(*found, strict=True)
        middle = [peer["ratio"] for peer in peers]
        below = [m - peer["spread"][0] for m, peer in zip(middle, peers, strict=True)]
        above = [peer["spread"][1] - m for m, peer in zip(middle, peers, strict=True)]
        ratio.errorbar(x, middle, (below, above), fmt="o-", color=color, capsize=3, label=method)
    ratio.axhline(TARGET, color=GREY, ls="--", lw=1)
    ratio.set(ylabel="ms/step of SPlisHSPlasH over Runnel's", ylim=(0, None))
    ratio.legend(loc="lower right")
    bottom = [0.0] * len(lines)
    for name in lines[-1]["stages"]:
        heights = [line["stages"].get(name, 0.0) for line in lines]
        stages.bar(places, heights, 0.6, bottom, label=name)
        bottom = [b + h for b, h in zip(bottom, heights, strict=True)]
    stages.set(ylabel=f"ms per step, {lines[-1]['particles']} particles")
    stages.legend(fontsize=8)
    for panel in (ratio, stages):
        panel.set_xticks(places, [line["commit"] for line in lines], rotation=90, fontsize=8)
    save(figure, IMAGES / "history.png")


def rows_of(lines: list[Row]) -> list[list[str]]:
    rows = []
    for line in lines[-SHOWN:]:
        cells = [line["date"][:10], line["commit"], f"{line['load']:g}"]
        cells += [f"{line['ms_per_step']:.1f}", f"{line['bytes_per_particle']:.0f}"]
        for method in ("PBF", "DFSPH"):
            peer = line["peers"].get(method)
            low, high = peer["spread"] if peer else (0, 0)
            cells.append(f"{peer['ratio']:.1f} ({low:.1f} to {high:.1f})" if peer else "-")
        rows.append(cells)
    return rows


def main() -> None:
    lines = read()
    draw(lines)
    last = lines[-1]
    head = ["date", "commit", "load", "ms/step", "bytes/particle", "x PBF", "x DFSPH"]
    note = f"{last['particles']} particles, {last['iterations']} iterations, {last['cpu']}, "
    note += f"{last['cores']} cores. +: with uncommitted changes."
    publish("history", f"{note}\n\n{table(head, rows_of(lines))}")


if __name__ == "__main__":
    main()
