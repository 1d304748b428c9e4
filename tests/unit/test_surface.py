"""Surfaces: closed, of the right volume, and readable by others."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from runnel.cache import Cache
from runnel.errors import RunnelError, SceneError
from runnel.surface import (
    Mesh,
    SurfaceOptions,
    mesh_frames,
    reconstruct,
    surface,
    surface_of,
    write_mesh,
)

SCENE = {"name": "mesh", "fluid": [{"name": "water"}, {"name": "oil"}]}
TETRAHEDRON = Mesh(
    np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32),
    np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], np.int32),
    {"normal": np.eye(4, 3, dtype=np.float32), "velocity": np.ones((4, 3), np.float32)},
)


def block(spacing, size=0.4, offset=0.0, jitter=0.0):
    axis = np.arange(spacing / 2, size, spacing)
    points = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)
    points = points + np.random.default_rng(0).normal(0, jitter * spacing, points.shape)
    count = len(points)
    return {
        "position": (points + np.array([offset, 0, 0])).astype(np.float32),
        "radius": np.full(count, spacing / 2, np.float32),
        "velocity": np.tile(np.float32([1, 2, 3]), (count, 1)),
        "density": np.full(count, 1000, np.float32),
        "phase": np.zeros(count, np.uint32),
    }


def together(*parts):
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def read_ply(path):
    """Independent of the writer: vertices as a structured array, faces (m, 3)."""
    raw = path.read_bytes()
    head, body = raw.split(b"end_header\n", 1)
    lines = head.decode().splitlines()
    assert lines[:2] == ["ply", "format binary_little_endian 1.0"]
    counts = [int(line.split()[2]) for line in lines if line.startswith("element")]
    names = [line.split()[2] for line in lines if line.startswith("property float")]
    vertices = np.frombuffer(body, [(name, "<f4") for name in names], counts[0])
    faces = np.frombuffer(body[vertices.nbytes :], [("n", "u1"), ("i", "<i4", 3)], counts[1])
    assert len(body) == vertices.nbytes + faces.nbytes
    assert (faces["n"] == 3).all()
    return vertices, faces["i"]


def read_obj(path):
    rows = [line.split() for line in path.read_text().splitlines()]
    vertices = np.array([row[1:] for row in rows if row[0] == "v"], float).reshape(-1, 3)
    faces = [[int(word.split("/")[0]) - 1 for word in row[1:]] for row in rows if row[0] == "f"]
    return vertices, np.array(faces).reshape(-1, 3)


# ---- files


def test_volume_of_a_tetrahedron():
    assert TETRAHEDRON.volume == pytest.approx(1 / 6)


def test_ply_holds_vertices_faces_and_attributes(tmp_path):
    write_mesh(tmp_path / "t.ply", TETRAHEDRON)
    vertices, faces = read_ply(tmp_path / "t.ply")
    assert np.array_equal(np.stack([vertices[n] for n in "xyz"], 1), TETRAHEDRON.vertices)
    assert np.array_equal(faces, TETRAHEDRON.triangles)
    assert (vertices["vy"] == 1).all()
    assert vertices["nx"][0] == 1


def test_obj_holds_vertices_and_faces(tmp_path):
    write_mesh(tmp_path / "t.obj", TETRAHEDRON)
    vertices, faces = read_obj(tmp_path / "t.obj")
    assert np.allclose(vertices, TETRAHEDRON.vertices)
    assert np.array_equal(faces, TETRAHEDRON.triangles)


def test_failing_write_leaves_the_old_file(tmp_path, monkeypatch):
    import runnel.cache.files as files

    path = tmp_path / "t.ply"
    path.write_bytes(b"old")

    def refuse(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "replace", refuse)
    with pytest.raises(RunnelError, match="No space left"):
        write_mesh(path, TETRAHEDRON)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["t.ply"]


def test_missing_library_names_the_command(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pysplashsurf", None)
    Cache.create(tmp_path, SCENE).write(1, block(0.05))
    with pytest.raises(RunnelError, match=r"pip install 'runnel\[mesh\]'"):
        surface(tmp_path, 1)


@pytest.mark.parametrize("changes", [{"cube_size": 0}, {"threshold": 2}, {"format": "stl"}])
def test_wrong_options_name_the_key(changes):
    with pytest.raises(SceneError, match=f"mesh.{next(iter(changes))}"):
        SurfaceOptions(**changes)


# ---- reconstruction


@pytest.fixture(scope="module")
def splashsurf():
    return pytest.importorskip("pysplashsurf")


@pytest.mark.usefixtures("splashsurf")
@pytest.mark.parametrize("jitter", [0.0, 0.1])
def test_surface_encloses_the_fluids_volume(jitter):
    """A block of 4096 particles, within 2 %; closed: every edge belongs to two triangles."""
    arrays = block(0.025, jitter=jitter)
    mesh = surface_of(arrays)
    assert mesh.volume == pytest.approx(0.4**3, rel=0.02)
    edges = np.sort(mesh.triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    assert (np.unique(edges, axis=0, return_counts=True)[1] == 2).all()
    lengths = np.linalg.norm(mesh.attributes["normal"], axis=1)
    assert np.allclose(lengths, 1, atol=1e-3)
    assert np.allclose(mesh.attributes["velocity"], [1, 2, 3], rtol=1e-3)


@pytest.mark.usefixtures("splashsurf")
def test_radii_may_differ():
    """Coarse and fine blocks apart; each keeps its volume."""
    mesh = surface_of(together(block(0.025), block(0.05, offset=1.0)))
    assert mesh.volume == pytest.approx(2 * 0.4**3, rel=0.04)
    assert mesh.vertices[:, 0].max() > 1.3


@pytest.mark.usefixtures("splashsurf")
def test_frames_are_written_together_or_by_fluid(tmp_path):
    cache = Cache.create(tmp_path, SCENE)
    two = together(block(0.05), block(0.05, offset=1.0))
    two["phase"][two["position"][:, 0] > 0.7] = 1
    cache.write(1, two)
    cache.write(2, {name: values[:0] for name, values in two.items()})
    calls = []
    files = mesh_frames(tmp_path, on_frame=lambda *n: calls.append(n))
    assert [path.name for path in files] == ["surface_000001.ply", "surface_000002.ply"]
    assert calls == [(1, 2), (2, 2)]
    vertices, faces = read_ply(files[0])
    assert len(faces) > 1000
    assert {"nx", "vx", "density"} <= set(vertices.dtype.names)
    assert [len(part) for part in read_ply(files[1])] == [0, 0]
    options = SurfaceOptions(each_fluid=True, format="obj")
    files = surface(tmp_path, 1, tmp_path / "out", options)
    assert [path.name for path in files] == ["surface_water_000001.obj", "surface_oil_000001.obj"]
    water, oil = (read_obj(path)[0] for path in files)
    assert water[:, 0].max() < 0.7 < oil[:, 0].min()


@pytest.mark.usefixtures("splashsurf")
def test_what_cannot_be_meshed_is_explained(tmp_path):
    arrays = block(0.05)
    arrays["position"][5, 2] = np.nan
    with pytest.raises(RunnelError, match="Particle 5"):
        surface_of(arrays)
    Cache.create(tmp_path / "a", {**SCENE, "dimensions": 2}).write(1, block(0.05))
    with pytest.raises(RunnelError, match="2D"):
        surface(tmp_path / "a", 1)
    Cache.create(tmp_path / "b", SCENE).write(1, block(0.05))
    with pytest.raises(RunnelError, match="'heat'"):
        surface(tmp_path / "b", 1, options=SurfaceOptions(channels=("heat",)))
    with pytest.raises(RunnelError, match="frame 7"):
        surface(tmp_path / "b", 7)


@pytest.mark.usefixtures("splashsurf")
def test_no_particles_no_triangles():
    mesh = reconstruct(np.empty((0, 3)), 0.1)
    assert mesh.volume == 0
    assert len(mesh.triangles) == 0
