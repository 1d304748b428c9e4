"""JSON Schema and reference page agree with the reader."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator

from runnel.errors import SceneError
from runnel.params import LISTS, SHAPES, TABLES, ForceKeyframe, Keyframe
from runnel.scene import Scene, example, example_names
from runnel.schema import json_schema, reference_markdown
from runnel.spec import specs
from tests.unit.random_scenes import damaged, scenes

ROOT = Path(__file__).resolve().parents[2]
VALIDATOR = Draft202012Validator(json_schema())
FEW = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

GOOD: dict[str, Any] = {
    "fluid": [{"name": "water"}],
    "source": [
        {
            "fluid": "water",
            "shape": {"box": {"min": [0, 0, 0], "max": [1, 1, 1]}},
            "spacing": 0.1,
        }
    ],
    "collider": [{"shape": {"plane": {"normal": [0, 0, 1]}}}],
    "force": [{"kind": "wind"}],
}

BAD: list[tuple[str, Any]] = [
    ("fluid", None),
    ("fluid", {}),
    ("fluid", []),
    ("source", []),
    ("nonsense", 1),
    ("fps", 0),
    ("fps", "24"),
    ("fps", True),
    ("frames", [1]),
    ("frames", [1, 2.5]),
    ("frames", [1, "2"]),
    ("up", "x"),
    ("dimensions", 1),
    ("dimensions", "3"),
    ("seed", -1),
    ("name", ""),
    ("name", "a/b"),
    ("name", 3),
    ("solver", []),
    ("solver", None),
    ("solver", {"time_step": 0.5}),
    ("solver", {"time_step": "quick"}),
    ("solver", {"iterations": [0, 5]}),
    ("solver", {"iterations": 5}),
    ("solver", {"gravity": [0, 0]}),
    ("solver", {"gravity": None}),
    ("solver", {"kernel": "spiky"}),
    ("solver", {"support": 2.0}),
    ("domain", {"mode": "open"}),
    ("output", {"channels": ["a b"]}),
    ("output", {"channels": "position"}),
    ("fluid.0.preset", "wine"),
    ("fluid.0.density", 0),
    ("fluid.0.viscosity", -0.1),
    ("fluid.0.surface_tension", 1.5),
    ("fluid.0.color", [0, 0, 2]),
    ("source.0.fluid", None),
    ("source.0.spacing", 0),
    ("source.0.kind", "pump"),
    ("source.0.jitter", 0.6),
    ("source.0.shape", {}),
    ("source.0.shape", {"box": {}}),
    ("source.0.shape", {"cone": {}}),
    ("source.0.shape", {"plane": {"normal": [0, 0, 1]}}),
    ("source.0.shape", {"sphere": {"center": [0, 0, 0], "radius": 0}}),
    ("source.0.shape", {"mesh": 3}),
    ("source.0.shape", {"mesh": "a\\b.obj"}),
    ("source.0.motion", [{}]),
    ("source.0.motion", [{"frame": 1, "scale": 2}]),
    ("collider.0.shape", {"mesh": "a\\b.obj"}),
    ("collider.0.mode", "thin"),
    ("collider.0.body", "floating"),
    ("collider.0.bounce", 2),
    ("force.0.kind", "gravity"),
    ("force.0.radius", 0),
]


def change(data: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    data = copy.deepcopy(data)
    here: Any = data
    *way, last = (int(key) if key.isdigit() else key for key in path.split("."))
    for key in way:
        here = here[key]
    here[last] = value
    return data


def test_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(json_schema())
    json.dumps(json_schema(), allow_nan=False)


@pytest.mark.parametrize("name", example_names())
def test_shipped_scenes_fit(name: str) -> None:
    VALIDATOR.validate(example(name).to_dict())
    VALIDATOR.validate(example(name).to_dict(defaults=True))


@FEW
@given(data=scenes())
def test_random_valid_scenes_fit(data: dict[str, Any]) -> None:
    Scene.from_dict(data)
    VALIDATOR.validate(data)


@FEW
@given(data=damaged())
def test_what_the_reader_accepts_fits(data: Any) -> None:
    """The schema is never the stricter of the two."""
    try:
        Scene.from_dict(data)
    except SceneError:
        return
    VALIDATOR.validate(data)


def test_good_scene_of_the_table_is_good() -> None:
    Scene.from_dict(GOOD)
    VALIDATOR.validate(GOOD)


@pytest.mark.parametrize(("path", "value"), BAD)
def test_reader_and_schema_refuse_alike(path: str, value: Any) -> None:
    data = change(GOOD, path, value)
    with pytest.raises(SceneError):
        Scene.from_dict(data)
    assert not VALIDATOR.is_valid(data)


@pytest.mark.parametrize("key", ["fluid.0.color", "source.0.rate", "source.0.seed", "fluid.0.name"])
def test_missing_optional_keys_may_be_null(key: str) -> None:
    """Null stands for a key that is not given, where there is something to derive."""
    data = change(GOOD, key, None)
    accepted = VALIDATOR.is_valid(data)
    try:
        Scene.from_dict(data)
    except SceneError:
        assert not accepted
    else:
        assert accepted


def test_units_stand_in_descriptions() -> None:
    definitions = json_schema()["$defs"]
    assert definitions["Fluid"]["properties"]["density"]["description"].endswith(
        "[kg/m^3] Default: 1000, or the preset."
    )
    assert "[m]" in definitions["Source"]["properties"]["spacing"]["description"]


def test_reference_page_is_fresh() -> None:
    """After a change in params.py: `make docs`."""
    page = ROOT / "docs" / "reference" / "scene.md"
    assert page.read_text(encoding="utf-8") == reference_markdown()


def test_reference_page_names_every_key() -> None:
    page = reference_markdown()
    kinds = [Scene, *TABLES.values(), *LISTS.values(), *SHAPES.values(), Keyframe, ForceKeyframe]
    for part in kinds:
        for spec in specs(part):
            assert f"| `{spec.name}` |" in page
