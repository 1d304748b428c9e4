"""Geometry between Houdini and numpy, and through the bytes of real .bgeo files."""

from __future__ import annotations

from pathlib import Path

import hou
import numpy as np
import pytest
from hou_standin import Geometry
from hou_standin.geometry import _PrimData
from shots import box, points, values

from runnel.export.bgeo_read import read_bgeo
from runnel.meshes import Mesh
from runnel_houdini.deliver import Look, bases, deliver, group_name
from runnel_houdini.frames import Frame, Memory, Solid
from runnel_houdini.geometry import (
    _topology,
    matches,
    numeric_attributes,
    point_values,
    set_attribute,
    set_detail,
    triangles,
)
from runnel_houdini.pieces import pieces


def volume(geo: Geometry) -> float:
    mesh = triangles(geo)
    return Mesh(mesh.points.astype(float), mesh.corners).volume()


@pytest.mark.parametrize(
    ("pattern", "name", "wanted"),
    [
        ("*", "Cd", True),
        ("", "Cd", False),
        ("* ^Cd", "Cd", False),
        ("^Cd *", "Cd", True),
        ("temp* v", "temperature", True),
        ("temp* v", "vorticity", False),
        ("* !rest?", "rest2", False),
    ],
)
def test_patterns(pattern: str, name: str, wanted: bool) -> None:
    assert matches(pattern, name) is wanted


def test_polygons_face_outwards_as_core_has_it() -> None:
    assert volume(box((0, 0, 0), (1, 2, 3))) == pytest.approx(6.0)


def test_polygons_through_the_slow_way_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    geo = box()
    quick = _topology(geo)
    monkeypatch.setattr(Geometry, "data", lambda self: b"what no one knows")
    slow = _topology(geo)
    for a, b in zip(quick, slow, strict=True):
        assert np.array_equal(a, b)


def test_a_polygon_of_many_corners_is_divided() -> None:
    geo = Geometry()
    angles = np.linspace(0, 2 * np.pi, 9)[:-1]
    ring = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1)
    geo.createPoints([*ring, *(ring + np.array([0, 0, 1]))])
    low, high = list(range(8)), list(range(8, 16))
    sides = [[k, 8 + k, 8 + (k + 1) % 8, (k + 1) % 8] for k in range(8)]
    geo.createPolygons([low, high[::-1], *sides])
    assert abs(volume(geo)) == pytest.approx(2 * np.sqrt(2))


def test_packed_geometry_is_put_where_it_is() -> None:
    geo = Geometry()
    geo.createPoints([(0, 0, 0)])
    turn = np.eye(4)
    turn[3, :3] = (5, 0, 0)
    geo._add_prim(_PrimData(hou.primType.PackedGeometry, [0], content=box(), transform=turn))
    mesh = triangles(geo)
    assert mesh.points.min(axis=0).tolist() == [5, 0, 0]
    assert volume(geo) == pytest.approx(1.0)


def test_pieces_by_name_with_settings_of_their_own() -> None:
    geo = box()
    box((2, 0, 0), (3, 1, 1), geo=geo)
    geo.addAttrib(hou.attribType.Prim, "name", "")
    geo.setPrimStringAttribValues("name", ["a"] * 6 + ["b/c"] * 6)
    geo.addAttrib(hou.attribType.Prim, "runnel_friction", 0.0)
    friction = np.repeat([0.25, 0.75], 6).astype(np.float32)
    geo.setPrimFloatAttribValuesFromString("runnel_friction", friction.tobytes())
    first, second = pieces(geo)
    assert (first.name, second.name) == ("a", "b/c")
    assert first.attributes["runnel_friction"] == pytest.approx(0.25)
    assert second.attributes["runnel_friction"] == pytest.approx(0.75)
    assert second.vertices is not None
    assert len(second.vertices) == 8
    assert second.vertices[:, 0].min() == 2


def test_attributes_of_points_go_in_and_out() -> None:
    some = np.arange(4, dtype=np.float32)
    geo = points(np.eye(4, 3), heat=some, tint=np.ones((4, 3)), kind=np.arange(4))
    geo.addAttrib(hou.attribType.Point, "label", "x")
    assert numeric_attributes(geo) == ["heat", "tint", "kind"]
    heat, label = point_values(geo, "heat"), point_values(geo, "label")
    assert heat is not None
    assert np.array_equal(heat, some)
    assert label is None
    assert values(geo, "tint").shape == (4, 3)


def test_an_attribute_is_added_behind_others() -> None:
    geo = points(np.zeros((2, 3)))
    set_attribute(geo, hou.attribType.Point, "a", np.array([1.0, 2.0]))
    geo.createPoints(np.ones((2, 3)))
    set_attribute(geo, hou.attribType.Point, "a", np.array([3.0, 4.0]), 2)
    assert values(geo, "a").tolist() == [1, 2, 3, 4]
    set_attribute(geo, hou.attribType.Point, "a", "now a text")
    assert geo.pointStringAttribValues("a") == ("now a text",) * 4


def test_detail_takes_python_numbers_only() -> None:
    geo = Geometry()
    set_detail(geo, {"n": np.int64(3), "x": np.float32(1.5), "m": (1, 2, 3), "s": "cpu"})
    assert geo.attribValue("n") == 3
    assert geo.attribValue("x") == 1.5
    assert geo.attribValue("m") == (1.0, 2.0, 3.0)
    assert geo.attribValue("s") == "cpu"


# --- what leaves the node -------------------------------------------------------------------------

FLUIDS = [("water", (0.0, 0.4, 0.7)), ("2 oil/s", (1.0, 0.5, 0.0)), ("water@2,1", (0.0, 0.4, 0.7))]


def frame(count: int = 4) -> Frame:
    rising = np.arange(count)
    channels = {
        "position": np.stack([rising, 0 * rising, 0 * rising], axis=1).astype(np.float32),
        "velocity": np.tile(np.float32([0, -2, 0]), (count, 1)),
        "radius": np.full(count, 0.1, np.float32),
        "phase": np.array([0, 1, 2, 0], np.uint32)[:count],
        "id": rising.astype(np.uint32),
        "density": np.full(count, 1000, np.float32),
        "heat": rising.astype(np.float32),
    }
    report = {"frame": 7, "particles": count, "mass": 2.5, "momentum": [0.0, -1.0, 0.0]}
    body = Solid("boat", np.eye(3, dtype=np.float32), np.array([[0, 1, 2]], np.int32))
    return Frame(7, channels, report, (body,))


def test_attributes_by_houdinis_customs() -> None:
    geo = Geometry()
    deliver(geo, frame(), FLUIDS, Look(channels=("velocity", "radius", "phase", "id")))
    assert {a.name() for a in geo.pointAttribs()} == {"P", "v", "pscale", "phase", "id", "heat"}
    assert values(geo, "pscale").tolist() == pytest.approx([0.1] * 4)
    assert geo.findPointAttrib("v")._column.options == {"type": "vector"}
    assert values(geo, "phase").tolist() == [0, 1, 0, 0]  # the variant is what it is made of
    assert {g.name(): g.pointCount() for g in geo.pointGroups()} == {"water": 3, "_2_oil_s": 1}
    assert geo.attribValue("mass") == 2.5
    assert geo.primCount() == 0


def test_slow_motion_slows_what_leaves() -> None:
    geo = Geometry()
    deliver(geo, frame(), FLUIDS, Look(channels=("velocity",), time_scale=0.5, ahead=0.5))
    assert values(geo, "v")[0].tolist() == [0, -1, 0]
    assert values(geo, "P")[0].tolist() == pytest.approx([0, -0.5 / 24, 0])


def test_colors() -> None:
    for color, wide in (("none", False), ("fluid", True), ("speed", True), ("heat", True)):
        geo = Geometry()
        deliver(geo, frame(), FLUIDS, Look(channels=(), color=color))
        assert (geo.findPointAttrib("Cd") is not None) == wide
    assert len(np.unique(values(geo, "Cd"), axis=0)) == 4
    deliver(geo, frame(), FLUIDS, Look(channels=(), color="heat", range=(100.0, 200.0)))
    assert len(np.unique(values(geo, "Cd"), axis=0)) == 1


def test_bodies_beside_the_particles() -> None:
    geo = Geometry()
    deliver(geo, frame(), FLUIDS, Look(channels=("velocity",), bodies=True))
    assert (geo.pointCount(), geo.primCount()) == (7, 1)
    assert [g.name() for g in geo.primGroups()] == ["boat"]


def test_a_frame_without_particles() -> None:
    geo = box()
    deliver(geo, frame(0), FLUIDS, Look(channels=("velocity", "phase", "id"), color="speed"))
    assert (geo.pointCount(), geo.primCount()) == (0, 0)
    assert geo.findPointAttrib("v") is not None
    assert geo.attribValue("particles") == 0


def test_names_of_groups() -> None:
    taken: set[str] = set()
    assert [group_name(n, taken) for n in ("a b", "a_b", "1", "é", "")] == [
        "a_b", "a_b_", "_1", "_", "__",
    ]  # fmt: skip
    assert bases([("a@b", (0, 0, 0))]).tolist() == [0]  # a name of the user's own


# --- memory ---------------------------------------------------------------------------------------


def numbered(number: int, size: int = 100) -> Frame:
    return Frame(number, {"position": np.zeros(size, np.uint8)}, {})


def test_the_frame_not_asked_for_longest_goes_first() -> None:
    memory = Memory(limit=300)
    for number in (1, 2, 3):
        memory.keep(numbered(number))
    assert memory.get(1, ["position"]) is not None
    memory.keep(numbered(4))
    assert memory.frames == [1, 3, 4]
    assert memory.get(1, ["position", "vorticity"]) is None
    memory.limit = 100
    memory.trim()
    assert memory.frames == [4]


def test_checkpoints_are_thinned_and_stay_within_half() -> None:
    memory = Memory(limit=1000)
    for number in range(1, 101, 10):
        memory.keep_state(number, ({"x": np.zeros(100, np.uint8)}, {}))
        assert memory.bytes <= 500
        assert number in memory.checkpoints
    kept = memory.checkpoints
    assert len(kept) == 5
    assert max(np.diff([1, *kept])) <= 50
    found = memory.state_before(kept[2] + 1)
    assert found is not None
    assert found[0] == kept[2]
    assert memory.state_before(kept[0]) is None


# --- real files -----------------------------------------------------------------------------------


def real_files() -> list[str]:
    return ["cube_multi_groups_16_5.bgeo", "grid_16_5.bgeo", "points_noprim.bgeo"]


@pytest.mark.parametrize("name", real_files())
def test_real_bgeo_goes_through_unchanged(shared: Path, name: str) -> None:
    """What Houdini wrote, read as geometry, given out as bytes, read again."""
    path = shared / "validation" / "bgeo" / name
    geo = Geometry()
    geo.load(path.read_bytes())
    real = read_bgeo(path)
    assert geo.pointCount() == real.count
    again = Geometry()
    again.load(geo.data())
    for attrib in geo.pointAttribs():
        a, b = (point_values(g, attrib.name()) for g in (geo, again))
        assert (a is None) == (b is None)
        assert a is None or np.array_equal(a, b)
    if real.sizes.size:
        corners, sizes = _topology(geo)
        assert np.array_equal(corners, real.corners)
        assert np.array_equal(sizes, real.sizes)
        assert [p.points for p in again._prims] == [p.points for p in geo._prims]


def test_cubes_of_houdinis_are_closed_and_face_outwards(shared: Path) -> None:
    geo = Geometry()
    geo.load((shared / "validation" / "bgeo" / "cube_multi_groups_16_5.bgeo").read_bytes())
    mesh = triangles(geo)
    whole = Mesh(mesh.points.astype(float), mesh.corners)
    assert whole.is_closed()
    assert whole.volume() == pytest.approx(len(mesh.points) / 8)  # of a cubic metre each


def test_a_frame_as_bytes_and_back() -> None:
    geo = Geometry()
    deliver(geo, frame(), FLUIDS, Look(channels=("velocity", "radius", "id"), statistics=False))
    again = Geometry()
    again.load(geo.data())
    for name in ("P", "v", "pscale", "id", "heat"):
        assert np.array_equal(values(again, name), values(geo, name))
    assert {g.name(): g.pointCount() for g in again.pointGroups()} == {"water": 3, "_2_oil_s": 1}


def test_houdinis_geometry_is_read_only_where_it_is_anothers() -> None:
    geo = box().freeze(read_only=True)
    triangles(geo)
    with pytest.raises(hou.GeometryPermissionError):
        geo.clear()
