"""report.html and report.json: what a run did, frame by frame, from the numbers in its cache.

The page is one file with drawings of its own (SVG), no scripts and nothing from the network; only
the contact sheet of `runnel preview` is linked, if there is one.
"""

from __future__ import annotations

import html
import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .cache import Cache, write_aside

Values = Sequence[float | None]

_WIDTH, _HEIGHT = 560, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 14, 30
_COLORS = ("#2f7fc2", "#e08a2c", "#2f9e77", "#c25b93", "#7a6fc0", "#c9b037", "#5fb4d8", "#8a8f98")
_STYLE = """
:root { color-scheme: light dark; --ink: #1d2731; --soft: #667380; --line: #d8dee4;
  --paper: #f5f7f9; --card: #fff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e2e8ee; --soft: #94a1ae; --line: #323b45;
  --paper: #12161b; --card: #1a2027; } }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1200px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { margin: 0; font-size: 28px; } h2 { font-size: 15px; margin: 0 0 6px; }
p.about { color: var(--soft); margin: 2px 0 20px; }
.tiles, .plots { display: grid; gap: 14px; }
.tiles { grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); margin-bottom: 14px; }
.plots { grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); }
section, .tile, details { background: var(--card); border: 1px solid var(--line);
  border-radius: 10px; padding: 14px 16px; }
.tile b { display: block; font-size: 21px; font-weight: 600; white-space: nowrap; }
.tile span { color: var(--soft); }
img { width: 100%; border-radius: 10px; margin: 0 0 14px; display: block; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--soft); font-size: 12px; }
.grid { stroke: var(--line); stroke-width: 1; } .hover { fill: transparent; }
.hover:hover { fill: var(--soft); fill-opacity: .15; }
.keys { color: var(--soft); font-size: 13px; } .keys i { display: inline-block; width: 10px;
  height: 10px; border-radius: 5px; margin: 0 5px 0 12px; }
details { margin-top: 14px; } pre { overflow: auto; } table { border-collapse: collapse; }
td, th { text-align: right; padding: 2px 14px 2px 0; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
"""


@dataclass(frozen=True)
class Series:
    """One line or layer of a plot."""

    name: str
    values: Values


def write_report(
    cache_dir: str | os.PathLike[str], out: str | os.PathLike[str] | None = None
) -> list[Path]:
    """Write report.html and report.json into `out` (default: the cache's folder)."""
    cache = Cache.open(cache_dir)
    target = cache.directory if out is None else Path(out)
    summary = summarize(cache)
    page, data = target / "report.html", target / "report.json"
    with write_aside(data) as file:
        file.write((json.dumps(summary, indent=1, allow_nan=False) + "\n").encode())
    with write_aside(page) as file:
        file.write(_page(cache, summary, _sheet_link(cache, target)).encode())
    return [page, data]


def summarize(cache: Cache) -> dict[str, Any]:
    """The numbers of all frames, and what they come to."""
    info = cache.info()
    rows = [{"frame": r["frame"], "bytes": r["bytes"], "particles": r["particles"], **r["report"]}
            for r in info.pop("frames")]  # fmt: skip
    stages = list(dict.fromkeys(name for row in rows for name in _stages(row)))
    steps = sum(int(_number(row, "steps") or 0) for row in rows)
    spent = sum(sum(_stages(row).values()) for row in rows)
    masses = [m for m in (_number(row, "mass") for row in rows) if m is not None]
    errors = [e for e in (_number(row, "density_error_avg") for row in rows) if e is not None]
    worst = [e for e in (_number(row, "density_error_max") for row in rows) if e is not None]
    return {
        **info,
        "directory": cache.directory.name,  # a report travels; where it was made does not matter
        "stages": stages,
        "totals": {
            "frames": len(rows),
            "steps": steps,
            "particles_most": max((row["particles"] for row in rows), default=0),
            "milliseconds": spent,
            "ms_per_step": spent / steps if steps else None,
            "density_error_avg": sum(errors) / len(errors) if errors else None,
            "density_error_max": max(worst, default=None),
            "mass_change": masses[-1] / masses[0] - 1 if masses and masses[0] else None,
        },
        "frames": rows,
    }


def _number(row: dict[str, Any], key: str) -> float | None:
    value = row.get(key)
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if usable and value is not None else None


def _stages(row: dict[str, Any]) -> dict[str, float]:
    """Milliseconds of a frame by stage."""
    spent = row.get("milliseconds")
    if not isinstance(spent, dict):
        return {}
    numbers = {str(name): _number(spent, name) for name in spent}
    return {name: value for name, value in numbers.items() if value is not None}


def _sheet_link(cache: Cache, target: Path) -> str | None:
    sheet = cache.directory / "preview" / "contact_sheet.png"
    if not sheet.exists():
        return None
    try:
        return Path(os.path.relpath(sheet, target)).as_posix()
    except ValueError:  # another drive
        return None


# ---- the page


def _page(cache: Cache, summary: dict[str, Any], sheet: str | None) -> str:
    name = html.escape(str(cache.scene.get("name") or cache.directory.name))
    about = " · ".join(
        html.escape(str(part))
        for part in (summary["device"], f"{cache.fps:g} frames per second",
                     f"Runnel {summary['runnel']}", f"scene {summary['scene_digest'][:12]}")
        if part
    )  # fmt: skip
    picture = f'<img src="{html.escape(sheet)}" alt="Frames of {name}">' if sheet else ""
    plots = "".join(_plots(summary)) or "<section>No frames yet.</section>"
    scene = html.escape(json.dumps(cache.scene, indent=2))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><main>\n"
        f'<h1>{name}</h1><p class="about">{about}</p>\n'
        f'<div class="tiles">{_tiles(summary)}</div>\n{picture}\n'
        f'<div class="plots">{plots}</div>\n'
        f"<details><summary>Frames</summary>{_table(summary)}</details>\n"
        f"<details><summary>Scene</summary><pre>{scene}</pre></details>\n"
        "</main></body></html>\n"
    )


def _tiles(summary: dict[str, Any]) -> str:
    totals = summary["totals"]

    def shown(key: str, pattern: Callable[[float], str]) -> str:
        return "-" if totals[key] is None else pattern(totals[key])

    tiles = {
        "frames": f"{totals['frames']}",
        "particles at most": _grouped(totals["particles_most"]),
        "per step": shown("ms_per_step", lambda v: f"{v:.1f} ms"),
        "density error, mean": shown("density_error_avg", lambda v: f"{100 * v:.2f} %"),
        "density error, worst": shown("density_error_max", lambda v: f"{100 * v:.1f} %"),
        "change of mass": shown("mass_change", lambda v: f"{100 * v:+.1g} %"),
        "on disk": _size(summary["bytes"]),
    }
    return "".join(
        f'<div class="tile"><b>{html.escape(value)}</b><span>{label}</span></div>'
        for label, value in tiles.items()
    )


def _plots(summary: dict[str, Any]) -> list[str]:
    rows = summary["frames"]
    if not rows:
        return []
    frames = [row["frame"] for row in rows]

    def column(key: str, factor: float = 1.0) -> Values:
        numbers = [_number(row, key) for row in rows]
        return [None if n is None else n * factor for n in numbers]

    def per_step(stage: str) -> Values:
        return [_stages(row).get(stage, 0.0) / max(_number(row, "steps") or 1.0, 1.0)
                for row in rows]  # fmt: skip

    def momentum(axis: int) -> Values:
        vectors = [row.get("momentum") for row in rows]
        return [v[axis] if isinstance(v, list) and len(v) == 3 else None for v in vectors]

    error = [Series("mean", column("density_error_avg", 100)),
             Series("worst particle", column("density_error_max", 100))]  # fmt: skip
    stages = [Series(stage, per_step(stage)) for stage in summary["stages"]]
    candidates = [
        ("Particles", "", [Series("particles", column("particles"))], "from zero"),
        ("Density error", "%", error, "from zero"),
        ("Time per step", "ms", stages, "stacked"),
        ("Mass", "kg", [Series("mass", column("mass"))], ""),
        ("Iterations per step", "", [Series("iterations", column("iterations"))], "from zero"),
        ("Momentum", "kg m/s", [Series(n, momentum(k)) for k, n in enumerate("xyz")], ""),
    ]
    return [
        _section(title, unit, frames, series, kind)
        for title, unit, series, kind in candidates
        if any(value is not None for one in series for value in one.values)
    ]


def _section(title: str, unit: str, frames: list[int], series: list[Series], kind: str) -> str:
    heading = f"{title} [{unit}]" if unit else title
    keys = ""
    if len(series) > 1:
        dots = (
            f'<i style="background:{_COLORS[k % len(_COLORS)]}"></i>{html.escape(one.name)}'
            for k, one in enumerate(series)
        )
        keys = f'<div class="keys">{"".join(dots)}</div>'
    return f"<section><h2>{heading}</h2>{plot(frames, series, kind)}{keys}</section>"


def _table(summary: dict[str, Any]) -> str:
    keys = ("frame", "particles", "steps", "iterations", "density_error_avg", "density_error_max",
            "mass", "bytes")  # fmt: skip
    head = "".join(f"<th>{key.replace('_', ' ')}</th>" for key in keys)
    rows = "".join(
        "<tr>" + "".join(f"<td>{_cell(_number(row, key))}</td>" for key in keys) + "</tr>"
        for row in summary["frames"]
    )
    return f'<div class="wide"><table><tr>{head}</tr>{rows}</table></div>'


def _cell(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value == round(value) else f"{value:.4g}"


def _grouped(number: int) -> str:
    return f"{number:,}".replace(",", "\u202f")


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


# ---- drawing


def plot(frames: Sequence[int], series: Sequence[Series], kind: str = "") -> str:
    """SVG of values over frames: lines, or "stacked" areas; None leaves a gap.

    The axis fits the values; "stacked" and "from zero" include 0.
    """
    stacked = kind == "stacked"
    layers = _stack(series) if stacked else [list(one.values) for one in series]
    known = [value for layer in layers for value in layer if value is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    ticks = nice_ticks(min(low, 0.0) if kind else low, high)
    digits = decimals(ticks[1] - ticks[0])
    low, high = ticks[0], ticks[-1]
    first, last = frames[0], frames[-1]

    def x(frame: float) -> float:
        inner = _WIDTH - _LEFT - _RIGHT
        return _LEFT + inner * ((frame - first) / (last - first) if last > first else 0.5)

    def y(value: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - (value - low) / (high - low))

    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">']
    for tick in ticks:
        at = f"{y(tick):.1f}"
        parts.append(f'<path class="grid" d="M{_LEFT} {at}H{_WIDTH - _RIGHT}"/>')
        parts.append(
            f'<text x="{_LEFT - 8}" y="{at}" dy="4" text-anchor="end">{label(tick, digits)}</text>'
        )
    for frame in sorted({first, round((first + last) / 2), last}):
        parts.append(
            f'<text x="{x(frame):.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{frame}</text>'
        )
    for k in reversed(range(len(layers))) if stacked else range(len(layers)):
        color = _COLORS[k % len(_COLORS)]
        points = [
            (x(f), None if v is None else y(v)) for f, v in zip(frames, layers[k], strict=True)
        ]
        parts.append(_area(points, y(0.0), color) if stacked else _line(points, color))
    parts += _hovers(frames, series, x)
    return "".join(parts) + "</svg>"


def decimals(step: float) -> int:
    """Decimals that tell neighbouring ticks apart, 2.5 from 5 included."""
    return max(0, 1 - math.floor(math.log10(step)))


def label(tick: float, digits: int) -> str:
    """A tick with as many decimals as neighbours need to differ, and no more."""
    text = f"{tick:.{digits}f}" if abs(tick) < 1e7 and digits < 10 else f"{tick:.4g}"
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def _stack(series: Sequence[Series]) -> list[list[float | None]]:
    layers: list[list[float | None]] = []
    total = [0.0] * (len(series[0].values) if series else 0)
    for one in series:
        total = [below + (value or 0.0) for below, value in zip(total, one.values, strict=True)]
        layers.append(list(total))
    return layers


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About `count` round numbers that enclose low..high."""
    if high <= low:
        spare = abs(low) * 1e-3 or 1.0
        low, high = low - spare, high + spare
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * (1 - 1e-9))
    start, end = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [k * step for k in range(start, max(end, start + 1) + 1)]


Points = list[tuple[float, float | None]]


def _line(points: Points, color: str) -> str:
    path, pen = "", "M"
    for x, y in points:
        if y is None:
            pen = "M"
        else:
            path += f"{pen}{x:.1f} {y:.1f}"
            pen = "L"
    dot = ""
    if len(points) == 1 and points[0][1] is not None:
        dot = f'<circle cx="{points[0][0]:.1f}" cy="{points[0][1]:.1f}" r="4" fill="{color}"/>'
    return (
        f'<path d="{path}" fill="none" stroke="{color}" stroke-width="2" '
        f'stroke-linejoin="round"/>{dot}'
    )


def _area(points: Points, base: float, color: str) -> str:
    solid = [(x, base if y is None else y) for x, y in points]
    if len(solid) == 1:
        solid = [(solid[0][0] - 20, solid[0][1]), (solid[0][0] + 20, solid[0][1])]
    top = "L".join(f"{x:.1f} {y:.1f}" for x, y in solid)
    return (
        f'<path d="M{solid[0][0]:.1f} {base:.1f}L{top}L{solid[-1][0]:.1f} {base:.1f}Z" '
        f'fill="{color}" fill-opacity=".9"/>'
    )


def _hovers(
    frames: Sequence[int], series: Sequence[Series], x: Callable[[float], float]
) -> list[str]:
    """Invisible strips that tell the numbers when pointed at."""
    width = (_WIDTH - _LEFT - _RIGHT) / max(len(frames) - 1, 1)
    strips = []
    for k, frame in enumerate(frames):
        words = [f"frame {frame}"]
        for one in series:
            value = one.values[k]
            words.append(f"{one.name}: {'-' if value is None else format(value, '.5g')}")
        strips.append(
            f'<rect class="hover" x="{x(frame) - width / 2:.1f}" y="{_TOP}" width="{width:.1f}" '
            f'height="{_HEIGHT - _TOP - _BOTTOM}"><title>{html.escape(chr(10).join(words))}</title>'
            "</rect>"
        )
    return strips
