"""The scene argument, and flags that change a scene: made from the declarations in params."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from ..errors import SceneError
from ..params import Solver
from ..scene import Scene, example, example_names
from ..spec import Spec, specs


def add_scene(parser: argparse.ArgumentParser) -> None:
    """The scene, --set, and one flag for each knob of the solver."""
    parser.add_argument("scene", metavar="SCENE", help="scene file, or name of a shipped scene")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="replace a value of the scene, such as source.dam.spacing=0.03; may be repeated",
    )
    parser.add_argument(
        "--allow-outside", action="store_true", help="mesh files may lie outside the scene's folder"
    )
    group = parser.add_argument_group("solver", "each stands for --set solver.NAME=VALUE")
    for spec in specs(Solver):
        group.add_argument(spec.flag, dest=f"solver_{spec.name}", **_how(spec))


def _how(spec: Spec) -> dict[str, Any]:
    """Arguments of add_argument. Values stay texts: the scene checks them and names the key."""
    text = spec.help_with_unit.replace("%", "%%")
    if spec.type is bool:
        return {"action": argparse.BooleanOptionalAction, "help": text}
    name = spec.name.upper()
    if spec.choices:
        name = "{" + ",".join(map(str, spec.choices)) + "}"
    how: dict[str, Any] = {"metavar": name, "help": text}
    return how | {"nargs": spec.size} if spec.size > 1 else how


def load(args: argparse.Namespace) -> Scene:
    """The scene a command line means, with its replacements."""
    scene = find(args.scene, args.allow_outside)
    overrides = [*args.set, *_solver_overrides(args)]
    try:
        return scene.with_overrides(overrides) if overrides else scene
    except SceneError as error:
        raise error.in_file(args.scene) from error.__cause__


def find(word: str, allow_outside: bool = False) -> Scene:
    """A scene file, or a shipped scene by name."""
    path = Path(word)
    if path.suffix.lower() in (".toml", ".json") or path.is_file():
        return Scene.load(path, allow_outside=allow_outside)
    if word in example_names():
        return example(word)
    raise SceneError(
        "is neither a scene file (.toml, .json) nor a shipped scene. Shipped are: "
        + ", ".join(example_names()),
        file=word,
    )


def _solver_overrides(args: argparse.Namespace) -> list[str]:
    found = []
    for spec in specs(Solver):
        value = getattr(args, f"solver_{spec.name}")
        if value is None:
            continue
        if isinstance(value, list):
            value = f"[{', '.join(value)}]"
        text = str(value).lower() if isinstance(value, bool) else value
        found.append(f"solver.{spec.name}={text}")
    return found


def frame_range(text: str | None, first: int, last: int) -> tuple[int, int]:
    """Frames that `--frames A-B`, `A-`, `-B` or `A` means; the ends default to those given.

    Frames may be negative: `-5--1`.
    """
    if text is None:
        return first, last
    number = r"(-?\d+)"
    if match := re.fullmatch(rf"{number}-{number}", text):
        low, high = int(match[1]), int(match[2])
    elif match := re.fullmatch(rf"{number}-", text):
        low, high = int(match[1]), last
    elif match := re.fullmatch(number, text):
        low = high = int(match[1])
    else:
        raise SceneError("must be A-B, A- or A, such as 1-48", key="--frames", value=text)
    if low > high:
        raise SceneError("the first must not be above the last", key="--frames", value=text)
    return low, high
