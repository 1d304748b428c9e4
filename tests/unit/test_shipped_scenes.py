"""The example scenes load, hold what they promise, and are of a size that runs in minutes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runnel.errors import SceneError
from runnel.scene import Box, Scene, example, example_names, example_path

COUNTS = {
    "bear_pool": 8_400,
    "box_fluid_2d": 2_000,
    "cloth_stream": 20_678,
    "cobbles_drain": 5_040,
    "dam_break": 29_791,
    "dam_ratio_02": 16_000,
    "dam_ratio_02_mixed": 24_149,
    "dam_ratio_1": 16_000,
    "dam_ratio_1_mixed": 24_149,
    "dam_ratio_3": 16_000,
    "dam_ratio_3_mixed": 24_149,
    "floating_boxes": 21_600,
    "fountain": 14_060,
    "friction_plate": 4_096,
    "glass_filling": 4_717,
    "hydrostatic_tank": 8_000,
    "paddle": 4_312,
    "raft": 29_700,
    "rayleigh_taylor": 18_000,
    "seven_liquids": 19_089,
    "shell_waterfall": 10_603,
    "soft_ball": 18_900,
    "surface_tension_drops": 5_240,
    "swept_stack": 15_552,
    "viscosity_wedge": 10_725,
    "vortex_streams": 23_402,
    "wet_wall": 5_925,
}
EMITTED = {
    "cloth_stream",
    "fountain",
    "glass_filling",
    "shell_waterfall",
    "vortex_streams",
    "wet_wall",
}
PROMISE = re.compile(r"^#\s+spacing ([\d./]+) m\s+(?:about )?([\d ]+) particles", re.MULTILINE)


def text_of(name: str) -> str:
    return example_path(name).read_text(encoding="utf-8")


def test_all_are_known_here() -> None:
    assert example_names() == sorted(COUNTS)


@pytest.mark.parametrize("name", COUNTS)
def test_scene_loads_with_its_count(name: str) -> None:
    scene = example(name)
    assert scene.name == name
    assert scene.estimate_particles() == COUNTS[name]
    assert 1_500 <= scene.estimate_particles() <= 60_000
    assert 96 <= scene.frames[1] - scene.frames[0] + 1 <= 150
    assert scene.fps == 24.0


@pytest.mark.parametrize("name", COUNTS)
def test_scene_starts_with_what_it_shows(name: str) -> None:
    first = text_of(name).splitlines()[0]
    assert first.startswith("# ")
    assert len(text_of(name).split("\n\nname = ")[0].splitlines()) >= 3
    assert max(map(len, text_of(name).splitlines())) <= 100


@pytest.mark.parametrize("name", [n for n in COUNTS if not n.startswith("dam_ratio")])
def test_sizes_promised_in_the_comment(name: str) -> None:
    """`spacing X m  N particles` holds when all sources are set to X."""
    promises = PROMISE.findall(text_of(name))
    assert len(promises) >= 2
    scene = example(name)
    for spacing, count in promises:
        top, _, bottom = spacing.partition("/")
        value = float(top) / float(bottom or 1)
        sources = range(len(scene.sources))
        changed = scene.with_overrides(f"source[{i}].spacing={value!r}" for i in sources)
        assert changed.estimate_particles() == pytest.approx(int(count.replace(" ", "")), rel=0.05)


@pytest.mark.parametrize("name", sorted(set(COUNTS) - EMITTED))
def test_estimate_is_what_the_sources_make(name: str) -> None:
    """Exact for boxes, within 7 % for small balls, whose surface cuts the lattice."""
    sources = pytest.importorskip("runnel.sources")
    scene = example(name)
    made = sum(len(births["position"]) for _, births in sources.fill_volumes(scene))
    boxes = all(isinstance(source.shape, Box) for source in scene.sources)
    assert made == pytest.approx(scene.estimate_particles(), rel=0.0 if boxes else 0.07)


def heaviest(scene: Scene) -> float:
    return max(fluid.density for fluid in scene.fluids)


@pytest.mark.parametrize(("word", "ratio"), [("1", 1.0), ("02", 0.2), ("3", 3.0)])
@pytest.mark.parametrize("mixed", [False, True])
def test_dam_ratios(word: str, ratio: float, mixed: bool) -> None:
    """P004 figure 4: density ratios, and ten times as many blue particles when mixed."""
    scene = example(f"dam_ratio_{word}" + "_mixed" * mixed)
    pink, blue = scene.fluids
    assert pink.density / blue.density == pytest.approx(ratio)
    left, right = scene.sources
    assert (left.fluid, right.fluid) == ("pink", "blue")
    assert (left.spacing / right.spacing) ** 3 == pytest.approx(10.0 if mixed else 1.0, rel=1e-2)


def test_rayleigh_taylor_is_ten_to_one_and_full() -> None:
    scene = example("rayleigh_taylor")
    assert heaviest(scene) == 10 * min(fluid.density for fluid in scene.fluids)
    assert scene.estimate_particles() * 0.02**3 == pytest.approx(0.6 * 0.2 * 1.2)


def test_vortex_streams_ratios() -> None:
    water, cream = example("vortex_streams").fluids
    assert water.density == 2 * cream.density
    assert cream.viscosity == 75 * water.viscosity


def test_seven_liquids_are_seven() -> None:
    scene = example("seven_liquids")
    assert len(scene.fluids) == 7
    assert len({fluid.density for fluid in scene.fluids}) == 7
    assert len({fluid.color for fluid in scene.fluids}) == 7
    assert {source.fluid for source in scene.sources} == {fluid.name for fluid in scene.fluids}


def test_wedges_cover_their_range() -> None:
    viscosities = [fluid.viscosity for fluid in example("viscosity_wedge").fluids]
    assert viscosities == sorted(viscosities)
    assert viscosities[0] == 0.0
    kappas = [fluid.surface_tension for fluid in example("surface_tension_drops").fluids]
    assert kappas == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_fountain_removes_what_it_makes() -> None:
    scene = example("fountain")
    assert all(source.lifetime is not None for source in scene.sources)
    assert scene.sinks
    assert scene.domain.mode == "kill"
    longer = scene.with_overrides(["frames=[1, 1000]"])
    assert longer.estimate_particles() == scene.estimate_particles()


def test_meshes_are_what_the_script_makes() -> None:
    """`python -m tests.tools.scene_meshes` writes them."""
    from tests.tools.scene_meshes import FOLDER, files

    made = files()
    assert sorted(made) == sorted(path.name for path in FOLDER.iterdir())
    for name, data in made.items():
        assert (FOLDER / name).read_bytes() == data, name
    assert sum(map(len, made.values())) < 400_000


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_files_of_scenes_come_along(name: str, tmp_path: Path) -> None:
    """`runnel scenes --write` leaves something that loads by itself."""
    from runnel.cli import main

    assert main(["scenes", name, "--write", str(tmp_path)]) == 0
    assert Scene.load(tmp_path / f"{name}.toml") == example(name)


def test_unknown_example() -> None:
    with pytest.raises(SceneError, match="Did you mean dam_break"):
        example("dam_brek")
    with pytest.raises(SceneError, match="no shipped scene"):
        example_path("../scenes/dam_break")
