"""Random valid scenes as plain dicts, made from the declarations of the knobs."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from runnel.params import LISTS, TABLES
from runnel.scene import Scene
from runnel.spec import Spec, specs

NAMES = st.text(alphabet="abcXYZ019_.- é水", min_size=1, max_size=6).filter(
    lambda text: text[0] != " " and text not in (".", "..")
)


def number(spec: Spec) -> st.SearchStrategy[Any]:
    low, high = spec.hard
    if spec.type is int:
        return st.integers(int(low if low is not None else -9), int(high if high else 9))
    return st.floats(low, high, allow_nan=False, allow_infinity=False)


def component(spec: Spec) -> st.SearchStrategy[Any]:
    if spec.choices is not None:
        return st.sampled_from(spec.supported)
    if spec.type is bool:
        return st.booleans()
    if spec.type is str:
        return st.from_regex(r"\A[a-z_]{1,9}\Z") if "A-Z" in spec.pattern else NAMES
    return number(spec)


def simple(spec: Spec) -> st.SearchStrategy[Any]:
    """Any value a knob accepts, but for comparisons with other knobs."""
    value = component(spec)
    if spec.words:
        value |= st.sampled_from(spec.words)
    if spec.size != 1:
        value = st.lists(value, min_size=spec.size, max_size=spec.size or 5, unique=spec.size == 0)
    if spec.ordered:
        value = value.map(sorted)
    return value | st.none() if spec.optional else value


def corners(low: float = -100.0, high: float = 100.0) -> st.SearchStrategy[dict[str, Any]]:
    coordinate = st.floats(low, high)
    size = st.floats(0.5, 50.0)
    return st.builds(
        lambda start, extent: {
            "min": start,
            "max": [a + b for a, b in zip(start, extent, strict=True)],
        },
        st.lists(coordinate, min_size=3, max_size=3),
        st.lists(size, min_size=3, max_size=3),
    )


def vectors(low: float = -100.0, high: float = 100.0) -> st.SearchStrategy[list[float]]:
    return st.lists(st.floats(low, high), min_size=3, max_size=3)


SHAPES = {
    "box": corners(),
    "sphere": st.fixed_dictionaries({"center": vectors(), "radius": st.floats(0.1, 9.0)}),
    "cylinder": st.fixed_dictionaries(
        {"start": vectors(-9, -1), "end": vectors(1, 9), "radius": st.floats(0.1, 9.0)}
    ),
    "plane": st.fixed_dictionaries({"normal": vectors(0.1, 1)}, optional={"point": vectors()}),
}


def shapes(spec: Spec) -> st.SearchStrategy[dict[str, Any]]:
    kinds = [kind for kind in spec.supported if kind in SHAPES]
    return st.sampled_from(kinds).flatmap(lambda kind: SHAPES[kind].map(lambda s: {kind: s}))


def keyframes(kind: type) -> st.SearchStrategy[list[dict[str, Any]]]:
    frame, *rest = specs(kind)
    values = {s.name: vectors(0.1, 1.0) if s.name == "axis" else simple(s) for s in rest}
    fields = st.fixed_dictionaries({"frame": number(frame)}, optional=values)
    return st.lists(fields, max_size=3, unique_by=lambda k: k["frame"]).map(
        lambda keys: sorted(keys, key=lambda k: k["frame"])
    )


def table(cls: type, **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    needed, optional = {}, {}
    for spec in specs(cls):
        strategy = fixed.pop(spec.name, None)
        if strategy is None:
            strategy = simple(spec) if not spec.nested else (
                shapes(spec) if spec.size else keyframes(spec.nested[0])
            )  # fmt: skip
            (needed if spec.required else optional)[spec.name] = strategy
        else:
            needed[spec.name] = strategy
    return st.fixed_dictionaries(needed, optional=optional)


@st.composite
def scenes(draw: st.DrawFn) -> dict[str, Any]:
    """A dict that Scene.from_dict accepts."""
    data = draw(table(Scene, dimensions=st.sampled_from([3, 2])))
    for key, cls in TABLES.items():
        if draw(st.booleans()):
            data[key] = draw(table(cls))
    if "domain" in data:
        data["domain"] = {**data["domain"], **draw(corners())}
    if "output" in data and "channels" in data["output"]:
        others = [c for c in data["output"]["channels"] if c != "position"]
        data["output"]["channels"] = [*others, "position"]
    for key, cls in LISTS.items():
        least = int(key in ("fluid", "source"))
        names = draw(st.lists(NAMES, min_size=least, max_size=3, unique=True))
        data[key] = [draw(_part(key, cls, data)) | {"name": name} for name in names]
    if data["dimensions"] == 2:  # a slice cannot be turned out of its plane
        for part in [*data["source"], *data["collider"], *data["sink"]]:
            for turned in [part, *part.get("motion", ())]:
                turned.pop("rotation", None)
    return data


def _part(key: str, cls: type, data: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    if key == "source":
        fixed = {
            "fluid": st.sampled_from([fluid["name"] for fluid in data["fluid"]]),
            "spacing": st.floats(0.5, 9.0),
            "scale": st.floats(0.5, 1.0),
            "rate": st.none(),
            "frames": st.none(),
            "kind": st.just("volume"),
            "speed": st.none(),
        }
        emitter = fixed | {
            "kind": st.just("emitter"),
            "velocity": vectors(0.1, 3.0),
            "speed": st.none() | st.floats(0.1, 3.0),
            "lifetime": st.just(1.0),
        }
        return table(cls, **fixed) | table(cls, **emitter)
    if key == "collider":
        # Maps belong to meshes, of which there are none here.
        maps = ("friction_map", "bounce_map", "stickiness_map", "wet_friction", "wet_stickiness")
        none = {name: st.none() for name in maps}
        return table(cls, body=st.just("animated"), wet_map=st.just("none"), **none)
    if key == "force":
        # Fields are files, of which there are none here.
        kinds = st.sampled_from(["wind", "drag", "point", "vortex"])
        none = {name: st.none() for name in ("field", "field_frames", "voxel_size")}
        return table(cls, kind=kinds, axis=vectors(0.1, 1.0), **none)
    return table(cls)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """A valid scene with junk in one place."""
    data = draw(scenes())
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        keys = node.keys() if isinstance(node, dict) else range(len(node))
        for key in keys:
            places.append((node, key))
            if isinstance(node[key], dict | list):
                walk(node[key])

    walk(data)
    node, key = draw(st.sampled_from(places))
    node[key] = draw(JUNK)
    return data
