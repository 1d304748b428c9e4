"""Surfaces go along with the particles into USD and bgeo files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runnel.cache import Cache
from runnel.errors import MeshError, RunnelError
from runnel.export import ExportOptions, export_frames
from runnel.export.bgeo_read import read_bgeo
from runnel.export.surfaces import read_surface
from runnel.surface import Mesh, SurfaceOptions, mesh_frames, write_mesh

from .export_caches import channels, filled

needs_usd = pytest.mark.skipif(
    find_spec("pxr") is None, reason="usd-core is not installed (pip install runnel[usd])"
)
needs_blender = pytest.mark.skipif(
    find_spec("bpy") is None, reason="bpy is not installed (runnel[vdb] brings it)"
)


def tetrahedron(offset: float = 0.0) -> Mesh:
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32) + offset
    faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], np.int32)
    values = {
        "normal": np.eye(4, 3, dtype=np.float32),
        "velocity": np.arange(12, dtype=np.float32).reshape(4, 3),
        "density": np.arange(4, dtype=np.float32),
        "uv": np.arange(8, dtype=np.float32).reshape(4, 2),
        "color": np.arange(0, 240, 20).reshape(4, 3).astype(np.float32) / np.float32(255),
    }
    return Mesh(corners.astype(np.float32), faces, values)


def octahedron() -> Mesh:
    """More vertices and faces than the other."""
    corners = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]])
    faces = [[x, y, z] if (x + y + z) % 2 == 0 else [y, x, z]
             for x in (0, 1) for y in (2, 3) for z in (4, 5)]  # fmt: skip
    speeds = corners.astype(np.float32) + 3
    return Mesh(corners.astype(np.float32), np.array(faces, np.int32), {"velocity": speeds})


def turned(vectors: np.ndarray, up: str) -> np.ndarray:
    """From z up to an axis of the files."""
    x, y, z = vectors.T
    return np.stack([x, z, -y] if up == "y" else [x, y, z], axis=1)


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


OLD = """ply
format ascii 1.0
element vertex 3
property float x
property float y
property float z
property float {}
property float {}
property float {}
element face 1
property list uchar int vertex_indices
end_header
0 0 0 0.1 0.2 0.3
1 0 0 1.1 1.2 1.3
0 1 0 2.1 2.2 2.3
3 0 1 2
"""


def test_colours_of_older_files_and_channels_called_red(tmp_path: Path) -> None:
    """Once colours were color_0 to color_2; fractions called red are a channel, no colour."""
    path = tmp_path / "a.ply"
    path.write_text(OLD.format("color_0", "color_1", "color_2"))
    wanted = np.array([[0.1, 0.2, 0.3], [1.1, 1.2, 1.3], [2.1, 2.2, 2.3]], np.float32)
    np.testing.assert_array_equal(read_surface(path).attributes["color"], wanted)
    path.write_text(OLD.format("red", "green", "blue"))
    found = read_surface(path).attributes
    assert list(found) == ["red", "green", "blue"]
    np.testing.assert_array_equal(np.stack(list(found.values()), 1), wanted)


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


@pytest.mark.parametrize("kind", ["ply", "obj"])
def test_surfaces_of_an_earlier_simulation_are_refused(tmp_path: Path, kind: str) -> None:
    """A frame is simulated anew; its old surface must not pass for one of it."""
    cache = Cache.open(filled(tmp_path / "cache", range(1, 3)))
    mesh_frames(cache.directory, options=SurfaceOptions(format=kind))
    wanted = ExportOptions(format="bgeo", surface=True)
    export_frames(cache.directory, wanted, out=tmp_path / "out")
    cache.write(2, channels(7))
    export_frames(cache.directory, wanted, [1], out=tmp_path / "out")
    with pytest.raises(RunnelError, match=rf"surface_000002\.{kind}: is of another simulation"):
        export_frames(cache.directory, wanted, out=tmp_path / "out")
    mesh_frames(cache.directory, options=SurfaceOptions(format=kind))
    export_frames(cache.directory, wanted, out=tmp_path / "out")


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
    for name, channel in (("uv", "uv"), ("Cd", "color"), ("density", "density")):
        np.testing.assert_array_equal(geometry.points[name], tetrahedron().attributes[channel])
    assert geometry.points.keys() == {"P", "v", "N", "uv", "Cd", "density"}
    assert geometry.polygon(0).tolist() == [1, 2, 0]
    assert geometry.sizes.tolist() == [3] * 4


@needs_usd
def test_usd_surfaces_are_meshes_beside_the_points(tmp_path: Path) -> None:
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
        assert list(mesh.GetFaceVertexCountsAttr().Get(frame)) == [3] * 4
    assert mesh.GetSubdivisionSchemeAttr().Get() == "none"
    oil = UsdGeom.Mesh(stage.GetPrimAtPath("/fluid/surface_palm_oil"))
    assert len(oil.GetPointsAttr().Get(1)) == 4


@needs_usd
@pytest.mark.parametrize(("up", "scale"), [("z", 1.0), ("y", 10.0)])
@pytest.mark.parametrize("alone", [False, True])
def test_usd_surfaces_carry_every_channel(
    tmp_path: Path, up: str, scale: float, alone: bool
) -> None:
    """Normals, velocities and primvars, through the master and from the frame's own file."""
    from pxr import Usd, UsdGeom

    options = ExportOptions(format="usd", surface=True, up=up, scale=scale)
    files = export_frames(with_surfaces(tmp_path), options, [1, 2])
    stage = Usd.Stage.Open(str(files[1] if alone else files[-1]))
    prim = stage.GetPrimAtPath("/fluid/surface")
    mesh, was = UsdGeom.Mesh(prim), tetrahedron().attributes
    assert mesh.GetNormalsInterpolation() == "vertex"
    np.testing.assert_array_equal(mesh.GetNormalsAttr().Get(2), turned(was["normal"], up))
    speeds = scale * turned(was["velocity"], up)
    np.testing.assert_array_equal(mesh.GetVelocitiesAttr().Get(2), speeds)
    primvars = UsdGeom.PrimvarsAPI(prim)
    known = {
        "st": ("uv", "texCoord2f[]"),
        "displayColor": ("color", "color3f[]"),
        "density": ("density", "float[]"),
    }
    assert {item.GetPrimvarName() for item in primvars.GetPrimvarsWithValues()} == set(known)
    for name, (channel, kind) in known.items():
        primvar = primvars.GetPrimvar(name)
        assert (primvar.GetInterpolation(), str(primvar.GetTypeName())) == ("vertex", kind)
        np.testing.assert_array_equal(primvar.Get(2), was[channel])


@needs_usd
def test_usd_surfaces_of_like_names_are_two(tmp_path: Path) -> None:
    """USD knows no dash; a frame that has one of them only has it where it was."""
    from pxr import Usd, UsdGeom

    filled(tmp_path)
    for frame in (1, 2):
        write_mesh(tmp_path / f"mesh/surface_a_b_{frame:06d}.ply", tetrahedron(frame))
    write_mesh(tmp_path / "mesh/surface_a-b_000001.ply", octahedron())
    options = ExportOptions(format="usd", surface=True)
    stage = Usd.Stage.Open(str(export_frames(tmp_path, options, [1, 2])[-1]))
    found = {
        name: UsdGeom.Mesh(stage.GetPrimAtPath(f"/fluid/{name}")).GetPointsAttr()
        for name in ("surface_a_b", "surface_a_b_")
    }
    np.testing.assert_array_equal(found["surface_a_b"].Get(1), octahedron().vertices)
    for frame in (1, 2):
        np.testing.assert_array_equal(found["surface_a_b_"].Get(frame), tetrahedron(frame).vertices)


# ---- Blender


START = """
import bpy, json, os, sys
def tell(found):
    print("found", json.dumps(found))
    sys.stdout.flush()
    os._exit(0)
bpy.ops.wm.read_factory_settings(use_empty=True)
"""

USD_FRAMES = """
assert bpy.ops.wm.usd_import(filepath=sys.argv[1]) == {"FINISHED"}
found = {}
for frame in (1, 2, 3, 1):
    bpy.context.scene.frame_set(frame)
    shown = bpy.data.objects["surface"].evaluated_get(bpy.context.evaluated_depsgraph_get())
    speeds = shown.data.attributes["velocity"].data
    found.setdefault(frame, []).append({
        "vertices": [list(shown.matrix_world @ v.co) for v in shown.data.vertices],
        "faces": [list(p.vertices) for p in shown.data.polygons],
        "velocities": [list(v.vector) for v in speeds],
    })
tell(found)
"""

PLY_COLORS = """
assert bpy.ops.wm.ply_import(filepath=sys.argv[1], import_colors="LINEAR") == {"FINISHED"}
data = bpy.context.object.data
colors = [list(item.color) for item in data.color_attributes[0].data]
tell({"vertices": [list(v.co) for v in data.vertices], "colors": colors})
"""


def in_blender(script: str, file: Path, folder: Path) -> Any:
    """What a script tells in a Blender of its own."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", START + script, str(file)],
        env={**environment, "BLENDER_USER_RESOURCES": str(folder / "blender")},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("found ")]
    assert len(lines) == 1, done.stdout + done.stderr
    return json.loads(lines[0].removeprefix("found "))


@needs_usd
@needs_blender
def test_blender_follows_surfaces_whose_topology_changes(tmp_path: Path) -> None:
    """Other vertices and faces in each frame, also when going back."""
    filled(tmp_path)
    shapes = {1: tetrahedron(), 2: octahedron(), 3: tetrahedron(2.0)}
    for frame, mesh in shapes.items():
        write_mesh(tmp_path / f"mesh/surface_{frame:06d}.ply", mesh)
    master = export_frames(tmp_path, ExportOptions(format="usd", surface=True))[-1]
    found = in_blender(USD_FRAMES, master, tmp_path)
    assert [len(found[frame]) for frame in "123"] == [2, 1, 1]
    for frame, mesh in shapes.items():
        for shown in found[str(frame)]:
            np.testing.assert_allclose(shown["vertices"], mesh.vertices, atol=1e-6)
            assert shown["faces"] == mesh.triangles.tolist()
            np.testing.assert_allclose(shown["velocities"], mesh.attributes["velocity"], atol=1e-6)


@needs_blender
def test_blender_reads_the_colours_of_ply(tmp_path: Path) -> None:
    write_mesh(tmp_path / "a.ply", tetrahedron())
    found = in_blender(PLY_COLORS, tmp_path / "a.ply", tmp_path)
    order = [
        np.abs(tetrahedron().vertices - place).sum(axis=1).argmin() for place in found["vertices"]
    ]
    wanted = tetrahedron().attributes["color"][order]
    np.testing.assert_allclose(np.array(found["colors"])[:, :3], wanted, atol=1 / 255)
