"""The surface node, the callbacks, the choice of a device."""

from __future__ import annotations

import hou
import numpy as np
import pytest
from hou_standin import Geometry
from hou_standin.vdb import grids_in
from shots import node, points, pool, pressed, upstream, values

from runnel.backends.devices import DeviceInfo
from runnel.fields.vdb import available, surface_of
from runnel.presets import PRESETS
from runnel.preview.colors import to_linear
from runnel_houdini import callbacks, devices


def ball(phase: bool = False) -> Geometry:
    axis = np.arange(-4, 5) * 0.1
    grid = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    places = grid[np.linalg.norm(grid, axis=1) < 0.4]
    more = {"phase": (places[:, 0] > 0).astype(int)} if phase else {}
    heat = places[:, 0].copy()
    return points(places, pscale=np.full(len(places), 0.05), heat=heat, **more)


def test_surface_of_points() -> None:
    maker = node("fluid_surface", upstream(ball()), attribs="heat")
    geo = maker._cook(1)
    assert maker.errors() == ()
    assert geo.primCount() > 500
    heat, place = values(geo, "heat"), values(geo, "P")
    assert np.corrcoef(heat, place[:, 0])[0, 1] > 0.95
    assert np.allclose(np.linalg.norm(values(geo, "N"), axis=1), 1.0, atol=1e-3)
    # Normals point outwards, as polygons do.
    assert (values(geo, "N") * place).sum(axis=1).mean() > 0


def test_surface_of_each_fluid() -> None:
    maker = node("fluid_surface", upstream(ball(phase=True)), attribs="", eachfluid=1)
    geo = maker._cook(1)
    assert maker.errors() == ()
    names = geo.primStringAttribValues("name")
    assert set(names) == {"fluid_1", "fluid_2"}
    assert {g.name() for g in geo.primGroups()} == {"fluid_1", "fluid_2"}
    assert len(values(geo, "N")) == geo.pointCount()


def test_surface_needs_sizes_and_takes_nothing() -> None:
    maker = node("fluid_surface", upstream(points([[0, 0, 0]])))
    maker._cook(1)
    assert "pscale" in maker.errors()[0]
    empty = node("fluid_surface", upstream(Geometry()))
    assert empty._cook(1).pointCount() == 0
    assert empty.errors() == ()


@pytest.mark.skipif(not available(), reason="OpenVDB is not installed")
def test_volumes_of_points() -> None:
    """As VDBs that a level set's volume and the points' velocity are found in again."""
    given = ball()
    given.addAttrib(hou.attribType.Point, "v", (0.0, 0.0, 0.0))
    v = np.tile(np.float32([1, 2, 3]), (given.pointCount(), 1))
    given.setPointFloatAttribValuesFromString("v", v.tobytes())
    maker = node("fluid_surface", upstream(given), output="volumes", voxelsize=0.05)
    geo = maker._cook(1)
    assert maker.errors() == ()
    assert geo.primStringAttribValues("name") == ("density", "surface", "velocity")
    density, level_set, velocity = (grids_in(prim._data.content)[0] for prim in geo.prims())
    assert density.transform.voxelSize()[0] == pytest.approx(0.05)
    size = abs(surface_of(level_set).volume())
    assert size == pytest.approx(given.pointCount() * 0.1**3, rel=0.15)
    assert velocity.getConstAccessor().getValue((0, 0, 0)) == pytest.approx((1, 2, 3), rel=1e-5)
    empty = node("fluid_surface", upstream(Geometry()), output="volumes")
    empty._cook(1)
    assert empty.errors() == ()


def test_volumes_without_openvdb_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runnel_houdini.volumes.available", lambda: False)
    maker = node("fluid_surface", upstream(ball()), output="volumes")
    assert maker._cook(1).primCount() == 0
    assert "VDB from Particles" in maker.errors()[0]


def test_editing_a_preset_copies_it() -> None:
    solver = pool(preset1="honey")
    solver._parms |= {f"color1{axis}": 0.0 for axis in "rgb"}
    callbacks.edit_preset(solver, 1)
    assert solver._parms["preset1"] == "custom"
    assert solver._parms["viscosity1"] == PRESETS["honey"].viscosity
    assert solver._parms["density1"] == PRESETS["honey"].density
    # Houdini's colours are linear, ours as displayed.
    assert solver._parms["color1r"] == pytest.approx(to_linear(PRESETS["honey"].color)[0])
    callbacks.edit_preset(solver, 1)  # is custom already
    assert solver._parms["preset1"] == "custom"


def test_reset_of_a_node_that_never_cooked() -> None:
    solver = pool()
    pressed(solver, "resimulate")
    assert solver._geometry.pointCount() == 125
    callbacks.deleted(pool())


# --- devices --------------------------------------------------------------------------------------


def device(name: str, platform: str, kind: str, error: str = "") -> DeviceInfo:
    return DeviceInfo(name=name, platform=platform, kind=kind, problems=(error,) if error else ())


FOUND = [
    device("A100", "NVIDIA CUDA", "gpu"),
    device("W7900", "AMD Accelerated Parallel Processing", "gpu"),
    device("EPYC", "Portable Computing Language", "cpu"),
    device("Broken", "NVIDIA CUDA", "gpu", "it does not start"),
]


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({}, None),
        ({"HOUDINI_OCL_DEVICETYPE": "CPU"}, "EPYC"),
        ({"HOUDINI_OCL_DEVICETYPE": "gpu"}, "A100"),
        ({"HOUDINI_OCL_VENDOR": "amd"}, "W7900"),
        ({"HOUDINI_OCL_DEVICETYPE": "GPU", "HOUDINI_OCL_DEVICENUMBER": "1"}, "W7900"),
        ({"HOUDINI_OCL_DEVICENUMBER": "9"}, "A100"),
        ({"HOUDINI_OCL_VENDOR": "Intel"}, None),
        ({"HOUDINI_OCL_DEVICENUMBER": "junk"}, "A100"),
    ],
)
def test_houdinis_variables(variables: dict[str, str], name: str | None) -> None:
    chosen = devices.by_variables(FOUND, variables)
    assert (chosen.name if chosen else None) == name


def test_the_parameter_goes_before_the_variables() -> None:
    chosen = devices.pick("reference", {"HOUDINI_OCL_DEVICETYPE": "CPU"})
    assert chosen.kind == "reference"


def test_menu_of_devices() -> None:
    menu = callbacks.device_menu(pool())
    assert len(menu) % 2 == 0
    assert menu[:2] == ["auto", "Automatic"]
    assert menu[-2] == "reference"
