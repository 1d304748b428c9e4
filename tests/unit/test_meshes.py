"""Mesh files: every form of the formats, nothing but MeshError from bad ones; what is inside."""

from __future__ import annotations

import struct
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runnel import meshes
from runnel.errors import MeshError
from runnel.meshes import Mesh, contains, lattice_inside, read_mesh, winding_number

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "validation" / "meshes"
SUFFIXES = (".obj", ".stl", ".ply", ".off")

CUBE = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], float)
QUADS = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
CUBE_TRIANGLES = np.array([t for q in QUADS for t in (q[:3], [q[0], q[2], q[3]])], np.int32)

fuzzing = settings(
    max_examples=150,
    deadline=5000,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def shared(name: str) -> Path:
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"validation mesh {name} is not in {SHARED}")
    return path


def save(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def cube(low=0.0, size=1.0, inward=False) -> Mesh:
    return Mesh(CUBE * size + low, CUBE_TRIANGLES[:, ::-1] if inward else CUBE_TRIANGLES)


def join(*parts: Mesh) -> Mesh:
    starts = np.cumsum([0] + [len(m.vertices) for m in parts])
    return Mesh(
        np.concatenate([m.vertices for m in parts]),
        np.concatenate([m.triangles + s for m, s in zip(parts, starts, strict=False)]),
    )


def ball(steps=24, radius=1.0) -> Mesh:
    """A closed sphere of latitudes and longitudes; its poles are single vertices."""
    phi = np.linspace(0, np.pi, steps + 1)[1:-1]
    theta = np.arange(2 * steps) * np.pi / steps
    ring = [[np.sin(p) * np.cos(t), np.sin(p) * np.sin(t), np.cos(p)] for p in phi for t in theta]
    vertices = np.array([*ring, [0, 0, 1], [0, 0, -1]]) * radius
    n, faces = 2 * steps, []
    for row in range(steps - 2):
        for k in range(n):
            a, b = row * n + k, row * n + (k + 1) % n
            faces += [[a, a + n, b], [b, a + n, b + n]]
    top, bottom, last = len(ring), len(ring) + 1, (steps - 2) * n
    faces += [[top, k, (k + 1) % n] for k in range(n)]
    faces += [[bottom, last + (k + 1) % n, last + k] for k in range(n)]
    return Mesh(vertices, np.array(faces, np.int32))


def obj_text(quads=QUADS):
    lines = [f"v {x:g} {y:g} {z:g}" for x, y, z in CUBE]
    return "\n".join(lines + ["f " + " ".join(str(i + 1) for i in q) for q in quads]) + "\n"


def off_text(header="OFF\n8 6 12\n", tail=""):
    lines = [f"{x:g} {y:g} {z:g}{tail}" for x, y, z in CUBE]
    return header + "\n".join(lines + ["4 " + " ".join(map(str, q)) for q in QUADS]) + "\n"


def stl_text():
    lines = ["solid cube"]
    for triangle in CUBE[CUBE_TRIANGLES]:
        lines += ["facet normal 0 0 0", " outer loop"]
        lines += [f"  vertex {x:g} {y:g} {z:.3e}" for x, y, z in triangle]
        lines += [" endloop", "endfacet"]
    return "\n".join([*lines, "endsolid cube"]) + "\n"


def stl_bytes(header=b"made by a tool"):
    rows = b"".join(
        struct.pack("<12fH", 0, 0, 0, *triangle.ravel(), 0) for triangle in CUBE[CUBE_TRIANGLES]
    )
    return header.ljust(80, b"\0") + struct.pack("<I", len(CUBE_TRIANGLES)) + rows


def ply(layout, faces=QUADS, position="float", counter="uchar", index="int"):
    """A PLY cube with other properties and elements around what is wanted."""
    codes = {"uchar": "B", "int": "i", "uint": "I", "ushort": "H", "float": "f", "double": "d"}
    header = (
        f"ply\nformat {layout} 1.0\ncomment made by a test\nelement edge 2\n"
        "property list uchar short weights\nproperty int a\n"
        f"element vertex 8\nproperty {position} x\nproperty uchar red\n"
        f"property {position} y\nproperty {position} z\n"
        f"element face {len(faces)}\nproperty uchar flags\n"
        f"property list {counter} {index} vertex_indices\nproperty float q\n"
        "element thing 1\nproperty int b\nend_header\n"
    ).encode()
    rows = [("B2hi", (2, 7, 8, 1)), ("B1hi", (1, 7, 1))]
    at, count, corner = codes[position], codes[counter], codes[index]
    corners = CUBE.astype(int).tolist() if position == "int" else CUBE.tolist()
    rows += [(f"{at}B{at}{at}", (x, 200, y, z)) for x, y, z in corners]
    rows += [(f"B{count}{len(f)}{corner}f", (9, len(f), *f, 0.5)) for f in faces]
    rows += [("i", (3,))]
    if layout == "ascii":
        return header + "\n".join(" ".join(f"{v:g}" for v in row) for _, row in rows).encode()
    order = "<" if "little" in layout else ">"
    return header + b"".join(struct.pack(order + form, *row) for form, row in rows)


def is_cube(mesh):
    assert mesh.vertices.dtype == np.float64
    assert mesh.triangles.dtype == np.int32
    assert mesh.volume() == pytest.approx(1.0, rel=1e-12)
    assert mesh.is_closed()
    assert np.array(mesh.bounds).tolist() == [[0, 0, 0], [1, 1, 1]]
    return len(mesh.vertices) == 8 and len(mesh.triangles) == 12


# --- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        obj_text(),
        obj_text().replace("\n", "\r\n"),
        obj_text().replace("\n", "\r"),
        "# cube\nmtllib x.mtl\no cube\n" + obj_text() + "l 1 2\np 3\nvn 1 0 0\nvt 0 0\n",
        obj_text().replace("v 0 0 0", "  v   0.0\t0 0 1.0 # with w"),
        obj_text().replace("f 1 2 4 3", "f 1/1/1 2/2 4//7 3/"),
        obj_text().replace("f 1 2 4 3", "f -8 -7 -5 -6"),
        obj_text().replace("f 1 2 4 3", "f 1 2 \\\n 4 3"),
        obj_text().replace("v 1 1 1", "v 1 1 1 0.5 0.5 0.5"),
    ],
)
def test_obj_forms(tmp_path, content):
    assert is_cube(read_mesh(save(tmp_path, "a.OBJ", content)))


def test_obj_negative_indices_count_from_the_face(tmp_path):
    """-1 is the last vertex above the face, also when more follow."""
    text = "v 0 0 0\nv 1 0 0\nv 0 1 0\nf -3 -2 -1\nv 0 0 1\nf -4 -1 -3\n"
    mesh = read_mesh(save(tmp_path, "a.obj", text))
    assert mesh.triangles.tolist() == [[0, 1, 2], [0, 3, 1]]


@pytest.mark.parametrize(
    "content",
    [
        off_text(),
        off_text("OFF 8 6 12\n"),
        off_text("8 6 0\n"),
        off_text("# first\nOFF # here\n\n# there\n8 6\n\n"),
        off_text("COFF\n8 6 0\n", " 255 0 0 255"),
        off_text("NOFF\n8 6 0\n", " 0 0 1"),
        off_text("CNOFF\n8 6 0\n", " 0 0 1 0.1 0.2 0.3 1"),
        off_text().replace("4 0 1 3 2", "4 0 1 3 2 255 0 0"),
        off_text().replace("4 0 1 3 2", "3 0 1 3\n3 0 3 2").replace("8 6 12", "8 7 12"),
        off_text().replace("8 6 12", "8 8 12") + "2 0 1\n1 0\n",
    ],
)
def test_off_forms(tmp_path, content):
    assert is_cube(read_mesh(save(tmp_path, "a.off", content)))


@pytest.mark.parametrize(
    "content",
    [
        stl_text(),
        stl_text().upper(),
        stl_text().replace("\n", "\r\n"),
        stl_bytes(),
        stl_bytes(b"solid but binary"),
        stl_bytes(b"solid with a facet in its header"),
        stl_bytes() + b"left over",
    ],
)
def test_stl_forms(tmp_path, content):
    """Vertices are welded; binary files that begin with "solid" are recognised."""
    assert is_cube(read_mesh(save(tmp_path, "a.stl", content)))


@pytest.mark.parametrize("layout", ["ascii", "binary_little_endian", "binary_big_endian"])
@pytest.mark.parametrize("faces", [QUADS, [*QUADS[:-1], [1, 5, 7], [1, 7, 3]]])
@pytest.mark.parametrize(
    ("position", "counter", "index"),
    [("float", "uchar", "int"), ("double", "int", "uint"), ("int", "ushort", "uchar")],
)
def test_ply_forms(tmp_path, layout, faces, position, counter, index):
    """Any byte order and type, mixed polygons, other properties and elements around."""
    content = ply(layout, faces, position, counter, index)
    assert is_cube(read_mesh(save(tmp_path, "a.ply", content)))


def test_concave_fan_keeps_volume(tmp_path):
    """A polygon seen from its first corner keeps the signed volume, concave or not."""
    text = "\n".join(
        [f"v {x} {y} {z}" for z in (0, 1) for x, y in ((0, 0), (2, 0), (2, 2), (1, 0.5), (0, 2))]
        + ["f 5 4 3 2 1", "f 6 7 8 9 10"]
        + [f"f {k + 1} {(k + 1) % 5 + 1} {(k + 1) % 5 + 6} {k + 6}" for k in range(5)]
    )
    mesh = read_mesh(save(tmp_path, "a.obj", text))
    assert mesh.is_closed()
    assert mesh.volume() == pytest.approx(4 - 1.5)


@pytest.mark.parametrize(
    ("name", "vertices", "triangles", "open_edges", "volume"),
    [
        ("7_8ths_cube.stl", 14, 24, 0, 56000),
        ("bunny_closed_3k.off", 3485, 6966, 0, 0.000753934),
        ("dragon_50k.obj", 25007, 50000, 0, 0.109044),
        ("joined_tetrahedra.obj", 5, 8, 0, 0.866025),
        ("nm_closed_cubes.off", 16, 24, 0, 2),
        ("spot.obj", 2930, 5856, 0, 0.718259),
        ("torus.stl", 4350, 8700, 0, 4.91755),
        ("unit_sphere.stl", 642, 1280, 0, 4.15274),
        ("bad_cube.off", 8, 13, 1, 8),
        ("degenerated_sd.off", 7068, 13477, 663, None),
        ("open_cube.off", 8, 10, 4, None),
        ("soup.stl", 300, 100, 300, None),
        ("stanford_bunny_holes.obj", 35947, 69451, 223, None),
        ("suzanne.obj", 507, 968, 42, None),
        ("u_sheet.off", 190, 188, 190, None),
        ("utah_teapot.obj", 3644, 6320, 160, None),
    ],
)
def test_validation_meshes(name, vertices, triangles, open_edges, volume):
    """Counts, open edges and volumes as listed with the meshes."""
    mesh = read_mesh(shared(name))
    assert (len(mesh.vertices), len(mesh.triangles)) == (vertices, triangles)
    assert mesh.open_edges == open_edges
    assert mesh.is_closed() == (open_edges == 0)
    if volume is not None:
        assert mesh.volume() == pytest.approx(volume, rel=1e-5)


def test_fifty_thousand_triangles_are_read_at_once():
    path = shared("dragon_50k.obj")
    start = time.perf_counter()
    read_mesh(path)
    assert time.perf_counter() - start < 2.0  # 0.2 s on an idle core


# --- refusing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.obj", "", "no faces"),
        ("a.obj", "v 0 0 0\nv 1 0 0\n", "no faces"),
        ("a.obj", obj_text().replace("v 0 0 1", "v 0 0"), "line 2: .*three coordinates"),
        ("a.obj", obj_text().replace("v 0 0 1", "v 0 0 x1"), "line 2: 'x1' is not a number"),
        ("a.obj", obj_text().replace("v 0 0 1", "v 0 0 nan"), "line 2: .*not a usable"),
        ("a.obj", obj_text().replace("v 0 0 1", "v 0 0 1e999"), "line 2: .*not a usable"),
        ("a.obj", obj_text().replace("v 0 0 1", "v 0 0 1e200"), "line 2: .*not a usable"),
        ("a.obj", obj_text().replace("f 1 2 4 3", "f 1 2 99 3"), "line 9: vertex 98 .*8"),
        ("a.obj", obj_text().replace("f 1 2 4 3", "f 1 2 -9 3"), "line 9: vertex -1"),
        ("a.obj", obj_text().replace("f 1 2 4 3", "f 0 1 2"), "line 9: vertex -1"),
        ("a.obj", obj_text().replace("f 1 2 4 3", "f 1 2.5 3"), "line 9: 2.5 is not a whole"),
        ("a.obj", obj_text().replace("f 1 2 4 3", "f 1 2 /3"), "line 9: .*three corners"),
        ("a.obj", obj_text().replace("f 1 2 4 3", "f 1 2 b"), "line 9: 'b' is not a number"),
        ("a.obj", obj_text().replace("f 1 2 4 3", "f 1 2 " + "9" * 400), "line 9: .*not a whole"),
        ("a.off", off_text("OFF\n8 9 0\n"), "line 2: declares 8 .* 9 .* 14 lines follow"),
        ("a.off", off_text("OFF\n999999999999 6 0\n"), "line 2: declares"),
        ("a.off", off_text("OFF\n-8 6 0\n"), "line 2: declares"),
        ("a.off", off_text("OFF\n8.5 6 0\n"), "line 2: 8.5 is not a whole"),
        ("a.off", "OFF\n", "missing"),
        ("a.off", off_text("OFF BINARY\n8 6 0\n"), "save as plain OFF"),
        ("a.off", off_text("4OFF\n8 6 0\n"), "save as plain OFF"),
        ("a.off", off_text().replace("4 0 1 3 2", "5 0 1 3 2"), "line 11: .*lacks corners"),
        ("a.off", off_text().replace("4 0 1 3 2", "4 0 1 3 8"), "line 11: vertex 8"),
        ("a.off", off_text().replace("1 1 1", "1 1"), "line 10: .*three coordinates"),
        ("a.off", off_text().replace("1 1 1", "1 1 inf"), "line 10: .*not a usable"),
        ("a.stl", b"", "byte 80"),
        ("a.stl", stl_bytes()[:-1], "byte 80: declares 12 triangles, which take 684"),
        ("a.stl", stl_bytes()[:80] + b"\xff\xff\xff\xff", "byte 80"),
        ("a.stl", stl_text().replace("  vertex 0 0 0.000e+00\n", "", 1), "35 vertices in 12"),
        ("a.stl", stl_text().replace("1 1 1.0", "1 1 a.0", 1), "line .*'a.000e"),
        ("a.stl", "solid nothing\nendsolid\n", "no faces"),
        ("a.ply", b"ply\n", "is no PLY"),
        ("a.ply", b"PLY\nend_header\n", "is no PLY"),
        ("a.ply", b"ply\nend_header\n", "format"),
        ("a.ply", ply("ascii").replace(b"uchar red", b"colour red"), "line 9: .*'colour'"),
        ("a.ply", ply("ascii").replace(b"vertex 8", b"vertex 88888"), "line 7: declares more"),
        ("a.ply", ply("ascii").replace(b"vertex 8", b"vertex -8"), "line 7: .*not understood"),
        ("a.ply", ply("ascii").replace(b" y\n", b" w\n"), "no x, y and z"),
        ("a.ply", ply("ascii").replace(b"vertex_indices", b"corners"), "no faces with"),
        ("a.ply", ply("ascii").replace(b"uchar int vert", b"float int vert"), "line 14"),
        ("a.ply", ply("ascii")[:-40], "do not fit|ends within"),
        ("a.ply", ply("binary_little_endian")[:-60], "do not fit|ends within"),
        ("a.ply", ply("ascii", [*QUADS[:-1], [1, 5, 7, 8]]), "face 5: vertex 8"),
        ("a.xyz", "", "ends in .obj, .stl, .ply, .off"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, name, content, message):
    path = save(tmp_path, name, content)
    with pytest.raises(MeshError, match=message) as caught:
        read_mesh(path)
    assert str(path) in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(MeshError, match="no such file"):
        read_mesh(tmp_path / "none.obj")
    (tmp_path / "folder.obj").mkdir()
    with pytest.raises(MeshError, match="no such file"):
        read_mesh(tmp_path / "folder.obj")
    with pytest.raises(MeshError, match=r"at most 0 MB"):
        read_mesh(save(tmp_path, "a.obj", obj_text()), max_bytes=10)


def try_to_read(folder, suffix, content):
    try:
        mesh = read_mesh(save(folder, "fuzz" + suffix, content))
    except MeshError:
        return
    assert np.isfinite(mesh.vertices).all()
    assert mesh.triangles.min() >= 0
    assert mesh.triangles.max() < len(mesh.vertices)


@fuzzing
@given(suffix=st.sampled_from(SUFFIXES), content=st.binary(max_size=400))
def test_random_bytes(tmp_path, suffix, content):
    try_to_read(tmp_path, suffix, content)


VALID = {
    ".obj": [obj_text().encode(), obj_text().replace("f 1 2", "f -8/1 -7//2").encode()],
    ".off": [off_text().encode()],
    ".stl": [stl_text().encode(), stl_bytes(), stl_bytes(b"solid")],
    ".ply": [ply("ascii"), ply("binary_little_endian"), ply("binary_big_endian", QUADS[:2])],
}


@fuzzing
@given(data=st.data(), suffix=st.sampled_from(SUFFIXES))
def test_damaged_files(tmp_path, data, suffix):
    """Real files with bytes replaced, removed and inserted."""
    content = bytearray(data.draw(st.sampled_from(VALID[suffix])))
    pieces = st.one_of(
        st.binary(max_size=6),
        st.sampled_from(
            [b"-1", b"1e400", b"nan", b"99999999999", b"\n", b" ", b"\xff\xff\xff\xff"]
        ),
    )
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        content[start : start + data.draw(st.integers(0, 6))] = data.draw(pieces)
    try_to_read(tmp_path, suffix, bytes(content))


WORDS = """v 0 0 0|v 1 0 0|v 0 1|f 1 2 3|f -1 -2 -3|f 1/ /2 3|\\|OFF|3 1 0|3 0 1 2|1 1 1
solid|vertex 1 2 3|endloop|ply|format ascii 1.0|end_header|element vertex 3|element face 1
element a 0
property list uchar int vertex_indices|property float x|property float y|property float z"""
LINES = st.lists(st.sampled_from(WORDS.replace("\n", "|").split("|")), max_size=30)


@fuzzing
@given(suffix=st.sampled_from(SUFFIXES), lines=LINES)
def test_lines_in_any_order(tmp_path, suffix, lines):
    try_to_read(tmp_path, suffix, "\n".join(lines).encode())


# --- closed, inside -------------------------------------------------------------------------------


def test_closed_after_welding():
    """Separate triangles of equal coordinates are closed; one missing opens three edges."""
    soup = Mesh(CUBE[CUBE_TRIANGLES].reshape(-1, 3), np.arange(36, dtype=np.int32).reshape(-1, 3))
    assert soup.is_closed()
    assert len(soup.welded.vertices) == 8
    torn = Mesh(soup.vertices, soup.triangles[1:])
    assert torn.open_edges == 3
    with pytest.raises(MeshError, match=r"3 edges .*Fill Holes"):
        torn.require_closed("a.obj")


def test_minus_zero_is_zero():
    vertices = CUBE[CUBE_TRIANGLES].reshape(-1, 3).copy()
    vertices[::2][vertices[::2] == 0] = -0.0
    assert Mesh(vertices, np.arange(36, dtype=np.int32).reshape(-1, 3)).is_closed()


def random_points(mesh, n, seed=0):
    low, high = mesh.bounds
    margin = 0.1 * (high - low)
    return np.random.default_rng(seed).uniform(low - margin, high + margin, (n, 3))


def test_inside_a_cube_is_exact_to_its_faces():
    points = np.array([[0.5, 0.5, 1e-9], [0.5, 0.5, -1e-9], [0.5, 0.5, 1 - 1e-9], [0.5, 0.5, 1.1]])
    assert contains(cube(), points).tolist() == [True, False, True, False]


@pytest.mark.parametrize("inward", [False, True])
def test_facing_inwards_does_not_matter(inward):
    mesh = cube(inward=inward)
    points = random_points(mesh, 2000)
    inside = ((points > 0) & (points < 1)).all(axis=1)
    assert (contains(mesh, points) == inside).all()


def test_overlapping_parts_are_united():
    mesh = join(cube(), cube(0.5), cube(0.25, 0.5))
    points = random_points(mesh, 5000)
    inside = ((points > 0) & (points < 1)).all(axis=1) | ((points > 0.5) & (points < 1.5)).all(1)
    assert (contains(mesh, points) == inside).all()


def test_an_inner_part_facing_inwards_is_a_hollow():
    mesh = join(cube(), cube(0.25, 0.5, inward=True))
    points = random_points(mesh, 5000)
    hollow = ((points > 0.25) & (points < 0.75)).all(axis=1)
    inside = ((points > 0) & (points < 1)).all(axis=1) & ~hollow
    assert (contains(mesh, points) == inside).all()


def test_flipped_triangles_are_turned():
    """Some triangles facing the wrong way, in two separate parts, do no harm."""
    mesh = join(ball(16), Mesh(ball(16).vertices + np.array([3, 0, 0]), ball(16).triangles))
    flip = np.random.default_rng(3).random(len(mesh.triangles)) < 0.3
    mixed = Mesh(mesh.vertices, np.where(flip[:, None], mesh.triangles[:, ::-1], mesh.triangles))
    assert mixed.volume() < 0.9 * mesh.volume()
    assert mixed.oriented.volume() == pytest.approx(mesh.volume())
    points = random_points(mesh, 5000)
    assert (contains(mixed, points) == contains(mesh, points)).all()


def test_lines_through_vertices_and_edges():
    """Lattices love round numbers: lines exactly through corners, edges and the pole of a ball."""
    mesh = ball(16)
    steps = np.linspace(-1, 1, 41)
    inside = lattice_inside(mesh, steps, steps, steps)
    distance = np.linalg.norm(np.stack(np.meshgrid(steps, steps, steps), axis=-1), axis=-1)
    assert inside[distance < 0.97].all()  # the flat triangles come as close as 0.976
    assert not inside[distance > 1 + 1e-9].any()
    grid = cube()
    x = np.linspace(0, 1, 11)
    assert lattice_inside(grid, x[1:-1], x[1:-1], x[1:-1]).all()


def test_lattice_and_points_agree():
    mesh = ball(12)
    x, y, z = np.linspace(-1, 1.1, 17), np.linspace(-1.2, 1, 19), np.linspace(-1, 1, 23)
    points = np.stack(np.meshgrid(x, y, z, indexing="ij"), axis=-1).reshape(-1, 3)
    assert (lattice_inside(mesh, x, y, z).ravel() == contains(mesh, points)).all()


@pytest.mark.parametrize("name", ["joined_tetrahedra.obj", "nm_closed_cubes.off", "dragon_50k.obj"])
def test_non_manifold_meshes_agree_with_solid_angles(name):
    mesh = read_mesh(shared(name))
    points = random_points(mesh, 60 if len(mesh.triangles) > 1000 else 5000)
    assert (contains(mesh, points) == (np.abs(winding_number(mesh, points)) > 0.5)).all()


def test_lines_on_edges_never_slip_through():
    """However a point on an edge is rounded, one of the two triangles has it, not both or none."""
    tilt = np.linalg.qr(np.random.default_rng(7).normal(size=(3, 3)))[0]
    mesh = Mesh(ball(16).vertices @ tilt.T, ball(16).triangles).welded
    start, end = mesh.vertices[mesh.triangles[:, :2]].transpose(1, 0, 2)
    rng = np.random.default_rng(8)
    for _ in range(5):
        lines = start + rng.uniform(0.05, 0.95, (len(start), 1)) * (end - start)
        lines = lines[np.linalg.norm(lines[:, :2], axis=1) < 0.9]
        lines[:, 2] = 0.0
        winding, total = meshes._count_above(mesh, lines, None)
        assert (np.abs(winding) == 1).all()
        assert not total.any()


def test_doubled_triangles_are_still_solid():
    """All triangles twice wind twice. Where only some are doubled solid angles decide."""
    mesh = cube()
    twice = Mesh(mesh.vertices, np.concatenate([mesh.triangles, mesh.triangles]))
    lid = Mesh(mesh.vertices, np.concatenate([mesh.triangles, mesh.triangles[-1:]]))
    points = random_points(mesh, 3000)
    inside = ((points > 0) & (points < 1)).all(axis=1)
    assert (contains(twice, points) == inside).all()
    assert (contains(lid, points) == inside)[np.abs(points[:, 2] - 1) > 0.01].all()
    across = np.linspace(0.05, 0.95, 7)
    below_and_within = lattice_inside(lid, across, across, np.array([-0.5, 0.5]))
    assert not below_and_within[:, :, 0].any()
    assert below_and_within[:, :, 1].all()


@pytest.mark.parametrize(
    ("name", "volume", "tolerance"),
    [
        ("bunny_closed_3k.off", 0.000753934, 0.01),
        ("spot.obj", 0.718259, 0.01),
        ("torus.stl", 4.91755, 0.01),
        ("dragon_50k.obj", 0.109044, 0.01),
    ],
)
def test_a_filled_lattice_has_the_volume(name, volume, tolerance):
    """K01: the share of a million lattice points inside gives the volume, within seconds."""
    mesh = read_mesh(shared(name))
    low, high = mesh.bounds
    n = 100
    axes = [low[k] + (high[k] - low[k]) * (np.arange(n) + 0.5) / n for k in range(3)]
    start = time.perf_counter()
    share = lattice_inside(mesh, *axes).mean()
    assert time.perf_counter() - start < 10
    assert share * np.prod(high - low) == pytest.approx(volume, rel=tolerance)


def test_open_meshes_have_a_winding_number():
    """Without its lid a cube still has most of its inside."""
    mesh = Mesh(CUBE, CUBE_TRIANGLES[2:])  # x = 0 is open
    points = np.array([[0.9, 0.5, 0.5], [-0.3, 0.5, 0.5], [0.5, 0.5, 2.0]])
    assert contains(mesh, points).tolist() == [True, False, False]


def test_nothing_to_ask():
    assert contains(cube(), np.zeros((0, 3))).shape == (0,)
    empty = np.zeros(0)
    assert lattice_inside(cube(), empty, empty, empty).shape == (0, 0, 0)
    assert lattice_inside(cube(), np.array([0.5]), np.array([0.5]), empty).shape == (1, 1, 0)
