"""`runnel info`, `devices`, `scenes`, `schema`: commands that only show."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

from ..backends import devices
from ..cache import Cache
from ..errors import SceneError
from ..scene import example, example_names, example_path
from .console import complain, say, say_json, size_text, table


def add_parsers(commands: Any) -> None:
    info = commands.add_parser("info", help="what a cache holds, frame by frame; is it whole?")
    info.add_argument("dir", metavar="DIR", help="folder of a cache")
    depth = info.add_mutually_exclusive_group()
    depth.add_argument("--quick", action="store_true", help="look at sizes of files only")
    depth.add_argument(
        "--verify", action="store_true", help="read and check everything, as without it"
    )
    info.add_argument("--json", action="store_true", help="the result as JSON")
    info.set_defaults(command=show_info)

    listed = commands.add_parser("devices", help="devices that work here, and the one auto picks")
    listed.add_argument("--reprobe", action="store_true", help="try all of them again")
    listed.add_argument("--json", action="store_true", help="the result as JSON")
    listed.set_defaults(command=show_devices)

    shipped = commands.add_parser("scenes", help="list or write out the shipped scenes")
    shipped.add_argument("names", nargs="*", metavar="NAME", help="those to write; default all")
    shipped.add_argument("--write", metavar="DIR", help="write the files into a folder")
    shipped.add_argument("--force", action="store_true", help="replace files that are there")
    shipped.add_argument("--json", action="store_true", help="the result as JSON")
    shipped.set_defaults(command=show_scenes)

    schema = commands.add_parser("schema", help="JSON Schema of the scene format")
    schema.set_defaults(command=show_schema)


def show_info(args: argparse.Namespace) -> int:
    cache = Cache.open(args.dir)
    problems = cache.cut_short() if args.quick else cache.verify(finite=True)
    facts = cache.info()
    if args.json:
        say_json({**facts, "verified": not args.quick, "problems": problems})
        return 1 if problems else 0
    say(f"{args.dir}: {facts['scene']!r}, {len(facts['frames'])} frames at {facts['fps']:g} fps")
    say(f"  {size_text(facts['bytes'])}, written by Runnel {facts['runnel']} on {facts['device']}")
    say(f"  channels {', '.join(facts['channels'])}")
    if facts["branch"]:
        say("  shares its frames up to {frame} with {parent!r}".format(**facts["branch"]))
    if facts["missing"]:
        say(f"  missing frames {', '.join(map(str, facts['missing']))}")
    if facts["checkpoints"]:
        say(f"  checkpoints at frames {', '.join(map(str, facts['checkpoints']))}")
    head = ("frame", "particles", "size", "steps", "iterations", "density error", "ms/step")
    say()
    say(table(head, [_frame_row(frame) for frame in facts["frames"]], left=0))
    for problem in problems:
        complain(problem)
    if not args.quick and not problems:
        say("all frames and checkpoints are as written")
    return 1 if problems else 0


def _frame_row(frame: dict[str, Any]) -> tuple[str, ...]:
    report = frame["report"]

    def number(key: str, form: str, factor: float = 1.0) -> str:
        value = report.get(key)
        return form.format(value * factor) if isinstance(value, int | float) else "-"

    return (
        str(frame["frame"]),
        str(frame["particles"]),
        size_text(frame["bytes"]),
        number("steps", "{:.0f}"),
        number("iterations", "{:.1f}"),
        number("density_error_avg", "{:.2f} %", 100),
        number("ms_per_step", "{:.1f}"),
    )


def show_devices(args: argparse.Namespace) -> int:
    found = devices.list_devices(reprobe=args.reprobe)
    picked = devices.choose("auto")
    if args.json:
        rows = [{**dataclasses.asdict(i), "works": i.works, "auto": i == picked} for i in found]
        say_json({"devices": rows, "auto": picked.name})
        return 0
    head = ("", "name", "platform", "kind", "units", "memory", "")
    rows_text = [
        (
            f"{'*' if info == picked else ' '} {number}",
            info.name,
            info.platform,
            info.kind,
            str(info.compute_units),
            size_text(info.memory),
            "works" if info.works else "; ".join(info.problems),
        )
        for number, info in enumerate(found)
    ]
    reference = devices.REFERENCE
    mark = "*" if picked.kind == "reference" else " "
    rows_text.append((f"{mark} -", "reference", reference.platform, "reference", "-", "-", "works"))
    say(table(head, rows_text, left=4))
    say()
    say(f"* is what --device auto picks: {picked.name}")
    if picked.note:
        say(picked.note)
    return 0


def show_scenes(args: argparse.Namespace) -> int:
    names = args.names or example_names()
    paths = {name: example_path(name) for name in names}
    if args.write is not None:
        return _write_scenes(paths, Path(args.write), args.force)
    rows = [(name, _description(path)) for name, path in paths.items()]
    if args.json:
        say_json([{"name": name, "description": text} for name, text in rows])
        return 0
    say(table(("scene", "shows"), rows, left=2))
    return 0


def _write_scenes(paths: dict[str, Path], folder: Path, force: bool) -> int:
    targets = {name: folder / path.name for name, path in paths.items()}
    for target in targets.values():
        if target.exists() and not force:
            raise SceneError("is there already; --force replaces it", file=target)
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in paths.items():
        targets[name].write_bytes(path.read_bytes())
        for file in example(name).files():
            target = folder / file.relative_to(path.parent)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
        say(str(targets[name]))
    return 0


def _description(path: Path) -> str:
    """The comment that a scene file starts with: its first line, to the end of the sentence."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#") or not line.strip("# "):
            break
        lines.append(line.strip("# "))
        if lines[-1].endswith("."):
            break
    text = " ".join(lines)
    end = text.find(". ", len(lines[0]) - 1) if lines else -1
    return text if end < 0 else text[: end + 1]


def show_schema(args: argparse.Namespace) -> int:
    from ..schema import json_schema

    say(json.dumps(json_schema(), indent=2))
    return 0
