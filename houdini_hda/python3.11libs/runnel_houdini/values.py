"""Evaluated parameters, and the scene they make.

    values = evaluate(node, SOLVER)          # {"particlesep": 0.1, "fluids": [{...}], ...}
    scene = scene_dict(values, name=..., fps=hou.fps(), sources=[...], colliders=[...])
    runnel.Scene.from_dict(scene, directory)

Pieces of the inputs are given as core's own tables; what a piece does not say itself comes from
`source_settings`, `collider_settings` and `body_settings`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from runnel.params import Collider, Force, Source
from runnel.preview.colors import to_srgb
from runnel.spec import Spec, specs

from .parameters import ATTRIBUTES, PREFIX, SHOWN, SOLVER, SOURCE_KINDS
from .parm import Multi, Node, Parm, walk

Values = dict[str, Any]
Table = dict[str, Any]  # of a scene: plain values by core's names


class Reads(Protocol):
    """What is needed of a hou.Parm or hou.ParmTuple."""

    def evalAtFrame(self, frame: float) -> Any: ...


class Evaluates(Protocol):
    """What is needed of a hou.Node. Whatever is evaluated becomes a dependency of the cook."""

    def evalParm(self, parm_path: str) -> Any: ...

    def evalParmTuple(self, parm_path: str) -> Any: ...

    def parm(self, parm_path: str) -> Reads | None: ...

    def parmTuple(self, parm_path: str) -> Reads | None: ...


def evaluate(node: Evaluates, declared: Node, frame: float | None = None) -> Values:
    """All parameters by name, now or at a frame; a multiparm is a list of rows, keyed without `#`.

    A simulation is given the values of its start frame: what changed from frame to frame would
    start it anew each time.
    """
    values: Values = {}
    for item in walk(declared.items):
        if isinstance(item, Multi):
            count = int(_one(node, item.name, frame))
            values[item.name] = [_row(node, item, i, frame) for i in range(1, count + 1)]
        elif item.type != "button":
            values[item.name] = _value(node, item, item.name, frame)
    return values


def at_start(node: Evaluates, now: Values) -> tuple[Values, list[str]]:
    """Values for a solver to simulate with: those of its start frame, but for what is only shown.

    Also labels of parameters that are animated to no effect.
    """
    start = evaluate(node, SOLVER, float(now["startframe"]))
    values = {name: now[name] if name in SHOWN else start[name] for name in start}
    items = [item for item in walk(SOLVER.items) if item.name in now]
    return values, [item.label for item in items if now[item.name] != values[item.name]]


def _row(node: Evaluates, multi: Multi, number: int, frame: float | None) -> Values:
    return {
        parm.name.removesuffix("#"): _value(node, parm, parm.name.replace("#", str(number)), frame)
        for parm in multi.items
        if parm.type != "button"
    }


def _value(node: Evaluates, parm: Parm, name: str, frame: float | None) -> Any:
    if parm.size > 1:
        kind = int if parm.type.startswith("int") else float
        return tuple(kind(v) for v in _several(node, name, frame))
    kinds: dict[str, Any] = {"toggle": bool, "integer": int, "float": float}
    return kinds.get(parm.type, str)(_one(node, name, frame))


def _one(node: Evaluates, name: str, frame: float | None) -> Any:
    parm = None if frame is None else node.parm(name)
    if frame is None or parm is None:
        return node.evalParm(name)
    return parm.evalAtFrame(frame)


def _several(node: Evaluates, name: str, frame: float | None) -> Any:
    parms = None if frame is None else node.parmTuple(name)
    if frame is None or parms is None:
        return node.evalParmTuple(name)
    return parms.evalAtFrame(frame)


# --- scene ---------------------------------------------------------------------------------------


def scene_dict(
    values: Values,
    *,
    name: str,
    fps: float,
    sources: Sequence[Table],
    colliders: Sequence[Table] = (),
    sinks: Sequence[Table] = (),
    forces: Sequence[Table] = (),
) -> Table:
    """The scene of a solver node as `Scene.from_dict` reads it.

    fps: of Houdini. Slow motion is more frames to a second: the scene's own fps are higher.
    """
    scene = _read(values, walk(SOLVER.items), "scene")
    scene["dimensions"] = int(scene["dimensions"])
    first = values["startframe"]
    scene |= {
        "name": name,
        "fps": fps / values["timescale"],
        "frames": [first, max(first, values["endframe"])],
        "solver": _solver(values, fps),
        "fluid": fluids(values),
        "source": list(sources),
        "collider": [*_ground(values), *colliders],
        "sink": list(sinks),
        "force": [*_forces(values), *forces],
        "domain": _read(values, walk(SOLVER.items), "domain"),
        "output": {"channels": channels(values)},
    }
    return {key: value for key, value in scene.items() if value not in ([], {})}


def fluids(values: Values) -> list[Table]:
    """Tables of the fluids, in order of their phases."""
    rows = _rows("fluids")
    found = []
    for i, row in enumerate(values["fluids"]):
        table = _read(row, rows, "fluid")
        preset = table.pop("preset")
        table["name"] = table["name"] or f"fluid_{i + 1}"
        if "color" in table:  # Houdini's colours are linear, core's as displayed
            table["color"] = [round(float(c), 6) for c in to_srgb(table["color"])]
        found.append(table if preset == "custom" else {"name": table["name"], "preset": preset})
    return found


def channels(values: Values) -> list[str]:
    """Channels that the output needs: those switched on, and what the colours show."""
    on = [p.key for p in _parms(SOLVER) if p.part == "output" and values[p.name]]
    wanted = {"speed": "velocity", "fluid": "phase"}
    shown = wanted.get(by := str(values["colorby"]), by)
    if values["outgroups"]:
        on.append("phase")
    if shown != "none":
        on.append(shown)
    return [c for c in ATTRIBUTES if c == "position" or c in on]


def source_settings(values: Values) -> Table:
    """What the solver's Source tab says of sources; `fluid` is left out if it is the first."""
    return _named(_read(values, walk(SOLVER.items), "source"))


def collider_settings(values: Values) -> Table:
    """What the solver's Colliders tab says of the second input."""
    return _read(values, _starting("collider"), "collider")


def body_settings(values: Values) -> Table:
    """What the solver's Bodies tab says of bodies."""
    return _read(values, _starting("body"), "collider")


def _named(table: Table) -> Table:
    return table if table.get("fluid") else {k: v for k, v in table.items() if k != "fluid"}


def _solver(values: Values, fps: float) -> Table:
    table = _read(values, walk(SOLVER.items), "solver")
    if not values["autosubsteps"]:
        table["time_step"] = values["timescale"] / (fps * values["substeps"])
        del table["cfl"], table["max_time_step"]
    return table


def _ground(values: Values) -> list[Table]:
    if not values["groundplane"]:
        return []
    up = [0.0, 0.0, 0.0]
    up[2 if values["upaxis"] == "z" else 1] = 1.0
    point = [values["groundheight"] * c for c in up]
    table = collider_settings(values) | {"mode": "outside", "offset": 0.0}
    return [table | {"name": "ground", "shape": {"plane": {"point": point, "normal": up}}}]


def _forces(values: Values) -> list[Table]:
    rows = _rows("forces")
    tables = [_read(row, rows, "force") for row in values["forces"]]
    return [t | {"name": f"force_{i + 1}"} for i, t in enumerate(tables)]


def _read(values: Mapping[str, Any], items: Iterable[Parm | Multi], part: str) -> Table:
    """Keys of a part of a scene; those whose toggle is off are left out."""
    table: Table = {}
    for parm in items:
        if isinstance(parm, Multi) or parm.part != part:
            continue
        if parm.gate and not values[parm.gate.removesuffix("#")]:
            continue
        table[parm.key] = _plain(parm, values[parm.name.removesuffix("#")])
    return _with_pin(table)


def _plain(parm: Parm, value: Any) -> Any:
    if parm.spec is not None and parm.spec.size == 0:
        return [] if value == "none" else list(value)
    return list(value) if isinstance(value, tuple) else value


def _with_pin(table: Table) -> Table:
    if "pin_min" in table:
        table["pin"] = {"box": {"min": table.pop("pin_min"), "max": table.pop("pin_max")}}
    return table


def _parms(declared: Node) -> list[Parm]:
    return [item for item in walk(declared.items) if isinstance(item, Parm)]


def _starting(prefix: str) -> list[Parm]:
    return [p for p in _parms(SOLVER) if p.name.removeprefix("use").startswith(prefix)]


def _rows(name: str) -> tuple[Parm, ...]:
    (multi,) = (i for i in walk(SOLVER.items) if isinstance(i, Multi) and i.name == name)
    return multi.items


# --- settings that travel as attributes ----------------------------------------------------------

_GIVEN_ELSEWHERE: Final = {
    "name", "shape", "position", "rotation", "scale", "motion", "keyframes", "pin", "field",
    "field_frames",
}  # fmt: skip
_PIECES: Final[dict[str, type]] = {"source": Source, "collider": Collider, "force": Force}


def piece_attributes(values: Values, declared: Node) -> Table:
    """Attributes that a Runnel Source or Runnel Collider node writes: float, int or string, a list
    of floats for a vector."""
    found: Table = {}
    for parm in _parms(declared):
        if not parm.key or (parm.gate and not values[parm.gate]):
            continue
        value = values[parm.name]
        found[PREFIX + parm.key] = list(value) if isinstance(value, tuple) else value
    return found


def attribute_specs(part: str) -> dict[str, Spec | None]:
    """Attribute names that a piece may carry, with the knob of each (None: not core's own)."""
    found: dict[str, Spec | None] = {
        PREFIX + s.name: s for s in specs(_PIECES[part]) if s.name not in _GIVEN_ELSEWHERE
    }
    if part == "collider":
        found |= {PREFIX + "pin_min": None, PREFIX + "pin_max": None}
    return found


def settings_of_attributes(attributes: Mapping[str, Any], part: str) -> Table:
    """Core's keys of a piece from its attributes; what is not a setting is left out.

    Values are checked when the scene is read; here only numbers that Houdini stores otherwise are
    put right.
    """
    table: Table = {}
    for name, spec in attribute_specs(part).items():
        if name not in attributes:
            continue
        value, key = attributes[name], name.removeprefix(PREFIX)
        if spec is not None and spec.size == 0:
            value = [] if value in ("", "none") else [c for c in value if c not in " ,"]
        elif spec is not None and spec.type is int and spec.size == 1:
            value = int(value)
        elif spec is not None and spec.type is int:
            value = [int(v) for v in value]
        elif isinstance(value, tuple | list):
            value = [float(v) for v in value]
        table[key] = value
    return _with_pin(_named(table))


def kind_of_piece(attributes: Mapping[str, Any], default: str, of_points: bool) -> str:
    """volume, emitter, points or sink, of a piece of the first input."""
    kind = str(attributes.get(PREFIX + "kind") or default)
    if kind not in SOURCE_KINDS:
        kind = default
    return ("points" if of_points else "volume") if kind == "auto" else kind
