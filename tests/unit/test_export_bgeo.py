"""Houdini's .bgeo: real files are read, what is written comes back, bad files are refused."""

from __future__ import annotations

import io
import json
import tracemalloc
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runnel.errors import MeshError
from runnel.export import ExportOptions, export_frames
from runnel.export.bgeo import document, polygons, write_bgeo
from runnel.export.bgeo_read import parse_bgeo, read_bgeo
from runnel.export.binjson import MAGIC, Decoder, Encoder
from runnel.export.frames import Frame
from runnel.export.geometry import Geometry
from runnel.surface import Mesh

from .export_caches import channels, filled

QUICK = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
BYTES_ALLOWED = 1 << 27


def encoded(value: Any) -> bytes:
    out = io.BytesIO()
    Encoder(out).write(value)
    return out.getvalue()


def sample() -> Geometry:
    """Something of everything."""
    random = np.random.default_rng(3)
    return Geometry(
        5,
        points={
            "P": random.random((5, 3), dtype=np.float32),
            "id": np.array([4, 2, 2**40, 0, 1]),
            "pscale": np.ones(5, np.float32),
        },
        vertices={"uv": random.random((7, 2))},
        primitives={"material": np.array([3, 1], np.int32)},
        detail={"frame": np.array([12], np.int32), "momentum": np.ones((1, 3))},
        point_groups={"water": np.array([1, 1, 0, 0, 1], bool)},
        primitive_groups={"all": np.ones(2, bool), "none": np.zeros(2, bool)},
        corners=np.array([0, 1, 2, 4, 3, 2, 1], np.int32),
        starts=np.array([0, 3], np.int32),
        sizes=np.array([3, 4], np.int32),
    )


def assert_same(left: Geometry, right: Geometry) -> None:
    assert left.count == right.count
    for name in ("points", "vertices", "primitives", "detail", "point_groups", "primitive_groups"):
        mine, other = getattr(left, name), getattr(right, name)
        assert mine.keys() == other.keys()
        for key in mine:
            assert mine[key].dtype == other[key].dtype
            np.testing.assert_array_equal(mine[key], other[key])
    for name in ("corners", "starts", "sizes"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))


# ---- files that Houdini wrote


def text_twin(path: Path) -> dict[str, Any]:
    """The .geo file, read by Python's own JSON."""

    def pairs(items: list[Any]) -> dict[str, Any]:
        return dict(zip(items[::2], items[1::2], strict=True))

    top = pairs(json.loads(path.read_text(encoding="utf-8")))
    tables = pairs(top["attributes"])
    top["attributes"] = {
        kind: {pairs(head)["name"]: pairs(pairs(body)["values"])["tuples"] for head, body in table}
        for kind, table in tables.items()
    }
    top["corners"] = pairs(pairs(top["topology"])["pointref"])["indices"]
    return top


@pytest.mark.parametrize(
    "name", ["points_noprim_16_5", "grid_16_5", "grid_tetra_16_5", "cube_multi_groups_16_5"]
)
def test_real_files_equal_their_text_twins(shared: Path, name: str) -> None:
    folder = shared / "validation/bgeo"
    geometry, twin = read_bgeo(folder / f"{name}.bgeo"), text_twin(folder / f"{name}.geo")
    assert geometry.count == twin["pointcount"]
    assert len(geometry.sizes) == twin["primitivecount"]
    assert geometry.corners.tolist() == twin["corners"]
    assert geometry.software == "Houdini 16.5.268"
    for kind, table in (
        ("pointattributes", geometry.points),
        ("vertexattributes", geometry.vertices),
    ):
        wanted = twin["attributes"].get(kind, {})
        assert table.keys() == wanted.keys()
        for key, values in wanted.items():
            np.testing.assert_array_equal(table[key], np.array(values, np.float32))


def test_real_polygons_and_groups(shared: Path) -> None:
    cubes = read_bgeo(shared / "validation/bgeo/cube_multi_groups_16_5.bgeo")
    assert (cubes.sizes == 4).all()
    assert cubes.polygon(1).tolist() == [2, 6, 5, 1]
    assert cubes.primitive_groups["all"].all()
    faces = np.tile([0, 0, 1, 1, 1, 0], 4).astype(bool)
    np.testing.assert_array_equal(cubes.primitive_groups["faces"], faces)
    tetra = read_bgeo(shared / "validation/bgeo/grid_tetra_16_5.bgeo")
    assert tetra.sizes.tolist() == [4, 3, 3, 3, 3]


@pytest.mark.parametrize("version", ["", "_14", "_15", "_16"])
def test_real_files_of_all_versions(shared: Path, version: str) -> None:
    folder = shared / "validation/bgeo"
    geometry = read_bgeo(folder / f"points_noprim{version}.bgeo")
    latest = read_bgeo(folder / "points_noprim_16_5.bgeo")
    place = geometry.points["P"][:, :3]  # Houdini 13 had a fourth coordinate, 1
    np.testing.assert_allclose(place, latest.points["P"], atol=1e-6)  # each made its own points


def test_real_particle_systems_are_points(shared: Path) -> None:
    for version in ("15", "16"):
        geometry = read_bgeo(shared / f"validation/bgeo/points_partsys_{version}.bgeo")
        assert (geometry.count, geometry.other_primitives) == (10, 1)
        assert geometry.points["N"].shape == (10, 3)


def test_our_layout_is_that_of_real_files(shared: Path) -> None:
    """Key by key, type by type: a file of Houdini's, written anew by us, has the same document
    but for the index, the date and who made it."""
    path = shared / "validation/bgeo/cube_multi_groups_16_5.bgeo"
    real = Decoder(path.read_bytes()).document()
    ours = Decoder(encoded(document(read_bgeo(path)))).document()

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.tolist()
        return [plain(item) for item in value] if isinstance(value, list) else value

    skipped = ("info", "index", "indexposition", "hasindex")
    tops = [dict(zip(d[::2], plain(d[1::2]), strict=True)) for d in (real, ours)]
    left, right = ({k: v for k, v in top.items() if k not in skipped} for top in tops)
    assert list(left) == list(right)
    assert left == right


# ---- what we write


def test_everything_comes_back(tmp_path: Path) -> None:
    write_bgeo(tmp_path / "a.bgeo", sample())
    assert_same(read_bgeo(tmp_path / "a.bgeo"), sample())


def test_exported_particles_follow_houdinis_customs(tmp_path: Path) -> None:
    files = export_frames(filled(tmp_path), ExportOptions(format="bgeo"))
    assert [path.name for path in files] == [f"particles.{k:04d}.bgeo" for k in (1, 2, 3)]
    geometry, was = read_bgeo(files[1]), channels(2)
    names = {"P": "position", "v": "velocity", "pscale": "radius", "Cd": "color"}
    for name, channel in (names | {n: n for n in ("id", "density", "phase", "age")}).items():
        np.testing.assert_array_equal(geometry.points[name], was[channel])
    assert geometry.points["id"].dtype == np.int32
    np.testing.assert_array_equal(geometry.point_groups["water"], was["phase"] == 0)
    np.testing.assert_array_equal(geometry.point_groups["palm_oil"], was["phase"] == 1)
    assert geometry.detail["frame"].tolist() == [2]
    assert geometry.detail["time"].tolist() == [0.04]
    assert geometry.detail["momentum"].tolist() == [[1, 2, 3]]


def test_surfaces_face_outwards_in_houdini(shared: Path) -> None:
    """Signed volume by the order of corners: that of a real cube and that of ours agree."""

    def volume(geometry: Geometry) -> float:
        total = 0.0
        for number in range(len(geometry.sizes)):
            a, *rest = geometry.points["P"][geometry.polygon(number)].astype(float)
            total += sum(np.dot(a, np.cross(b, c)) / 6 for b, c in pairwise(rest))
        return total

    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
    faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], np.int32)
    mesh = Mesh(corners, faces, {"velocity": np.ones((4, 3), np.float32)})
    assert mesh.volume > 0
    ours = polygons(mesh, Frame(1, 0.0, {"position": corners}, {}, {"frame": 1}))
    assert volume(ours) < 0
    assert volume(read_bgeo(shared / "validation/bgeo/cube_multi_groups_16_5.bgeo")) < 0
    assert parse_bgeo(encoded(document(ours))).points["v"].shape == (4, 3)


def test_no_particles(tmp_path: Path) -> None:
    empty = Geometry(0, points={"P": np.zeros((0, 3), np.float32)}, point_groups={})
    write_bgeo(tmp_path / "a.bgeo", empty)
    assert_same(read_bgeo(tmp_path / "a.bgeo"), empty)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=300),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=9), inner, max_size=4)
    ),
    max_leaves=20,
)


@QUICK
@given(json_values)
def test_any_value_comes_back(value: Any) -> None:
    assert Decoder(encoded(value)).document() == value


@QUICK
@given(
    st.lists(st.booleans(), max_size=70),
    st.integers(1, 40),
    st.sampled_from([[3], [1, 1, 1], [1, 2]]),
)
def test_pages_unfold(constant: list[bool], page: int, packing: list[int]) -> None:
    """Pages that hold one tuple for all rows, and parts that lie apart."""
    count = max(len(constant) * page - page // 2, 0)
    pages = -(-count // page)
    flags = [[bool((k + p) % 2) and constant[p] for p in range(pages)] for k in range(len(packing))]
    wanted, raw = np.empty((count, 3), np.float32), []
    random = np.random.default_rng(1)
    for p in range(pages):
        rows, column = wanted[p * page : (p + 1) * page], 0
        for k, width in enumerate(packing):
            told = random.random((1 if flags[k][p] else len(rows), width), dtype=np.float32)
            rows[:, column : column + width] = told
            raw += told.ravel().tolist()
            column += width
    values = ["size", 3, "storage", "fpreal32", "packing", packing, "pagesize", page,
              "constantpageflags", flags, "rawpagedata", raw]  # fmt: skip
    head = ["scope", "public", "type", "numeric", "name", "P", "options", {}]
    attribute = [head, ["size", 3, "storage", "fpreal32", "values", values]]
    top = ["pointcount", count, "attributes", ["pointattributes", [attribute]]]
    np.testing.assert_array_equal(parse_bgeo(encoded(top)).points["P"], wanted)


def test_texts_and_bits_are_read() -> None:
    strings = ["size", 1, "storage", "int32", "strings", ["a", "b"], "indices",
               ["size", 1, "storage", "int32", "pagesize", 1024, "rawpagedata", [1]]]  # fmt: skip
    head = ["scope", "public", "type", "string", "name", "who", "options", {}]
    top = ["pointcount", 0, "attributes", ["globalattributes", [[head, strings]]]]
    assert parse_bgeo(encoded(top)).detail["who"].tolist() == ["b"]
    raw = MAGIC + b"\x40\x10\x22" + (0b101).to_bytes(4, "little") + (2).to_bytes(4, "little")
    bits = Decoder(raw).document()
    assert np.flatnonzero(bits).tolist() == [0, 2, 33]
    assert len(bits) == 34


# ---- files that are wrong


def refused_or_read(data: bytes) -> None:
    """A MeshError or a geometry, never more memory than a small file can mean."""
    tracemalloc.start()
    try:
        with suppress(MeshError):
            parse_bgeo(data)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < BYTES_ALLOWED


GOOD = encoded(document(sample()))


def test_every_cut_is_refused() -> None:
    for end in range(len(GOOD)):
        with pytest.raises(MeshError):
            parse_bgeo(GOOD[:end])


@QUICK
@given(
    st.lists(st.tuples(st.integers(5, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=6)
)
def test_flipped_bytes_never_crash(changes: list[tuple[int, int]]) -> None:
    data = bytearray(GOOD)
    for place, value in changes:
        data[place] = value
    refused_or_read(bytes(data))


@QUICK
@given(st.binary(max_size=400))
def test_noise_never_crashes(noise: bytes) -> None:
    refused_or_read(noise)
    refused_or_read(MAGIC + noise)


def changed(key: str, value: Any) -> bytes:
    top = document(sample())
    top[top.index(key) + 1] = value
    return encoded(top)


@pytest.mark.parametrize(
    "data",
    [
        MAGIC + b"\x40\x1a\xf8" + b"\xff" * 8,  # a block of 2^64 numbers
        MAGIC + b"\x40\x27\xf8" + b"\xff" * 8,
        MAGIC + b"\x40\x10\xf8" + b"\xff" * 8,
        MAGIC + b"\x27\xf4" + b"\xff" * 4,
        MAGIC + b"[" * 100_000,
        MAGIC + b"&\x07",
        b"PGEOMETRY V5",
        changed("pointcount", 2**60),
        changed("pointcount", -1),
        changed("vertexcount", 2**60),
        changed("primitivecount", 2**60),
        changed("primitives", [[["type", "p_r"], ["s_v", 0, "n_p", 2**60, "r_v", [0, 2**60]]]]),
        changed("primitives", [[["type", "p_r"], ["s_v", 5, "n_p", 2, "r_v", [3, 1, 4, 1]]]]),
        changed("primitives", [[["type", "Poly"], ["vertex", [0, 1, 99], "closed", True]]]),
        changed("topology", ["pointref", ["indices", [0, 1, 2, 3, 4, 5, 6]]]),
        changed("topology", {"pointref": 3}),
        changed("attributes", 7),
        changed("attributes", ["pointattributes", []]),
        changed(
            "pointgroups",
            [[["name", "a"], ["selection", ["unordered", ["boolRLE", [2**60, True]]]]]],
        ),
    ],
)
def test_absurd_files_are_refused(data: bytes) -> None:
    with pytest.raises(MeshError):
        parse_bgeo(data)
    refused_or_read(data)


def test_constant_pages_cannot_ask_for_all_memory() -> None:
    """A thousand bytes that stand for 2^40 points."""
    values = ["size", 3, "storage", "fpreal64", "pagesize", 2**40, "constantpageflags", [[True]],
              "rawpagedata", [0.0, 0.0, 0.0]]  # fmt: skip
    head = ["scope", "public", "type", "numeric", "name", "P", "options", {}]
    attribute = [head, ["size", 3, "storage", "fpreal64", "values", values]]
    top = ["pointcount", 2**40, "attributes", ["pointattributes", [attribute]]]
    with pytest.raises(MeshError, match="bytes"):
        parse_bgeo(encoded(top))


def test_errors_name_the_file(tmp_path: Path) -> None:
    (tmp_path / "bad.bgeo").write_bytes(GOOD[:200])
    with pytest.raises(MeshError, match=r"bad\.bgeo.*byte"):
        read_bgeo(tmp_path / "bad.bgeo")
    with pytest.raises(MeshError, match=r"gone\.bgeo"):
        read_bgeo(tmp_path / "gone.bgeo")
