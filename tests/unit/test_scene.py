"""Reading scenes: what is accepted, what is refused and how the message helps."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings

from runnel import scene as scene_module
from runnel.errors import MeshError, SceneError
from runnel.presets import PRESETS
from runnel.scene import Box, Cylinder, Fluid, MeshFile, Plane, Scene, Source, Sphere
from tests.unit.random_scenes import damaged, scenes

ROOT = Path(__file__).resolve().parents[2]
FEW = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

CONTRACT = """
name = "dam_break"
fps = 24
frames = [1, 100]
up = "z"
dimensions = 3
seed = 7

[solver]
time_step = 0.004
iterations = [2, 20]
tolerance = 0.01
gravity = [0, 0, -9.81]

[[fluid]]
name = "water"
preset = "water"
density = 1000.0
viscosity = 0.0
surface_tension = 0.0
vorticity = 0.0

[[source]]
name = "dam"
fluid = "water"
kind = "volume"
shape = { box = { min = [0, 0, 0], max = [1, 1, 1] } }
spacing = 0.02
velocity = [0, 0, 0]

[[collider]]
name = "tank"
shape = { box = { min = [0, 0, 0], max = [4, 1, 3] } }
mode = "inside"
voxel_size = 0.02
friction = 0.1
bounce = 0.0
stickiness = 0.0
body = "static"

[[sink]]
shape = { box = { min = [3.8, 0, 0], max = [4, 1, 0.1] } }

[[force]]
kind = "wind"
velocity = [1, 0, 0]
strength = 0.5

[output]
channels = ["position", "velocity", "radius", "density", "phase", "id"]
"""

SMALL: dict[str, Any] = {
    "fluid": [{"name": "water"}],
    "source": [
        {
            "name": "dam",
            "fluid": "water",
            "shape": {"box": {"min": [0, 0, 0], "max": [1, 1, 1]}},
            "spacing": 0.1,
        }
    ],
}
EMITTER = {
    "fluid": "water",
    "kind": "emitter",
    "shape": {"cylinder": {"start": [0, 0, 0], "end": [0, 0, 0.1], "radius": 0.5}},
    "spacing": 0.1,
    "velocity": [0, 0, 2],
}


def small(**changes: Any) -> dict[str, Any]:
    return copy.deepcopy(SMALL) | changes


def with_source(**changes: Any) -> dict[str, Any]:
    data = small()
    data["source"][0] |= changes
    return data


def refused(data: dict[str, Any]) -> SceneError:
    with pytest.raises(SceneError) as caught:
        Scene.from_dict(data)
    return caught.value


# --- what comes out -------------------------------------------------------------------------------


def test_contract_scene_loads(tmp_path: Path) -> None:
    """The scene of the public format, word by word."""
    file = tmp_path / "dam.toml"
    file.write_text(CONTRACT)
    scene = Scene.load(file)
    assert scene.name == "dam_break"
    assert scene.fps == 24.0
    assert scene.frames == (1, 100)
    assert scene.solver.time_step == 0.004
    assert scene.solver.iterations == (2, 20)
    assert scene.fluids[0].density == 1000.0
    assert scene.sources[0].shape == Box(min=(0.0, 0.0, 0.0), max=(1.0, 1.0, 1.0))
    assert scene.colliders[0].mode == "inside"
    assert scene.sinks[0].name == "sink_1"
    assert scene.forces[0].velocity == (1.0, 0.0, 0.0)
    assert scene.output.channels[-1] == "id"
    assert scene.directory == tmp_path
    assert scene.estimate_particles() == 125_000


def test_json_and_toml_are_one_format(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(CONTRACT)
    toml = Scene.load(tmp_path / "a.toml")
    (tmp_path / "b.json").write_text(json.dumps(toml.to_dict()))
    assert Scene.load(tmp_path / "b.json") == toml


def test_defaults() -> None:
    scene = Scene.from_dict(small())
    assert scene.solver.time_step == "auto"
    assert scene.solver.gravity == (0.0, 0.0, -9.81)
    assert scene.frames == (1, 100)
    assert scene.domain.min is None
    assert scene.sources[0].frames is None
    assert scene.smallest_spacing == 0.1


def test_up_picks_gravity_and_the_ignored_axis() -> None:
    assert Scene.from_dict(small(up="y")).solver.gravity == (0.0, -9.81, 0.0)
    given = Scene.from_dict(small(up="y", solver={"gravity": [1, 2, 3]}))
    assert given.solver.gravity == (1.0, 2.0, 3.0)
    assert Scene.from_dict(small()).ignored_axis == -1
    assert Scene.from_dict(small(dimensions=2)).ignored_axis == 1
    assert Scene.from_dict(small(dimensions=2, up="y")).ignored_axis == 2


def test_vortex_turns_about_the_vertical_or_the_axis_left_out() -> None:
    def axis(**keys: Any) -> tuple[float, ...]:
        return Scene.from_dict(small(force=[{"kind": "vortex"}], **keys)).forces[0].axis

    assert axis() == (0, 0, 1)
    assert axis(up="y") == (0, 1, 0)
    assert axis(dimensions=2) == (0, 1, 0)
    assert axis(dimensions=2, up="y") == (0, 0, 1)


def test_preset_fills_in_what_is_not_given() -> None:
    scene = Scene.from_dict(small(fluid=[{"name": "water", "preset": "honey", "viscosity": 1.5}]))
    fluid = scene.fluids[0]
    assert fluid.density == PRESETS["honey"].density
    assert fluid.color == PRESETS["honey"].color
    assert fluid.viscosity == 1.5


def test_fluids_without_preset_get_different_colors() -> None:
    scene = Scene.from_dict(small(fluid=[{"name": n} for n in ("water", "b", "c")]))
    assert len({fluid.color for fluid in scene.fluids}) == 3


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ({"sphere": {"center": [0, 0, 1], "radius": 1}}, Sphere(center=(0, 0, 1), radius=1)),
        (
            {"cylinder": {"start": [0, 0, 0], "end": [0, 0, 2], "radius": 1}},
            Cylinder(start=(0, 0, 0), end=(0, 0, 2), radius=1),
        ),
    ],
)
def test_shapes(shape: dict[str, Any], expected: object) -> None:
    assert Scene.from_dict(with_source(shape=shape)).sources[0].shape == expected


def test_plane_collider() -> None:
    scene = Scene.from_dict(small(collider=[{"shape": {"plane": {"normal": [0, 0, 2]}}}]))
    assert scene.colliders[0].shape == Plane(point=(0, 0, 0), normal=(0, 0, 2))


def test_scene_is_immutable_and_hashable() -> None:
    scene = Scene.from_dict(small())
    with pytest.raises(FrozenInstanceError):
        scene.fps = 30.0  # type: ignore[misc]
    assert hash(scene) == hash(Scene.from_dict(small(), directory="/elsewhere"))
    assert scene == Scene.from_dict(small(), directory="/elsewhere")


def test_input_is_not_changed() -> None:
    data = small()
    before = copy.deepcopy(data)
    Scene.from_dict(data).with_overrides(["source.dam.spacing=0.2"])
    assert data == before


def test_replace_still_checks() -> None:
    """A scene changed with dataclasses.replace cannot lose its fluid."""
    scene = Scene.from_dict(small())
    with pytest.raises(SceneError, match="no fluid of this name"):
        replace(scene, fluids=(Fluid(name="oil"),))


def test_import_is_light() -> None:
    """Scenes can be read without numba and OpenCL."""
    code = (
        "import sys, runnel.scene, runnel.schema;"
        "print([m for m in ('numba', 'pyopencl') if m in sys.modules])"
    )
    path = os.pathsep.join([str(ROOT / "core"), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "[]"


# --- round trips ----------------------------------------------------------------------------------


@FEW
@given(data=scenes())
def test_round_trip(data: dict[str, Any]) -> None:
    """from_dict(to_dict) is the same scene, through JSON too; so is the digest."""
    scene = Scene.from_dict(data)
    for defaults in (False, True):
        plain = scene.to_dict(defaults=defaults)
        again = Scene.from_dict(json.loads(json.dumps(plain)))
        assert again == scene
        assert again.digest() == scene.digest()
        assert again.to_dict(defaults=defaults) == plain


def test_digest_sees_values_not_writing() -> None:
    scene = Scene.from_dict(small())
    assert scene.digest() == Scene.from_dict(small(fps=24), directory="/x").digest()
    assert scene.digest() == Scene.from_dict(small(fps=24.0, seed=0)).digest()
    assert scene.digest() != Scene.from_dict(small(fps=25)).digest()
    assert scene.digest() != scene.with_overrides(["source.dam.spacing=0.11"]).digest()
    assert len(scene.digest()) == 64


@FEW
@given(data=damaged())
@example(data={"fluid": [[]], "source": [3]})
def test_junk_raises_scene_error_or_loads(data: Any) -> None:
    """Whatever stands in a scene, nothing else than SceneError comes out."""
    try:
        Scene.from_dict(data).digest()
    except SceneError as error:
        message = str(error)
        assert message


# --- overrides ------------------------------------------------------------------------------------


def test_overrides_by_name_and_index() -> None:
    scene = Scene.from_dict(small()).with_overrides(
        [
            "solver.tolerance=0.02",
            "source.dam.spacing = 0.2",
            "fluid[0].viscosity=2",
            "solver.kernel=cubic",
            'name="quoted name"',
            "source[0].shape.box.min[2]=0.5",
            "domain.min=[-1, -1, -1]",
            "output.channels=['position', 'age']",
        ]
    )
    assert scene.solver.tolerance == 0.02
    assert scene.sources[0].spacing == 0.2
    assert scene.fluids[0].viscosity == 2.0
    assert scene.solver.kernel == "cubic"
    assert scene.name == "quoted name"
    assert scene.sources[0].shape == Box(min=(0, 0, 0.5), max=(1, 1, 1))
    assert scene.domain.min == (-1, -1, -1)
    assert scene.output.channels == ("position", "age")


def test_override_of_a_key_moves_what_depends_on_it() -> None:
    scene = Scene.from_dict(small()).with_overrides(["up=y", "fluid.water.preset=oil"])
    assert scene.solver.gravity == (0.0, -9.81, 0.0)
    assert scene.fluids[0].density == PRESETS["oil"].density


def test_override_finds_names_with_dots() -> None:
    data = small(fluid=[{"name": "Cube"}, {"name": "Cube.001"}, {"name": "water"}])
    scene = Scene.from_dict(data).with_overrides(["fluid.Cube.001.density=5"])
    assert [fluid.density for fluid in scene.fluids] == [1000.0, 5.0, 1000.0]


def test_override_keeps_the_folder(tmp_path: Path) -> None:
    scene = Scene.from_dict(small(), tmp_path).with_overrides(["fps=30"])
    assert scene.directory == tmp_path


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("solver.tolernce=1", "did you mean tolerance"),
        ("sources.dam.spacing=1", "did you mean source"),
        ("source.dm.spacing=1", "did you mean dam"),
        ("fluid[3].density=1", "only 1"),
        ("solver.tolerance=lots", "must be a number"),
        ("solver.tolerance.x=1", "must be a number"),
        ("source.dam=3", "table"),
        ("spacing", "key.path=value"),
        ("=3", "key.path=value"),
        ("solver.=3", "path of keys"),
        (".solver=3", "path of keys"),
        ("source[0=3", "no entry"),
        ("fps=24\nseed=3", "must be a number"),
    ],
)
def test_bad_override(override: str, words: str) -> None:
    with pytest.raises(SceneError) as caught:
        Scene.from_dict(small()).with_overrides([override])
    assert words.lower() in str(caught.value).lower()


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "key", "words"),
    [
        ({}, "fluid", "add a [[fluid]]"),
        ({"fluid": [{"name": "water"}]}, "source", "nothing to simulate"),
        (small(fluids=[]), "fluids", "Did you mean fluid?"),
        (with_source(spaceing=1), "source[0].spaceing", "Did you mean spacing?"),
        (with_source(spacing=-0.1), "source[0].spacing", "between 1e-6 and 10000 m"),
        (with_source(spacing=True), "source[0].spacing", "must be a number"),
        (with_source(spacing="0.1"), "source[0].spacing", "must be a number"),
        (with_source(spacing=float("nan")), "source[0].spacing", "finite"),
        (with_source(velocity=[0, 0]), "source[0].velocity", "a list of 3 numbers"),
        (with_source(velocity=[0, 0, None]), "source[0].velocity[2]", "number"),
        (with_source(fluid="wter"), "source[0].fluid", "Did you mean water?"),
        (with_source(kind="emiter"), "source[0].kind", '"volume", "emitter"'),
        (with_source(frames=[2, 9]), "source[0].frames", "emitter"),
        (with_source(shape="box"), "source[0].shape", "one key out of box"),
        (with_source(shape={}), "source[0].shape", "one key"),
        (with_source(shape={"cube": {}}), "source[0].shape.cube", "box, sphere"),
        (with_source(shape={"box": {"min": [0, 0, 0]}}), "source[0].shape.box.max", "missing"),
        (
            with_source(shape={"box": {"min": [0, 2, 0], "max": [1, 1, 1]}}),
            "source[0].shape.box.max[1]",
            "above min (2) along y",
        ),
        (
            with_source(shape={"plane": {"normal": [0, 0, 1]}}),
            "source[0].shape",
            '"box", "sphere", "cylinder", "mesh"',
        ),
        (
            with_source(shape={"cylinder": {"start": [1, 1, 1], "end": [1, 1, 1], "radius": 1}}),
            "source[0].shape.cylinder.end",
            "differ",
        ),
        (
            with_source(motion=[{"frame": 3}, {"frame": 3}]),
            "source[0].motion[1].frame",
            "in order",
        ),
        (with_source(motion={"frame": 3}), "source[0].motion", "list of keyframes"),
        (small(frames=[9, 2]), "frames", "first must not be above"),
        (small(frames=[1, 2.5]), "frames[1]", "whole number"),
        (small(dimensions=4), "dimensions", "one of 3, 2"),
        (small(name="a/b"), "name", "without /"),
        (small(name=".."), "name", "without /"),
        (small(solver=[{}]), "solver", "write [solver]"),
        (small(solver=3), "solver", "table"),
        (small(fluid={"name": "water"}), "fluid", "write [[fluid]]"),
        (small(fluid=[{"name": "water"}, {"name": "water"}]), "fluid[1].name", "already"),
        (small(fluid=[{"name": "water", "preset": "watr"}]), "fluid[0].preset", '"water"'),
        (small(solver={"time_step": "fast"}), "solver.time_step", 'a number or "auto"'),
        (small(solver={"iterations": [5, 2]}), "solver.iterations", "first must not"),
        (
            small(collider=[{"shape": {"plane": {"normal": [0, 0, 0]}}}]),
            "collider[0].shape.plane.normal",
            "zero",
        ),
        (
            small(force=[{"kind": "vortex", "axis": [0, 0, 0]}]),
            "force[0].axis",
            "zero",
        ),
        (small(domain={"mode": "close"}), "domain.mode", "needs min and max"),
        (
            small(domain={"min": [0, 0, 0], "max": [1, 1, 0]}),
            "domain.max[2]",
            "above min",
        ),
        (small(output={"channels": ["position", "id", "id"]}), "output.channels[2]", "twice"),
        (small(output={"channels": ["id"]}), "output.channels", '"position"'),
        (small(output={"channels": ["position", "a b"]}), "output.channels[1]", "letters"),
    ],
)
def test_refusal_names_key_and_remedy(data: dict[str, Any], key: str, words: str) -> None:
    error = refused(data)
    assert error.key == key
    assert words in str(error)


def test_moving_collider_must_say_so() -> None:
    shape = {"sphere": {"center": [0, 0, 0], "radius": 1}}
    collider = {"shape": shape, "motion": [{"frame": 1}, {"frame": 2, "position": [1, 0, 0]}]}
    assert 'body = "animated"' in str(refused(small(collider=[collider])))
    scene = Scene.from_dict(small(collider=[collider | {"body": "animated"}]))
    assert scene.colliders[0].motion[1].position == (1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rate": 1.0, "speed": 1.0}, "both given"),
        ({"velocity": [0, 0, 0]}, "needs a velocity"),
        (
            {
                "velocity": [0, 0, 0],
                "speed": 1.0,
                "shape": {"sphere": {"center": [0, 0, 0], "radius": 1}},
            },
            "direction",
        ),
    ],
)
def test_emitter_must_be_determined(changes: dict[str, Any], words: str) -> None:
    assert words in str(refused(small(source=[EMITTER | changes])))


def test_emitter_in_2d_needs_a_direction_in_the_plane() -> None:
    """z is ignored with up = "y", and so is a stream along it."""
    data = small(source=[EMITTER], dimensions=2, up="y")
    assert "in the plane of the scene" in str(refused(data))
    assert Scene.from_dict(data | {"up": "z"}).sources[0].direction == (0.0, 0.0, 2.0)


def test_cylinder_emits_along_its_axis() -> None:
    source = Scene.from_dict(small(source=[EMITTER | {"velocity": [0, 0, 0], "speed": 3.0}]))
    assert source.sources[0].direction == (0.0, 0.0, 0.1)


def test_2d_ignores_the_third_axis() -> None:
    flat = with_source(shape={"box": {"min": [0, 0, 0], "max": [1, 1, 0]}})
    assert "along z" in str(refused(flat))
    assert Scene.from_dict(flat | {"dimensions": 2, "up": "y"}).estimate_particles() == 100
    assert "along z" in str(refused(flat | {"dimensions": 2, "up": "z"}))


def test_2d_shapes_turn_in_the_plane_only() -> None:
    turned = with_source(rotation=[0, 30, 0]) | {"dimensions": 2}
    assert Scene.from_dict(turned).sources[0].rotation == (0.0, 30.0, 0.0)
    assert "turn about z only" in str(refused(turned | {"up": "y"}))
    assert Scene.from_dict(turned | {"dimensions": 3, "up": "y"})


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.toml", b"name = ", "line 1"),
        ("a.toml", b"fps = 24\nfps = 25", "line 2"),
        ("a.json", b'{"fps": 24,\n}', "line 2"),
        ("a.json", b'{"fps": 24, "fps": 25}', "fps: is given twice"),
        ("a.json", b"[]", "table of keys"),
        ("a.json", b'{"fps": NaN}', "fps = NaN: must be a finite number"),
        ("a.json", b"[" * 100_000, "nested too deeply"),
        ("a.toml", b"x = " + b"[" * 100_000, "nested too deeply"),
        ("a.toml", b"fps = " + b"9" * 5000, "a.toml"),
        ("a.toml", b"\xff\xfe", "UTF-8"),
        ("a.yaml", b"fps: 24", ".toml or .json"),
        ("a.toml", b"fps = 1979-05-27", "must be a number"),
    ],
)
def test_bad_file(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(SceneError) as caught:
        Scene.load(file)
    assert caught.value.file == str(file)
    assert words in str(caught.value)


def test_byte_order_mark_is_no_error(tmp_path: Path) -> None:
    """Windows editors write one."""
    (tmp_path / "a.toml").write_bytes(b"\xef\xbb\xbf" + CONTRACT.encode())
    assert Scene.load(tmp_path / "a.toml").name == "dam_break"


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(SceneError, match="no such file"):
        Scene.load(tmp_path / "a.toml")
    (tmp_path / "b.toml").mkdir()
    with pytest.raises(SceneError, match="not a file"):
        Scene.load(tmp_path / "b.toml")


def test_huge_file_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    with file.open("wb") as stream:
        stream.truncate(scene_module.MAX_FILE_BYTES + 1)  # sparse: takes no space
    with pytest.raises(SceneError, match="64 are read"):
        Scene.load(file)


# --- meshes ---------------------------------------------------------------------------------------

CUBE = """\
v 0 0 0\nv 2 0 0\nv 2 1 0\nv 0 1 0\nv 0 0 1\nv 2 0 1\nv 2 1 1\nv 0 1 1
f 4 3 2 1\nf 5 6 7 8\nf 1 2 6 5\nf 2 3 7 6\nf 3 4 8 7\nf 4 1 5 8
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """scene/ with a mesh in it, another mesh beside it."""
    (tmp_path / "scene" / "geo").mkdir(parents=True)
    (tmp_path / "scene" / "geo" / "cube.obj").write_text(CUBE)
    (tmp_path / "cube.obj").write_text(CUBE)
    return tmp_path / "scene"


def mesh_scene(folder: Path, file: Any, **options: Any) -> Scene:
    return Scene.from_dict(with_source(shape={"mesh": file}), folder, **options)


@pytest.mark.parametrize("file", ["geo/cube.obj", {"file": "geo/cube.obj"}])
def test_mesh_source(folder: Path, file: Any) -> None:
    scene = mesh_scene(folder, file)
    shape = scene.sources[0].shape
    assert shape == MeshFile(file="geo/cube.obj")
    assert scene.mesh_path(shape) == folder / "geo/cube.obj"
    assert scene.estimate_particles() == 2000  # the box around the 2 x 1 x 1 m block
    assert Scene.from_dict(scene.to_dict(), folder) == scene


def test_mesh_outside_of_the_folder_is_refused(folder: Path) -> None:
    (folder / "link.obj").symlink_to(folder.parent / "cube.obj")
    (folder / "linked").symlink_to(folder.parent)
    absolute = str(folder / "geo" / "cube.obj")
    for file in ("../cube.obj", "geo/../../cube.obj", "geo/../geo/cube.obj", absolute, "link.obj",
                 "linked/cube.obj", "C:/cube.obj", "C:cube.obj"):  # fmt: skip
        with pytest.raises(MeshError, match="outside of the scene's folder"):
            mesh_scene(folder, file)


def test_mesh_outside_can_be_allowed(folder: Path) -> None:
    scene = mesh_scene(folder, "../cube.obj", allow_outside=True)
    assert scene.with_overrides(["fps=30"]).fps == 30.0
    mesh_scene(folder, str(folder.parent / "cube.obj"), allow_outside=True)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("geo/none.obj", "there is no file"),
        ("geo/cube.blend", ".obj, .stl, .ply, .off"),
        ("geo", ".obj, .stl, .ply, .off"),
        ("geo\\cube.obj", "/ between folders"),
        ("", "printable"),
        ("a\x00.obj", "printable"),
    ],
)
def test_bad_mesh_path(folder: Path, file: str, words: str) -> None:
    with pytest.raises(SceneError) as caught:
        mesh_scene(folder, file)
    assert words in str(caught.value)
    assert str(caught.value.key).startswith("source[0].shape.mesh")


def test_broken_mesh_is_found_at_loading(folder: Path) -> None:
    (folder / "bad.obj").write_text("v 0 0\nf 1 2 3\n")
    with pytest.raises(MeshError) as caught:
        mesh_scene(folder, "bad.obj")
    assert caught.value.key == "source[0].shape.mesh"
    assert caught.value.file == str(folder / "bad.obj")


# --- the guide ------------------------------------------------------------------------------------


def test_scenes_of_the_guide_load(tmp_path: Path) -> None:
    """The first snippet is a whole scene, the others are parts to add to it."""
    guide = (ROOT / "docs" / "guide" / "scenes.md").read_text(encoding="utf-8")
    first, *others = map(tomllib.loads, re.findall(r"```toml\n(.*?)```", guide, re.DOTALL))
    assert Scene.from_dict(first).estimate_particles() == 8000
    assert len(others) == 3
    for part in others:
        for key, value in part.items():
            first[key] = first.get(key, []) + value if isinstance(value, list) else value
    (tmp_path / "gust_0001.vdb").touch()
    scene = Scene.from_dict(first, tmp_path)
    assert len(scene.colliders) == 3
    assert scene.fluids[1].viscosity == 4.0


def test_messages_of_the_guide_are_real(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "guide" / "scenes.md").read_text(encoding="utf-8")
    shown = re.findall(r"^scene\.toml: (.*?) ?\.\.\.$", guide, re.MULTILINE)
    spacing = refused(with_source(spacing=-0.1))
    typo = refused(small(fluid=[{"name": "water", "viscocity": 1}]))
    assert len(shown) == 2
    for error, start in zip((spacing, typo), shown, strict=True):
        assert str(error).startswith(start)


# --- particle counts ------------------------------------------------------------------------------


def count(**changes: Any) -> int:
    return Scene.from_dict(with_source(**changes)).estimate_particles()


def test_estimate_of_volumes() -> None:
    assert count() == 1000
    assert count(spacing=0.05) == 8000
    assert count(scale=2.0) == 8000
    ball = {"sphere": {"center": [0, 0, 0], "radius": 0.5}}
    assert count(shape=ball) == pytest.approx(524, abs=1)
    rod = {"cylinder": {"start": [0, 0, 0], "end": [0, 3, 4], "radius": 0.5}}
    assert count(shape=rod) == pytest.approx(3927, abs=1)


def test_estimate_of_emitters() -> None:
    """Area times speed times time, or rate times time; a lifetime caps the time."""

    def emitted(**changes: Any) -> int:
        data = small(source=[EMITTER | changes], frames=[1, 48])
        return Scene.from_dict(data).estimate_particles()

    disc = 3.14159265 * 0.25
    assert emitted() == pytest.approx(disc * 2 * 2 * 1000, abs=2)
    assert emitted(speed=1.0) == pytest.approx(disc * 2 * 1000, abs=2)
    assert emitted(rate=1.0) == 2000
    assert emitted(rate=1.0, lifetime=0.5) == 500
    assert emitted(rate=1.0, frames=[25, 1000]) == 1000
    assert emitted(rate=1.0, frames=[60, 80]) == 0
    assert emitted(scale=2.0) == pytest.approx(4 * emitted(), rel=1e-3)


def test_area_seen_along_a_direction() -> None:
    box = Box(min=(0, 0, 0), max=(1, 2, 3))
    assert box.area((0, 0, 5), (0, 1, 2)) == 2.0
    assert box.area((1, 0, 0), (0, 1)) == 2.0
    rod = Cylinder(start=(0, 0, 0), end=(0, 0, 4), radius=1)
    assert rod.area((0, 0, 1), (0, 1, 2)) == pytest.approx(3.14159, rel=1e-5)
    assert rod.area((1, 0, 0), (0, 1, 2)) == pytest.approx(8.0)
    assert rod.area((1, 0, 0), (0, 1)) == pytest.approx(2.0)


def test_too_many_particles_are_refused_before_anything_is_made() -> None:
    error = refused(with_source(spacing=0.0015))
    assert error.key == "source[0].spacing"
    assert "2.96e+08 particles" in str(error)
    refused(with_source(shape={"box": {"min": [-1e6] * 3, "max": [1e6] * 3}}, spacing=1e-6))


def test_source_without_end_cannot_be_built_in_python_either() -> None:
    plane = Source(name="a", fluid="water", shape=Plane(normal=(0, 0, 1)), spacing=0.1)
    with pytest.raises(SceneError, match="end"):
        Scene(fluids=(Fluid(name="water"),), sources=(plane,))
