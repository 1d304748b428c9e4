"""`runnel preview`, `mesh`, `export`, `report`: what is made from a cache."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..cache import Cache
from ..errors import SceneError
from ..export import ExportOptions
from ..preview import PreviewOptions
from ..progress import Progress
from ..surface import SurfaceOptions
from .console import say, say_json
from .scenes import frame_range

# Options without a default value to tell their type: how many numbers they take.
_NUMBERS = {"range": 2, "bounds": 6}


def add_parsers(commands: Any) -> None:
    preview = commands.add_parser("preview", help="pictures, a contact sheet and a movie")
    _add_common(preview, "DIR/preview")
    _add_options(preview, PreviewOptions)
    preview.set_defaults(command=make_preview)

    mesh = commands.add_parser("mesh", help="surfaces as PLY or OBJ")
    _add_common(mesh, "DIR/mesh")
    _add_options(mesh, SurfaceOptions)
    mesh.set_defaults(command=make_mesh)

    export = commands.add_parser(
        "export", help="files for other programs: usd, bgeo, vdb, ply, npz"
    )
    _add_common(export, "DIR/export")
    _add_options(export, ExportOptions)
    export.set_defaults(command=make_export)

    report = commands.add_parser("report", help="a page about a run: report.html, report.json")
    report.add_argument("dir", metavar="DIR", help="folder of a cache")
    report.add_argument("--out", metavar="DIR", help="folder to write to (default: the cache)")
    report.add_argument("--json", action="store_true", help="the files written, as JSON")
    report.set_defaults(command=make_report)


def _add_common(parser: argparse.ArgumentParser, target: str) -> None:
    parser.add_argument("dir", metavar="DIR", help="folder of a cache")
    parser.add_argument("--out", metavar="DIR", help=f"folder to write to (default: {target})")
    parser.add_argument("--frames", metavar="A-B", help="frames to use (default: all)")
    parser.add_argument("--json", action="store_true", help="the files written, as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def _add_options(parser: argparse.ArgumentParser, options: type) -> None:
    """A flag for each field; its default tells the type. Without a default it must be given."""
    for item in dataclasses.fields(options):
        flag, default = "--" + item.name.replace("_", "-"), item.default
        how: dict[str, Any] = {"default": None, "dest": f"option_{item.name}"}
        text = item.metadata.get("help", "")
        if default is dataclasses.MISSING:
            how |= {"required": True, "metavar": item.name.upper()}
            parser.add_argument(flag, help=text, **how)
            continue
        if isinstance(default, bool):
            how["action"] = argparse.BooleanOptionalAction
        elif isinstance(default, tuple):
            how |= {"nargs": "*", "metavar": item.name.upper()}
        elif item.name in _NUMBERS:
            how |= {"nargs": _NUMBERS[item.name], "type": float, "metavar": "X"}
        else:
            how |= {"type": type(default), "metavar": item.name.upper()}
        shown = " ".join(map(str, default)) if isinstance(default, tuple) else default
        told = f"default {'none' if shown in (None, '') else shown}"
        parser.add_argument(flag, help=f"{text} ({told})" if text else told, **how)


def _options(args: argparse.Namespace, options: type) -> Any:
    chosen = {}
    for item in dataclasses.fields(options):
        value = getattr(args, f"option_{item.name}")
        if value is not None:
            chosen[item.name] = tuple(value) if isinstance(value, list) else value
    if "bounds" in chosen:
        chosen["bounds"] = (chosen["bounds"][:3], chosen["bounds"][3:])
    return options(**chosen)


def _frames(args: argparse.Namespace) -> list[int] | None:
    """Frames of the cache that --frames means; None: all."""
    if args.frames is None:
        return None
    have = Cache.open(args.dir).frames()
    first, last = frame_range(args.frames, have[0] if have else 0, have[-1] if have else 0)
    found = [frame for frame in have if first <= frame <= last]
    if not found:
        extent = f"{have[0]} to {have[-1]}" if have else "none yet"
        raise SceneError(
            f"{args.dir} has no such frames, it has {extent}", key="--frames", value=args.frames
        )
    return found


def make_preview(args: argparse.Namespace) -> int:
    from ..preview import preview

    options = _options(args, PreviewOptions)
    show = _counter(args)
    return _tell(args, preview(args.dir, args.out, options, frames=_frames(args), on_frame=show))


def make_mesh(args: argparse.Namespace) -> int:
    from ..surface import mesh_frames

    options = _options(args, SurfaceOptions)
    show = _counter(args)
    return _tell(args, mesh_frames(args.dir, _frames(args), args.out, options, on_frame=show))


def make_export(args: argparse.Namespace) -> int:
    from ..export import export_frames

    options = _options(args, ExportOptions)
    show = _counter(args)
    return _tell(args, export_frames(args.dir, options, _frames(args), args.out, on_frame=show))


def make_report(args: argparse.Namespace) -> int:
    from ..report import write_report

    return _tell(args, write_report(args.dir, args.out))


def _counter(args: argparse.Namespace) -> Callable[[int, int], None]:
    quiet = args.quiet or args.json or not sys.stderr.isatty()
    shown: list[Progress] = []

    def count(done: int, total: int) -> None:
        if not shown:
            shown.append(Progress(1, total, mode="quiet" if quiet else "line"))
        shown[0].frame(done)
        if done == total:
            shown[0].close()

    return count


def _tell(args: argparse.Namespace, files: list[Path]) -> int:
    if args.json:
        say_json({"files": [str(path) for path in files]})
        return 0
    frames = [path for path in files if path.stem.startswith(("frame_", "surface", "particles."))]
    rest = [path for path in files if path not in frames]
    if len(frames) > 2:  # a long sequence in one line
        say(f"{frames[0]} ... {frames[-1].name} ({len(frames)} files)")
    else:
        rest = files
    for path in rest:
        say(str(path))
    return 0
