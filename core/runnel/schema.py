"""JSON Schema and reference page of the scene format, both made from `params`."""

from __future__ import annotations

from typing import Any

from .params import CHANNELS, LISTS, SHAPES, TABLES, ForceKeyframe, Keyframe
from .presets import PRESETS
from .scene import Scene
from .spec import Spec, specs, toml_text

_TYPES = {float: "number", int: "integer", bool: "boolean", str: "string"}


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a scene. Units stand in the descriptions.

    Checks that compare values (corners of a box, names of fluids, frames in order) are the
    reader's alone.
    """
    top = _table(Scene)
    properties = top.pop("properties")
    for key, part in TABLES.items():
        properties[key] = {"$ref": f"#/$defs/{part.__name__}"}
    for key, part in LISTS.items():
        items = {"$ref": f"#/$defs/{part.__name__}"}
        properties[key] = {"type": "array", "items": items, "description": _summary(part)}
    for key in ("fluid", "source"):
        properties[key]["minItems"] = 1
    parts = [*TABLES.values(), *LISTS.values(), *SHAPES.values(), Keyframe, ForceKeyframe]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **top,
        "title": "Runnel scene",
        "description": "Scene of the Runnel fluid solver. SI units.",
        "properties": properties,
        "required": ["fluid", "source"],
        "$defs": {part.__name__: _table(part) for part in parts},
    }


def reference_markdown() -> str:
    """The reference page docs/reference/scene.md."""
    parts = [_INTRODUCTION, _section("Scene", "Keys at the top of the file.", Scene)]
    for key, part in TABLES.items():
        parts.append(_section(f"`[{key}]`", _summary(part), part))
    for key, part in LISTS.items():
        parts.append(_section(f"`[[{key}]]`", _summary(part), part))
    parts.append("## Shapes\n\nA shape is a table of one key: "
                 "`shape = { sphere = { center = [0, 0, 1], radius = 0.5 } }`.\n")  # fmt: skip
    for key, part in SHAPES.items():
        parts.append(_section(f"`{key}`", _summary(part), part, level=3))
    parts.append(_section("Keyframes", _summary(Keyframe), Keyframe))
    parts.append(_section("Keyframes of forces", _summary(ForceKeyframe), ForceKeyframe))
    parts += [_presets(), _channels()]
    return "\n".join(parts)


_INTRODUCTION = """\
# Scene reference

<!-- Made from core/runnel/params.py by `make docs`; do not edit. -->

A scene is a TOML or JSON file. Units are SI, axes right-handed. Unknown keys are errors.
"Range" is what is accepted, ends included; values outside are refused with a message.
`runnel schema` prints the same as JSON Schema. How to write a scene: [guide](../guide/scenes.md).
"""


def _summary(part: type) -> str:
    return " ".join((part.__doc__ or "").split())


# --- JSON Schema ----------------------------------------------------------------------------------


def _table(cls: type) -> dict[str, Any]:
    knobs = specs(cls)
    table: dict[str, Any] = {
        "type": "object",
        "description": _summary(cls),
        "additionalProperties": False,
        "properties": {spec.name: _property(spec) for spec in knobs},
    }
    required = [spec.name for spec in knobs if spec.required]
    if required:
        table["required"] = required
    return table


def _property(spec: Spec) -> dict[str, Any]:
    schema: dict[str, Any] = {"title": spec.label, "description": _description(spec)}
    if not spec.required and not spec.default_text:
        schema["default"] = list(spec.default) if spec.size != 1 else spec.default
    if spec.nested and not spec.optional:
        return schema | _nested(spec)
    value = _nested(spec) if spec.nested else _component(spec)
    if spec.size != 1:
        value = {"type": "array", "items": value}
    if spec.size > 1:
        value |= {"minItems": spec.size, "maxItems": spec.size}
    if spec.optional:
        return schema | {"anyOf": [value, {"type": "null"}]}
    if spec.words:
        return schema | {"anyOf": [value, {"enum": list(spec.words)}]}
    return schema | value


def _component(spec: Spec) -> dict[str, Any]:
    """Schema of a scalar, or of one entry of a vector or list."""
    if spec.choices is not None:
        return {"enum": list(spec.supported)}
    value: dict[str, Any] = {"type": _TYPES[spec.type]}
    low, high = spec.hard
    if low is not None:
        value["minimum"] = low
    if high is not None:
        value["maximum"] = high
    if spec.pattern:
        value["pattern"] = f"^(?:{spec.pattern})$"
    return value


def _nested(spec: Spec) -> dict[str, Any]:
    if spec.size == 0:
        return {"type": "array", "items": {"$ref": f"#/$defs/{spec.nested[0].__name__}"}}
    kinds: dict[str, Any] = {
        kind: {"$ref": f"#/$defs/{SHAPES[kind].__name__}"} for kind in spec.supported
    }
    for kind in ("mesh", "points"):
        if kind in kinds:
            file = specs(SHAPES[kind])[0]
            kinds[kind] = {"anyOf": [_component(file), kinds[kind]]}
    return {
        "type": "object",
        "properties": kinds,
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }


def _description(spec: Spec) -> str:
    text = spec.help_with_unit
    if spec.default_text:
        text += f" Default: {spec.default_text}."
    return text


# --- reference page -------------------------------------------------------------------------------


def _section(title: str, summary: str, cls: type, level: int = 2) -> str:
    rows = [f"| `{s.name}` | {_allowed(s)} | {_default(s)} | {_meaning(s)} |" for s in specs(cls)]
    head = ["| key | range | default | meaning |", "|---|---|---|---|"]
    return "\n".join([f"{'#' * level} {title}", "", summary, "", *head, *rows, ""])


def _allowed(spec: Spec) -> str:
    if spec.nested and spec.size == 0:
        return f"[keyframes](#keyframes{'' if spec.nested == (Keyframe,) else '-of-forces'})"
    if spec.nested:
        return _words(spec.supported)
    if spec.choices is not None:
        return _words(spec.supported)
    text = spec.kind_text.removeprefix("a ")
    if spec.range_text:
        text += f" {spec.range_text}"
    elif spec.unit:
        text += f", {spec.unit}"
    if spec.pattern_text:
        text = spec.pattern_text if spec.size == 1 else f"list; each {spec.pattern_text}"
    return text.replace("|", "\\|")


def _words(words: tuple[Any, ...]) -> str:
    return ", ".join(f"`{toml_text(word)}`" for word in words)


def _default(spec: Spec) -> str:
    if spec.required:
        return "must be given"
    if spec.default_text:
        return spec.default_text
    if spec.default is None:
        return "none"
    return f"`{toml_text(spec.default)}`"


def _meaning(spec: Spec) -> str:
    text = spec.help
    if spec.soon:
        text += f" Not in this version yet: {_words(spec.soon)}."
    return text.replace("|", "\\|")


def _presets() -> str:
    lines = [
        "## Presets",
        "",
        "Densities are handbook values. `viscosity` (c) and `surface_tension` (kappa) are the "
        "solver's own scales, not SI; c is meant for a spacing of about 2 mm and steps of 1 ms.",
        "",
        "| preset | density [kg/m^3] | viscosity | surface_tension | vorticity |",
        "|---|---|---|---|---|",
    ]
    for name, p in PRESETS.items():
        values = (p.density, p.viscosity, p.surface_tension, p.vorticity)
        lines.append(f"| `{name}` | {' | '.join(f'{v:g}' for v in values)} |")
    return "\n".join([*lines, ""])


def _channels() -> str:
    lines = ["## Channels", "", "| channel | holds |", "|---|---|"]
    lines += [f"| `{name}` | {text} |" for name, text in CHANNELS.items()]
    return "\n".join([*lines, ""])
