"""report.html and report.json: what a run did, frame by frame, from the numbers in its cache.

The page is one file: drawings of its own (SVG), pictures inside, no scripts, nothing from the
network.
"""

from __future__ import annotations

import base64
import html
import json
import math
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from .cache import Cache, write_aside
from .errors import RunnelError

Values = Sequence[float | None]

_PICTURE_BYTES = 1 << 25
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
.keys { color: var(--soft); font-size: 13px; } .keys span { white-space: nowrap; }
 .keys i { display: inline-block; width: 10px;
  height: 10px; border-radius: 5px; margin: 0 5px 0 12px; }
details { margin-top: 14px; } pre { overflow: auto; } table { border-collapse: collapse; }
td, th { text-align: right; padding: 2px 14px 2px 0; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
"""


_RARE = 3.0  # times as long as nine tenths of the frames: not shown to scale


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
        file.write(_page(cache, summary, _picture(cache)).encode())
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
            "ms_per_step_median": median(times) if (times := _step_times(rows)) else None,
            "density_error_avg": sum(errors) / len(errors) if errors else None,
            "density_error_max": max(worst, default=None),
            "books": _imbalance(rows[-1]) if rows else None,
            "leaks": max(found) if (found := _numbers(rows, "leaks")) else None,
            "memory": max(used) if (used := [_memory(row, "process") for row in rows]) else None,
            "mass_change": masses[-1] / masses[0] - 1 if masses and masses[0] else None,
        },
        "momentum_ledger": momentum_ledger(cache.scene, rows, _branched(cache)),
        "leaks_not_counted": uncounted(cache.scene),
        "frames": rows,
    }


def _numbers(rows: list[dict[str, Any]], key: str) -> list[float]:
    return [value for value in (_number(row, key) for row in rows) if value is not None]


def _memory(row: dict[str, Any], key: str) -> float:
    table = row.get("memory")
    return (_number(table, key) or 0.0) if isinstance(table, dict) else 0.0


def _ledger(row: dict[str, Any], key: str) -> float | None:
    """Of the books: what sources gave, what was removed, what should be there [kg]."""
    table = row.get("ledger")
    if not isinstance(table, dict):
        return None
    if key != "given":
        return _number(table, key)
    given = table.get("given")
    return sum(_number(given, name) or 0.0 for name in given) if isinstance(given, dict) else None


def _imbalance(row: dict[str, Any]) -> float | None:
    """Mass that is there and not in the books, as a share."""
    there, expected = _number(row, "mass"), _ledger(row, "expected")
    if there is None or not expected:
        return None
    return there / expected - 1


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


def _step_times(rows: list[dict[str, Any]]) -> list[float]:
    """Milliseconds of a step in each frame that has any."""
    return [sum(_stages(row).values()) / steps for row in rows if (steps := _number(row, "steps"))]


def _branched(cache: Cache) -> int | None:
    """The frame up to which a branch has frames of another scene."""
    branch = cache.manifest.branch
    return None if branch is None else branch.frame


# ---- leaks and momentum, as far as frames and scene tell


def _parts(scene: dict[str, Any], key: str) -> list[dict[str, Any]]:
    parts = scene.get(key)
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _is_body(collider: dict[str, Any]) -> bool:
    return collider.get("body") in ("rigid", "deformable")


def uncounted(scene: dict[str, Any]) -> list[str]:
    """Solids of which leaks.Leaks sees no leak, or not every one, and why."""
    found = []
    for part in _parts(scene, "collider"):
        shape = part.get("shape")
        mesh = shape.get("mesh") if isinstance(shape, dict) else None
        file = mesh.get("file") if isinstance(mesh, dict) else mesh
        if _is_body(part):
            why = "the fluid moves it"
        elif isinstance(file, str) and "#" in file:
            why = "it deforms"
        elif part.get("mode") == "shell":
            why = "a shell: what passed through it is on a side that is free"
        else:
            continue
        found.append(f"{part.get('name', '')} ({why})")
    return found


def momentum_ledger(
    scene: dict[str, Any], rows: list[dict[str, Any]], since: int | None = None
) -> dict[str, Any] | None:
    """What made the momentum [kg m/s] of the last frame out of that of the first one (or `since`).

    Gravity's part is of the masses of the frames, which change evenly in between. "rest" is what
    nothing else explains; `others` names what may have done that.
    """
    gravity = _gravity(scene)
    known = [row for row in rows if _vector(row.get("momentum")) and _numbers([row], "mass")
             and _numbers([row], "time") and (since is None or row["frame"] >= since)]  # fmt: skip
    if gravity is None or len(known) < 2:
        return None
    first, last = known[0], known[-1]
    load = sum((b["time"] - a["time"]) * (a["mass"] + b["mass"]) / 2 for a, b in pairwise(known))
    pull = [load * g for g in gravity]
    given, others = _streams(scene, first, last)
    explained = [first["momentum"], pull, *given.values()]
    return {
        "frames": [first["frame"], last["frame"]],
        "start": first["momentum"],
        "gravity": pull,
        "given": given,
        "rest": [last["momentum"][k] - sum(part[k] for part in explained) for k in range(3)],
        "end": last["momentum"],
        "others": [*_pushers(scene, first, last), *others],
    }


def _vector(value: Any) -> list[float] | None:
    usable = isinstance(value, list | tuple) and len(value) == 3
    numbers = [_number({"": v}, "") for v in value] if usable else []
    found = [n for n in numbers if n is not None]
    return found if len(found) == 3 else None


def _flat(scene: dict[str, Any], vector: list[float]) -> list[float]:
    """Without what a 2D scene leaves out."""
    ignored = -1 if scene.get("dimensions", 3) == 3 else 1 if scene.get("up", "z") == "z" else 2
    return [0.0 if axis == ignored else v for axis, v in enumerate(vector)]


def _gravity(scene: dict[str, Any]) -> list[float] | None:
    solver = scene.get("solver")
    gravity = _vector(solver.get("gravity")) if isinstance(solver, dict) else None
    return None if gravity is None else _flat(scene, gravity)


def _streams(
    scene: dict[str, Any], first: dict[str, Any], last: dict[str, Any]
) -> tuple[dict[str, list[float]], list[str]]:
    """Momentum that sources gave from one frame to another, and those of which nobody knows."""
    given: dict[str, list[float]] = {}
    unknown = []
    for source in _parts(scene, "source"):
        name = str(source.get("name", ""))
        mass = _given(last, name) - _given(first, name)
        if mass == 0:
            continue
        velocity = _stream(scene, source)
        if velocity is None:
            unknown.append(f"source {name}")
        else:
            given[name] = [mass * v for v in velocity]
    return given, unknown


def _given(row: dict[str, Any], source: str) -> float:
    table = row.get("ledger")
    given = table.get("given") if isinstance(table, dict) else None
    return (_number(given, source) or 0.0) if isinstance(given, dict) else 0.0


def _stream(scene: dict[str, Any], source: dict[str, Any]) -> list[float] | None:
    """Velocity at which a source gives; None if it changes, or is known to the run alone."""
    shape, velocity = source.get("shape"), _vector(source.get("velocity"))
    points = isinstance(shape, dict) and "points" in shape
    turned = source.get("motion") or any(_vector(source.get("rotation")) or ())
    if velocity is None or points or turned or source.get("rate") is not None:
        return None
    velocity = _flat(scene, velocity)
    length, speed = math.hypot(*velocity), _number(source, "speed")
    if length == 0:  # along a cylinder
        return None
    return velocity if speed is None else [speed / length * v for v in velocity]


def _pushers(scene: dict[str, Any], first: dict[str, Any], last: dict[str, Any]) -> list[str]:
    """What else changes the fluid's momentum in this scene."""
    colliders, domain = _parts(scene, "collider"), scene.get("domain")
    closed = isinstance(domain, dict) and domain.get("mode") == "close"
    emits = any(source.get("kind") == "emitter" for source in _parts(scene, "source"))
    there = {
        "walls": closed or not all(_is_body(part) for part in colliders),
        "bodies": any(_is_body(part) for part in colliders),
        "forces": bool(_parts(scene, "force")),
        "nozzles, which hold what leaves them": emits,
        "what was removed": _ledger(last, "removed") != _ledger(first, "removed"),
    }
    return [name for name, is_there in there.items() if is_there]


# ---- pictures


def _picture(cache: Cache) -> str | None:
    """The contact sheet of `runnel preview`, or one made now, as an address that holds it."""
    path = cache.directory / "preview" / "contact_sheet.png"
    with suppress(OSError):
        if path.stat().st_size <= _PICTURE_BYTES:
            return _address(path.read_bytes())
    return _fresh_picture(cache)


def _fresh_picture(cache: Cache) -> str | None:
    """Eight frames; none without positions, or where what pictures need is not installed."""
    from .preview import PreviewOptions, preview

    numbers = cache.frames()
    chosen = sorted({numbers[k * (len(numbers) - 1) // 7] for k in range(8)}) if numbers else []
    if not any(cache.entry(number).bounds for number in chosen):
        return None
    options = PreviewOptions(width=640, height=360, sheet=len(chosen), movie="none")
    with suppress(RunnelError), tempfile.TemporaryDirectory() as folder:
        preview(cache.directory, folder, options, frames=chosen)
        return _address((Path(folder) / "contact_sheet.png").read_bytes())
    return None


def _address(picture: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(picture).decode()


# ---- the page


def _page(cache: Cache, summary: dict[str, Any], sheet: str | None) -> str:
    name = html.escape(str(cache.scene.get("name") or cache.directory.name))
    about = " · ".join(
        html.escape(str(part))
        for part in (summary["device"], f"{cache.fps:g} frames per second",
                     f"Runnel {summary['runnel']}", f"scene {summary['scene_digest'][:12]}")
        if part
    )  # fmt: skip
    picture = f'<img src="{sheet}" alt="Frames of {name}">' if sheet else ""
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
        f"<details><summary>Books</summary>{_books(summary)}{_momentum(summary)}</details>\n"
        f"<details><summary>Settings</summary><pre>{scene}</pre></details>\n"
        "</main></body></html>\n"
    )


def _tiles(summary: dict[str, Any]) -> str:
    totals = summary["totals"]
    leaked = "leaked particles" + (", not of all solids" if summary["leaks_not_counted"] else "")

    def shown(key: str, pattern: Callable[[float], str]) -> str:
        return "-" if totals[key] is None else pattern(totals[key])

    tiles = {
        "frames": f"{totals['frames']}",
        "particles at most": _grouped(totals["particles_most"]),
        "per step, median of frames": shown("ms_per_step_median", lambda v: f"{v:.1f} ms"),
        "density error, mean": shown("density_error_avg", lambda v: f"{100 * v:.2f} %"),
        "density error, worst": shown("density_error_max", lambda v: f"{100 * v:.1f} %"),
        "change of mass": shown("mass_change", _percent),
        "off the books": shown("books", _percent),
        leaked: shown("leaks", lambda v: f"{v:.0f}"),
        "memory at most": shown("memory", lambda v: _size(v) if v else "-"),
        "on disk": _size(summary["bytes"]),
    }
    return "".join(
        f'<div class="tile"><b>{html.escape(value)}</b><span>{label}</span></div>'
        for label, value in tiles.items()
    )


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{percent:+.0f} %" if abs(percent) >= 10 else f"{percent:+.1g} %"


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

    def books(key: str) -> Values:
        return [_ledger(row, key) for row in rows]

    def memory(key: str) -> Values:
        return [_memory(row, key) / 1e6 or None for row in rows]

    mass = [Series("there", column("mass")), Series("given by sources", books("given")),
            Series("removed", books("removed"))]  # fmt: skip
    used = [Series(name, memory(name)) for name in ("process", "device", "host")]
    error = [Series("mean", column("density_error_avg", 100)),
             Series("worst particle", column("density_error_max", 100))]  # fmt: skip
    stages = [Series(stage, per_step(stage)) for stage in summary["stages"]]
    iterations = [value if row.get("steps") != 0 else None
                  for row, value in zip(rows, column("iterations"), strict=True)]  # fmt: skip
    candidates = [
        ("Particles", "", [Series("particles", column("particles"))], "from zero"),
        ("Density error", "%", error, "from zero"),
        ("Time per step", "ms", stages, "stacked"),
        ("Mass", "kg", mass if any(v is not None for v in mass[1].values) else mass[:1], ""),
        ("Iterations per step", "", [Series("iterations", iterations)], "from zero"),
        ("Leaked particles", "", [Series("leaks", column("leaks"))], "from zero"),
        ("Memory", "MB", used, "from zero"),
        ("Momentum", "kg m/s", [Series(n, momentum(k)) for k, n in enumerate("xyz")], ""),
    ]
    most, cut = _common_times(rows)
    notes = {"Leaked particles": _leaks_note(summary), "Time per step": cut}
    tops = {"Time per step": most}
    return [
        _section(title, unit, plot(frames, series, kind, tops.get(title)), series, notes.get(title))
        for title, unit, series, kind in candidates
        if any(value is not None for one in series for value in one.values)
    ]


def _common_times(rows: list[dict[str, Any]]) -> tuple[float | None, str]:
    """Where to cut the plot of times, so that the first frames, in which programs are built, do not
    flatten all others; and what to say about it."""
    times = {row["frame"]: _step_times([row]) for row in rows}
    known = sorted(time for found in times.values() for time in found)
    most = _RARE * known[int(0.9 * (len(known) - 1))] if known else 0.0
    cut = [frame for frame, found in times.items() if found and found[0] > most]
    if not cut or not most:
        return None, ""
    frames = ", ".join(map(str, cut[:5])) + (" and others" if len(cut) > 5 else "")
    return most, (
        f"Cut off: frame {frames}, up to {known[-1]:.0f} ms. Programs are built in the first "
        "frames of a run, or others had the machine."
    )


def _leaks_note(summary: dict[str, Any]) -> str:
    solids = summary["leaks_not_counted"]
    return f"Not counted: {'; '.join(solids)}." if solids else ""


def _section(title: str, unit: str, drawing: str, series: list[Series], note: str | None) -> str:
    heading = f"{title} [{unit}]" if unit else title
    keys = ""
    if len(series) > 1:
        dots = (
            f'<span><i style="background:{_COLORS[k % len(_COLORS)]}"></i>'
            f"{html.escape(one.name)}</span> "
            for k, one in enumerate(series)
        )
        keys = f'<div class="keys">{"".join(dots)}</div>'
    if note:
        keys += f'<div class="keys">{html.escape(note)}</div>'
    return f"<section><h2>{heading}</h2>{drawing}{keys}</section>"


def _table(summary: dict[str, Any]) -> str:
    keys = ("frame", "particles", "steps", "iterations", "density_error_avg", "density_error_max",
            "mass", "leaks", "bytes")  # fmt: skip
    head = "".join(f"<th>{key.replace('_', ' ')}</th>" for key in keys)
    rows = "".join(
        "<tr>" + "".join(f"<td>{_cell(_number(row, key))}</td>" for key in keys) + "</tr>"
        for row in summary["frames"]
    )
    return f'<div class="wide"><table><tr>{head}</tr>{rows}</table></div>'


def _books(summary: dict[str, Any]) -> str:
    """What each source gave until the last frame, what left, what is there [kg]."""
    last = summary["frames"][-1] if summary["frames"] else {}
    table = last.get("ledger")
    given = table.get("given") if isinstance(table, dict) else None
    if not isinstance(given, dict):
        return "<p>None were kept.</p>"
    lines = [(f"source {name}", _number(given, name)) for name in given]
    lines += [("removed", _ledger(last, "removed")), ("should be there", _ledger(last, "expected")),
              ("is there", _number(last, "mass"))]  # fmt: skip
    rows = "".join(
        f"<tr><th>{html.escape(str(name))}</th><td>{'-' if kg is None else f'{kg:.6g}'}</td></tr>"
        for name, kg in lines
    )
    head = "<th>mass</th><th>kg</th>"
    return f'<div class="wide"><table><tr>{head}</tr>{rows}</table></div>'


def _momentum(summary: dict[str, Any]) -> str:
    """The same of momentum: what was there, what changed it, what is there [kg m/s]."""
    books = summary["momentum_ledger"]
    if books is None:
        return ""
    first, last = books["frames"]
    others = ", ".join(books["others"]) or "nothing explains it"
    lines = {
        f"at frame {first}": books["start"],
        "gravity": books["gravity"],
        **{f"source {name}": vector for name, vector in books["given"].items()},
        f"the rest: {others}": books["rest"],
        f"at frame {last}": books["end"],
    }
    rows = "".join(
        f"<tr><th>{html.escape(name)}</th>{''.join(f'<td>{v:.4g}</td>' for v in vector)}</tr>"
        for name, vector in lines.items()
    )
    head = "<th>momentum, kg m/s</th><th>x</th><th>y</th><th>z</th>"
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


def plot(
    frames: Sequence[int], series: Sequence[Series], kind: str = "", most: float | None = None
) -> str:
    """SVG of values over frames: lines, or "stacked" areas; None leaves a gap.

    The axis fits the values; "stacked" and "from zero" include 0. What is above `most` is cut off.
    """
    stacked = kind == "stacked"
    layers = _stack(series) if stacked else [list(one.values) for one in series]
    known = [value for layer in layers for value in layer if value is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    high = high if most is None else min(high, most)
    if kind:
        low, high = min(low, 0.0), high or 1.0
    ticks = nice_ticks(low, high)
    digits = decimals(ticks[1] - ticks[0])
    low, high = ticks[0], ticks[-1]
    first, last = frames[0], frames[-1]

    def x(frame: float) -> float:
        inner = _WIDTH - _LEFT - _RIGHT
        return _LEFT + inner * ((frame - first) / (last - first) if last > first else 0.5)

    def y(value: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - (min(value, high) - low) / (high - low))

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
