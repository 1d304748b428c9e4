"""Declarations of the knobs, and how one value is read."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Literal

import numpy as np
import pytest

from runnel.errors import MeshError, RunnelError, SceneError, SimulationError, show
from runnel.params import (
    LISTS,
    SHAPES,
    TABLES,
    Fluid,
    ForceKeyframe,
    Keyframe,
    Output,
    Solver,
    Source,
)
from runnel.presets import PALETTE, PRESETS, damping
from runnel.scene import Scene
from runnel.spec import Spec, number_text, param, specs

PARTS = [Scene, *TABLES.values(), *LISTS.values(), *SHAPES.values(), Keyframe, ForceKeyframe]
KNOBS = [
    pytest.param(spec, id=f"{part.__name__}.{spec.name}") for part in PARTS for spec in specs(part)
]


def spec_of(part: type, name: str) -> Spec:
    return next(spec for spec in specs(part) if spec.name == name)


@pytest.mark.parametrize("spec", KNOBS)
def test_knob_is_documented_and_consistent(spec: Spec) -> None:
    """Help ends as a sentence, soft range lies in the hard one, default is accepted."""
    assert spec.help.endswith(".")
    assert spec.label
    for soft, hard, sign in zip(spec.soft, spec.hard, (1, -1), strict=True):
        if soft is not None and hard is not None:
            assert sign * soft >= sign * hard
    assert set(spec.soon) <= set(spec.choices or ())
    assert spec.default not in spec.soon
    if not spec.required and not spec.nested and spec.name != "name":
        assert spec.read(spec.default, "key") == spec.default


def test_types_come_from_annotations() -> None:
    assert (spec_of(Solver, "tolerance").type, spec_of(Solver, "tolerance").size) == (float, 1)
    assert (spec_of(Solver, "iterations").type, spec_of(Solver, "iterations").size) == (int, 2)
    assert (spec_of(Solver, "gravity").type, spec_of(Solver, "gravity").size) == (float, 3)
    assert spec_of(Solver, "time_step").words == ("auto",)
    assert spec_of(Solver, "kernel").choices == (
        "even",
        "wendland",
        "poly6",
        "cubic",
        "gaussian",
    )
    assert spec_of(Output, "channels").size == 0
    assert spec_of(Source, "rate").optional
    assert spec_of(Source, "spacing").required
    assert spec_of(Source, "motion").nested == (Keyframe,)
    assert spec_of(Fluid, "preset").choices == tuple(PRESETS)


def test_derived_texts() -> None:
    spec = spec_of(Solver, "max_time_step")
    assert spec.flag == "--max-time-step"
    assert spec.label == "Max Time Step"
    assert spec.help_with_unit.endswith("[s]")
    assert spec_of(Fluid, "surface_tension").hard_min_is_soft_min
    assert not spec_of(Fluid, "density").hard_max_is_soft_max


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.01, "0.01"), (1e-6, "1e-6"), (2147483647, "2147483647"), (-1e20, "-1e20"), (3, "3")],
)
def test_numbers_for_people(value: float, text: str) -> None:
    assert number_text(value) == text


@pytest.mark.parametrize("value", [True, "1", None, [1.0], float("nan"), float("inf"), 10**400])
def test_number_refuses(value: object) -> None:
    with pytest.raises(SceneError):
        spec_of(Solver, "tolerance").read(value, "solver.tolerance")


def test_number_accepts_numpy_and_drops_the_sign_of_zero() -> None:
    read = spec_of(Fluid, "density").read
    assert type(read(np.float32(2.0), "k")) is float
    assert type(read(np.int64(2), "k")) is float
    zero = spec_of(Solver, "gravity").read([-0.0, 0, 0], "k")[0]
    assert str(zero) == "0.0"


def test_whole_number_may_be_written_with_a_point() -> None:
    read = spec_of(Solver, "reorder_interval").read
    assert read(3.0, "k") == 3
    assert type(read(3.0, "k")) is int
    with pytest.raises(SceneError, match="whole number"):
        read(3.5, "k")


def test_hard_range_includes_its_ends() -> None:
    read = spec_of(Solver, "support").read
    assert read(3, "k") == 3.0
    assert read(6, "k") == 6.0
    for outside in (2.999, 6.001):
        with pytest.raises(SceneError, match="between 3 and 6"):
            read(outside, "k")


def test_pair_must_be_in_order() -> None:
    read = spec_of(Solver, "iterations").read
    assert read([4, 4], "k") == (4, 4)
    with pytest.raises(SceneError, match="first must not be above the second"):
        read([5, 4], "k")


def test_message_of_a_vector_names_the_component() -> None:
    with pytest.raises(SceneError) as caught:
        spec_of(Solver, "gravity").read([0, "down", 0], "solver.gravity")
    assert caught.value.key == "solver.gravity[1]"
    assert caught.value.value == "down"


def test_choice_of_a_later_version_is_told_apart_from_a_typo() -> None:
    @dataclasses.dataclass
    class Part:
        body: Literal["static", "animated", "rigid"] = param("static", soon=("rigid",))

    body = spec_of(Part, "body")
    with pytest.raises(SceneError, match="not in this version"):
        body.read("rigid", "k")
    with pytest.raises(SceneError, match='one of "static", "animated"'):
        body.read("rigd", "k")


def test_param_without_help_or_range() -> None:
    from dataclasses import dataclass

    @dataclass(frozen=True, kw_only=True)
    class Plain:
        size: float = param(1.0)
        other: int = 3  # not a knob

    (spec,) = specs(Plain)
    assert spec.label == "Size"
    assert spec.read(-5, "k") == -5.0


# --- presets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PRESETS)
def test_preset_is_within_the_knobs(name: str) -> None:
    for key, value in vars(PRESETS[name]).items():
        assert spec_of(Fluid, key).read(value, key) == value


def test_presets_are_ordered_as_the_liquids_are() -> None:
    by_viscosity = ["water", "milk", "oil", "syrup", "honey", "toothpaste"]
    values = [PRESETS[name].viscosity for name in by_viscosity]
    assert values == sorted(values)
    assert PRESETS["oil"].density < PRESETS["water"].density < PRESETS["mercury"].density
    assert len(set(PALETTE)) == len(PALETTE)


def test_damping_matches_the_diffusion_of_one_step() -> None:
    """XSPH with c on v = x^2 changes v by c <x^2>: nu dt v'' with nu of `damping`, on a fine
    lattice where sums are integrals."""
    h, dt, c = 1.0, 0.01, 0.3
    axis = np.arange(-1, 1.0001, 0.05)
    x, y, z = np.meshgrid(axis, axis, axis)
    weight = np.clip(h**2 - x**2 - y**2 - z**2, 0, None) ** 3
    change = c * float((weight * x**2).sum() / weight.sum())
    nu = change / (2 * dt)
    assert damping(nu, h, dt) == pytest.approx(c, rel=0.01)


# --- errors ---------------------------------------------------------------------------------------


def test_exit_status() -> None:
    assert RunnelError.exit_status == 1
    assert SimulationError.exit_status == 1
    assert SceneError.exit_status == 2
    assert MeshError.exit_status == 2


def test_scene_error_names_file_key_value() -> None:
    error = SceneError("must be above 0", key="source[0].spacing", value=-1.5).in_file("a.toml")
    assert str(error) == "a.toml: source[0].spacing = -1.5: must be above 0"
    assert str(error.in_file("b.toml")).startswith("a.toml")
    assert str(SceneError("plain")) == "plain"
    assert "null" in str(SceneError("no", key="k", value=None))


@pytest.mark.parametrize(
    "error",
    [
        SceneError("no", file="f", key="k", value=[1, 2]),
        SceneError("no", key="k"),
        SimulationError("no", frame=3, particle=7),
    ],
)
def test_errors_survive_a_process_boundary(error: RunnelError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_shown_values_are_short_and_on_one_line() -> None:
    assert show("a\nb") == '"a\\nb"'
    assert len(show(list(range(10_000)))) <= 60
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert len(show(deep)) <= 60
