"""Surfaces go along with the particles into USD and bgeo files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from runnel.errors import MeshError, RunnelError
from runnel.export import ExportOptions, export_frames
from runnel.export.bgeo_read import read_bgeo
from runnel.export.surfaces import read_surface
from runnel.surface import Mesh, write_mesh

from .export_caches import filled


def tetrahedron(offset: float = 0.0) -> Mesh:
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32) + offset
    faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], np.int32)
    values = {
        "normal": np.eye(4, 3, dtype=np.float32),
        "velocity": np.arange(12, dtype=np.float32).reshape(4, 3),
        "density": np.arange(4, dtype=np.float32),
        "uv": np.arange(8, dtype=np.float32).reshape(4, 2),
    }
    return Mesh(corners.astype(np.float32), faces, values)


def with_surfaces(folder: Path) -> Path:
    """Two surfaces in frame 1, one in frame 2, none in frame 3."""
    filled(folder)
    write_mesh(folder / "mesh/surface_000001.ply", tetrahedron())
    write_mesh(folder / "mesh/surface_000002.ply", tetrahedron(1.0))
    write_mesh(folder / "mesh/surface_000001.obj", tetrahedron(9.0))
    write_mesh(folder / "mesh/surface_palm_oil_000001.obj", tetrahedron(2.0))
    return folder


def test_surfaces_are_read_with_what_they_carry(tmp_path: Path) -> None:
    write_mesh(tmp_path / "a.ply", tetrahedron())
    mesh = read_surface(tmp_path / "a.ply")
    np.testing.assert_array_equal(mesh.vertices, tetrahedron().vertices)
    np.testing.assert_array_equal(mesh.triangles, tetrahedron().triangles)
    assert mesh.attributes.keys() == tetrahedron().attributes.keys()
    for name, values in tetrahedron().attributes.items():
        np.testing.assert_array_equal(mesh.attributes[name], values)


def test_a_surface_without_triangles(tmp_path: Path) -> None:
    empty = Mesh(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.int32))
    write_mesh(tmp_path / "a.ply", empty)
    assert len(read_surface(tmp_path / "a.ply").triangles) == 0


def test_a_bad_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.ply").write_bytes(b"ply\nformat binary_little_endian 1.0\n")
    with pytest.raises(MeshError, match=r"a\.ply"):
        read_surface(tmp_path / "a.ply")


def test_missing_surfaces_name_the_command(tmp_path: Path) -> None:
    with pytest.raises(RunnelError, match="runnel mesh"):
        export_frames(with_surfaces(tmp_path), ExportOptions(format="bgeo", surface=True), [3])


def test_bgeo_surfaces_are_files_of_their_own(tmp_path: Path) -> None:
    options = ExportOptions(format="bgeo", surface=True, up="y", scale=10.0)
    files = export_frames(with_surfaces(tmp_path), options, [1])
    names = ["particles.0001.bgeo", "surface.0001.bgeo", "surface_palm_oil.0001.bgeo"]
    assert [path.name for path in files] == names
    geometry = read_bgeo(files[1])
    x, y, z = tetrahedron().vertices.T
    np.testing.assert_array_equal(geometry.points["P"], 10 * np.stack([x, z, -y], 1))
    vx, vy, vz = tetrahedron().attributes["velocity"].T
    np.testing.assert_array_equal(geometry.points["v"], 10 * np.stack([vx, vz, -vy], 1))
    nx, ny, nz = tetrahedron().attributes["normal"].T
    np.testing.assert_array_equal(geometry.points["N"], np.stack([nx, nz, -ny], 1))
    assert geometry.polygon(0).tolist() == [1, 2, 0]
    assert geometry.sizes.tolist() == [3] * 4


def test_usd_surfaces_are_meshes_beside_the_points(tmp_path: Path) -> None:
    pytest.importorskip("pxr", reason="usd-core is not installed (pip install runnel[usd])")
    from pxr import Usd, UsdGeom

    from .test_export_usd import complaints

    options = ExportOptions(format="usd", surface=True)
    files = export_frames(with_surfaces(tmp_path), options, [1, 2])
    assert [text for path in files for text in complaints(path)] == []
    stage = Usd.Stage.Open(str(files[-1]))
    mesh = UsdGeom.Mesh(stage.GetPrimAtPath("/fluid/surface"))
    for frame in (1, 2):
        wanted = tetrahedron(frame - 1.0)
        np.testing.assert_array_equal(mesh.GetPointsAttr().Get(frame), wanted.vertices)
        indices = np.array(mesh.GetFaceVertexIndicesAttr().Get(frame)).reshape(-1, 3)
        np.testing.assert_array_equal(indices, wanted.triangles)
        speeds = mesh.GetVelocitiesAttr().Get(frame)
        np.testing.assert_array_equal(speeds, wanted.attributes["velocity"])
    assert mesh.GetSubdivisionSchemeAttr().Get() == "none"
    oil = UsdGeom.Mesh(stage.GetPrimAtPath("/fluid/surface_palm_oil"))
    assert len(oil.GetPointsAttr().Get(1)) == 4
