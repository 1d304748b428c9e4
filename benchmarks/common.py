"""What the benchmarks share: scenes, the independent check of density, rows on disk, tables."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "out" / "bench"
PAGE = ROOT / "docs" / "benchmarks.md"
IMAGES = ROOT / "docs" / "images" / "benchmarks"
FPS = 24  # of all scenes here: what a frame costs besides its steps is counted as it falls due

BLUE, SKY, ORANGE, GREEN, GREY = "#0072b2", "#56b4e9", "#d55e00", "#009e73", "#777777"

Row = dict[str, Any]


def say(text: str) -> None:
    """Progress, with the time of day."""
    print(f"{datetime.now():%H:%M:%S} {text}", file=sys.stderr, flush=True)


# --- scenes ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setup:
    """A block of water on a lattice in the corner of a box; z points up."""

    name: str
    block: tuple[int, int, int]  # particles along each axis
    spacing: float  # [m]
    box: tuple[float, float, float]  # [m]
    gap: float = 0.5  # spacings between a wall and the layer beside it

    @property
    def particles(self) -> int:
        nx, ny, nz = self.block
        return nx * ny * nz

    def scene(self, solver: Row) -> Any:
        """The runnel.Scene of it, with [solver] as given."""
        from runnel import Scene

        filled = [n * self.spacing for n in self.block]
        return Scene.from_dict(
            {
                "name": self.name,
                "fps": FPS,
                "solver": solver,
                "fluid": [{"name": "water"}],
                "source": [
                    {
                        "name": "block",
                        "fluid": "water",
                        "shape": {"box": {"min": [0, 0, 0], "max": filled}},
                        "spacing": self.spacing,
                    }
                ],
                "collider": [
                    {
                        "name": "box",
                        "mode": "inside",
                        "shape": {"box": {"min": [0, 0, 0], "max": list(self.box)}},
                    }
                ],
            }
        )


# Where it keeps a layer beside a wall at rest: nearer, and it throws the block off the walls.
PEER_GAP = 1.5


def dam_break(side: int, gap: float = 0.5) -> Setup:
    """A cubic metre of side^3 particles in a tank of 2.5 x 1.25 x 1.25 m."""
    return Setup("dam", (side, side, side), 1 / side, (2.5, 1.25, 1.25), gap)


def deep_tank(width: int, layers: int, gap: float = 0.5) -> Setup:
    """Water 2 m deep that fills a shaft, half a metre of it free above."""
    d = 2.0 / layers
    across = (width - 1 + 2 * gap) * d
    return Setup("tank", (width, width, layers), d, (across, across, 2.5), gap)


# --- the independent check ------------------------------------------------------------------------


def compression(x: NDArray[Any], setup: Setup) -> float:
    """Mean of max(rho/rho0 - 1, 0) [%], by a cubic spline of radius 2d and masses rho0 d^3.

    Over particles farther than that radius from all walls; infinite if positions are not finite.
    """
    from scipy.spatial import cKDTree

    x = np.asarray(x, np.float64)
    if not np.isfinite(x).all():
        return float("inf")
    h = 2 * setup.spacing
    pairs = cKDTree(x).query_pairs(h, output_type="ndarray")
    q = np.linalg.norm(x[pairs[:, 0]] - x[pairs[:, 1]], axis=1) / h
    w = np.where(q <= 0.5, 1 - 6 * q**2 * (1 - q), 2 * (1 - q) ** 3)
    first, second = (np.bincount(pairs[:, k], w, len(x)) for k in (0, 1))
    density = 8 / np.pi / 2**3 * (1 + first + second)  # (d/h)^3 is 1/2^3
    inner = np.all((x > h) & (x < np.array(setup.box) - h), axis=1)
    return float(100 * np.maximum(density[inner] - 1, 0).mean()) if inner.any() else 0.0


# --- where and when -------------------------------------------------------------------------------


def git(*arguments: str) -> str:
    """Asks git about the tree that `runnel` is imported from."""
    import runnel

    command = ["git", "-C", str(Path(runnel.__file__).parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


@cache
def commit() -> str:
    """Short name of the commit; with + behind it if files of the package have been changed."""
    dirty = git("status", "--porcelain", "--untracked-files=no", "--", ":/core")
    return git("rev-parse", "--short", "HEAD") + ("+" if dirty else "")


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((li.split(":", 1)[1].strip() for li in lines if li.startswith("model name")), "")


def conditions() -> Row:
    """Date, commit and machine of a measurement."""
    date = datetime.now(UTC).isoformat(timespec="seconds")
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return {
        "date": date,
        "commit": commit(),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "load": round(load, 1),
    }


def conditions_text(rows: Iterable[Row]) -> str:
    """One sentence on where, when and with what rows were measured."""
    rows = list(rows)
    dates = sorted(row["date"][:16].replace("T", " ") for row in rows)
    commits = ", ".join(sorted({row["commit"] for row in rows}))
    first = rows[-1]
    changed = " (+: with uncommitted changes)" if "+" in commits else ""
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    load = max(row["load"] for row in rows)
    return (
        f"{first['cpu']}, {first['cores']} cores, load up to {load:g} (our own threads included); "
        f"commit {commits}{changed}; {when} UTC."
    )


# --- rows on disk: a run that was stopped goes on -------------------------------------------------


class Rows:
    """Measured rows in a file of JSON lines, by key; what is there is not measured again."""

    def __init__(self, file: Path, fresh: bool = False) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self.file = file
        self._rows: dict[str, Row] = {}
        if fresh:
            file.unlink(missing_ok=True)
        if file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                self._rows[row["key"]] = row

    def get(self, key: str) -> Row | None:
        return self._rows.get(key)

    def add(self, key: str, row: Row) -> Row:
        row = {"key": key, **conditions(), **row}
        self._rows[key] = row
        append_line(self.file, row)
        return row


def append_line(file: Path, row: Row) -> None:
    with file.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(row) + "\n")


# --- tables and pictures --------------------------------------------------------------------------


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def publish(name: str, text: str) -> None:
    """Puts text between the marks of that name on the page."""
    page = PAGE.read_text(encoding="utf-8")
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = page.split(begin)
    after = rest.split(end)[1]
    PAGE.write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}", encoding="utf-8")


def axes(count: int) -> tuple[Any, Any]:
    """A figure with panels side by side; matplotlib is part of the extra `dev`."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, count, figsize=(5.6 * count, 4.4), squeeze=False)
    for panel in panels[0]:
        panel.grid(alpha=0.3, which="both")
    return figure, panels[0]


def save(figure: Any, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(file, dpi=80, metadata={"Software": None})
    say(f"wrote {file}")


# --- timing ---------------------------------------------------------------------------------------


def timed_step(sim: Any) -> float:
    """One step [s], the device waited for."""
    sim.synchronize()
    start = time.perf_counter()
    sim.bare_step(timed=False)
    sim.synchronize()
    return time.perf_counter() - start
