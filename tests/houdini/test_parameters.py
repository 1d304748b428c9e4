"""Parameters follow core's knobs, and make the scene that the command line would read."""

from __future__ import annotations

from typing import Any

import pytest

from runnel.params import LISTS, TABLES, Force
from runnel.scene import Scene
from runnel.spec import specs
from runnel_houdini.parameters import COLLIDER, NODES, PREFIX, SOLVER, SOURCE
from runnel_houdini.parm import Multi, Node, parms, walk
from runnel_houdini.values import (
    at_start,
    attribute_specs,
    body_settings,
    channels,
    collider_settings,
    evaluate,
    fluids,
    kind_of_piece,
    piece_attributes,
    scene_dict,
    settings_of_attributes,
    source_settings,
)

# Knobs that are no parameters, and where they come from instead.
ELSEWHERE = {
    "scene": {"name", "fps", "frames"},  # the node, Houdini, startframe and endframe
    "solver": {"time_step"},  # autosubsteps, substeps
    "source": {"name", "shape", "position", "rotation", "scale", "motion"},  # the input
    "collider": {"name", "shape", "position", "rotation", "scale", "motion", "pin"},
    "sink": {"name", "shape", "frames", "position", "rotation", "scale", "motion"},
    # The third input; keyframes are taken as at the first frame.
    "force": {"name", "keyframes", "field", "field_frames", "field_scale", "voxel_size"},
    "output": {"channels"},  # a toggle each
}


class Channel:
    """A parameter; a function of the frame if it is animated."""

    def __init__(self, value: Any, alone: bool) -> None:
        self._value, self._alone = value, alone

    def evalAtFrame(self, frame: float) -> Any:
        value = self._value(frame) if callable(self._value) else self._value
        return value[0] if self._alone else value


class Pane:
    """Evaluates as a node with default values, some of them changed; it is frame 7."""

    def __init__(self, declared: Node, **changes: Any) -> None:
        self._values: dict[str, Any] = {}
        for item in walk(declared.items):
            if isinstance(item, Multi):
                count = changes.get(item.name, item.default)
                self._values[item.name] = (count,)
                for parm in item.items:
                    for i in range(count):
                        self._values[parm.name.replace("#", str(i + 1))] = parm.default
            else:
                self._values[item.name] = item.default
        for name, value in changes.items():
            assert name in self._values, name
            whole = isinstance(value, tuple) or callable(value)
            self._values[name] = value if whole else (value,)

    def parm(self, parm_path: str) -> Channel:
        return Channel(self._values[parm_path], True)

    def parmTuple(self, parm_path: str) -> Channel:
        return Channel(self._values[parm_path], False)

    def evalParm(self, parm_path: str) -> Any:
        return self.parm(parm_path).evalAtFrame(7.0)

    def evalParmTuple(self, parm_path: str) -> Any:
        return self.parmTuple(parm_path).evalAtFrame(7.0)


def box(values: dict[str, Any], **more: Any) -> dict[str, Any]:
    shape = {"box": {"min": [0, 0, 0], "max": [1, 1, 1]}}
    table = {"name": "water", "fluid": fluids(values)[0]["name"], "kind": "volume"}
    return source_settings(values) | table | {"shape": shape, "spacing": 0.1} | more


def scene_of(**changes: Any) -> Scene:
    values = evaluate(Pane(SOLVER, **changes), SOLVER)
    return Scene.from_dict(scene_dict(values, name="test", fps=24.0, sources=[box(values)]))


def test_every_knob_is_a_parameter_or_comes_from_the_host() -> None:
    keys = {(p.part, p.key) for node in NODES.values() for p in parms(node.items)}
    for part, cls in {"scene": Scene, **TABLES, **LISTS}.items():
        missing = {s.name for s in specs(cls)} - {key for of, key in keys if of == part}
        assert missing == ELSEWHERE.get(part, set()), part


def test_names_are_houdinis_and_unique() -> None:
    for node in NODES.values():
        names = [p.name for p in parms(node.items)]
        assert len(set(names)) == len(names)
        assert all(name.rstrip("#").isalnum() for name in names)
        assert all(p.help.endswith((".", "]")) for p in parms(node.items))


def test_untouched_parameters_are_cores_defaults() -> None:
    found = scene_of().to_dict(defaults=True)
    plain = Scene.from_dict({
        "name": "test", "up": "y", "frames": [1, 240],
        "fluid": [{"name": "fluid_1"}],
        "source": [{"name": "water", "fluid": "fluid_1", "spacing": 0.1,
                    "shape": {"box": {"min": [0, 0, 0], "max": [1, 1, 1]}}}],
        "output": {"channels": ["position", "velocity", "radius", "density", "phase", "id", "age"]},
    })  # fmt: skip
    assert found == plain.to_dict(defaults=True)


def test_time_scale_is_more_frames_to_a_second() -> None:
    slow = scene_of(timescale=0.5)
    assert slow.fps == 48.0
    fixed = scene_of(timescale=0.5, autosubsteps=0, substeps=5)
    assert fixed.solver.time_step == pytest.approx(1 / (48 * 5))


def test_animated_parameters_are_read_at_the_start_frame() -> None:
    """Else the simulation would start anew with each frame."""
    moving = {"gravity": lambda f: (0.0, -f, 0.0), "viscosity1": lambda f: (f,)}
    pane = Pane(SOLVER, colorrange=lambda f: (f, f + 1), **moving)
    now = evaluate(pane, SOLVER)
    values, labels = at_start(pane, now)
    assert (now["gravity"], values["gravity"]) == ((0.0, -7.0, 0.0), (0.0, -1.0, 0.0))
    assert values["fluids"][0]["viscosity"] == 1.0
    assert values["colorrange"] == (7.0, 8.0), "what is only shown follows the time"
    assert labels == ["Fluids", "Gravity"]


def test_toggles_gate_their_values() -> None:
    assert scene_of(domainmin=(-1.0, -1.0, -1.0)).domain.min is None
    limited = scene_of(usedomain=1, domainmode="close", domainmin=(-1.0, -1.0, -1.0))
    assert limited.domain.min == (-1.0, -1.0, -1.0)
    assert limited.domain.mode == "close"
    values = evaluate(Pane(SOLVER, usesourcelifetime=1, sourcelifetime=2.5), SOLVER)
    assert source_settings(values)["lifetime"] == 2.5
    assert "speed" not in source_settings(values)


def test_fluids_by_rows() -> None:
    scene = scene_of(fluids=3, fluidname2="honey", preset2="honey", density1=700.0, preset3="oil")
    names = [(f.name, f.preset, f.density) for f in scene.fluids]
    assert names == [
        ("fluid_1", None, 700.0),
        ("honey", "honey", 1420.0),
        ("fluid_3", "oil", 911.0),
    ]
    assert len({f.color for f in scene.fluids}) == 3


def test_colours_are_linear_in_houdini_and_displayed_in_scenes() -> None:
    scene = scene_of(usecolor1=1, color1=(0.0, 0.214041, 1.0))
    assert scene.fluids[0].color == pytest.approx((0.0, 0.5, 1.0), abs=1e-5)


def test_ground_and_forces() -> None:
    scene = scene_of(
        groundplane=1, groundheight=-0.5, colliderfriction=0.3, forces=2, forcekind2="vortex",
        forcestrength2=3.0, useforceradius2=1, forceradius2=2.0, forcevelocity1=(4.0, 0.0, 0.0),
    )  # fmt: skip
    (ground,) = scene.colliders
    assert ground.shape.point == (0.0, -0.5, 0.0)
    assert ground.shape.normal == (0.0, 1.0, 0.0)
    assert ground.friction == 0.3
    wind, vortex = scene.forces
    assert (wind.kind, wind.velocity, wind.radius) == ("wind", (4.0, 0.0, 0.0), None)
    assert (vortex.kind, vortex.axis, vortex.radius) == ("vortex", (0.0, 1.0, 0.0), 2.0)


def test_channels_are_those_shown() -> None:
    values = evaluate(Pane(SOLVER, outage=0, outphase=0, outgroups=0, colorby="none"), SOLVER)
    assert channels(values) == ["position", "velocity", "radius", "density", "id"]
    for by, channel in (("speed", "velocity"), ("fluid", "phase"), ("pressure", "pressure")):
        values = evaluate(Pane(SOLVER, outv=0, outphase=0, outgroups=0, colorby=by), SOLVER)
        assert channel in channels(values)


def test_settings_of_bodies_and_colliders_are_apart() -> None:
    changes = {"bodydensity": 250.0, "bodyfriction": 0.9, "bodylockrotation": "xz"}
    values = evaluate(Pane(SOLVER, colliderbounce=0.5, **changes), SOLVER)
    body, collider = body_settings(values), collider_settings(values)
    assert (body["body"], body["density"], body["lock_rotation"]) == ("rigid", 250.0, ["x", "z"])
    assert (collider["bounce"], collider["friction"]) == (0.5, 0.0)
    assert "body" not in collider
    assert "density" not in collider


PIECES = {
    "source": (SOURCE, {"kind": "emitter", "fluid": "oil", "useframes": 1, "frames": (5, 9)}),
    "collider": (
        COLLIDER,
        {"body": "deformable", "locktranslation": "xy", "usepin": 1, "wetmap": "exr"},
    ),
}


@pytest.mark.parametrize("part", PIECES)
def test_settings_travel_as_attributes(part: str) -> None:
    """What a settings node writes is what the solver reads, in core's own words."""
    node, changes = PIECES[part]
    written = piece_attributes(evaluate(Pane(node, **changes), node), node)
    assert all(name.startswith(PREFIX) for name in written)
    assert set(written) <= set(attribute_specs(part))
    read = settings_of_attributes(written, part)
    if part == "source":
        assert (read["kind"], read["fluid"], read["frames"]) == ("emitter", "oil", [5, 9])
        return
    assert read["lock_translation"] == ["x", "y"]
    assert read["lock_rotation"] == []
    assert read["pin"] == {"box": {"min": [-1.0, -1.0, -1.0], "max": [1.0, 1.0, 1.0]}}
    by_name = {s.name: s for s in specs(LISTS[part])}
    for key, value in read.items():
        if key != "pin":
            by_name[key].read(value, key)  # raises if core would refuse it


def test_attributes_of_forces_are_read() -> None:
    read = settings_of_attributes(
        {"runnel_kind": "wind", "runnel_velocity": (1, 0, 0), "P": (0, 0, 0), "other": 3}, "force"
    )
    assert read == {"kind": "wind", "velocity": [1.0, 0.0, 0.0]}
    assert {s.name for s in specs(Force)} >= set(read)


@pytest.mark.parametrize(
    ("attributes", "default", "of_points", "kind"),
    [
        ({}, "auto", True, "points"),
        ({}, "auto", False, "volume"),
        ({}, "emitter", False, "emitter"),
        ({"runnel_kind": "sink"}, "emitter", False, "sink"),
        ({"runnel_kind": "nonsense"}, "auto", False, "volume"),
    ],
)
def test_kind_of_a_piece(
    attributes: dict[str, str], default: str, of_points: bool, kind: str
) -> None:
    assert kind_of_piece(attributes, default, of_points) == kind


def test_a_locked_end_of_a_range_is_cores_own() -> None:
    for node in NODES.values():
        for parm in parms(node.items):
            if parm.spec is not None and parm.type in ("float", "integer"):
                for end, locked, hard in zip(parm.range, parm.locked, parm.spec.hard, strict=True):
                    assert not locked or end == hard, parm.name
