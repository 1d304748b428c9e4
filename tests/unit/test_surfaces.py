"""Friction, bounce and stickiness over a mesh: attributes, images, texture coordinates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import runnel
from runnel.collider_fields import MeshField
from runnel.errors import MeshError, SceneError
from runnel.fields.grid import default_settings
from runnel.fields.rasterize import field_of_mesh
from runnel.fields.surfaces import Texture, field_from, read_attribute, read_uvs, sample_image
from runnel.mesh_formats import obj_uvs
from runnel.meshes import Mesh, read_mesh

from .field_meshes import torus

# A plate of two quads, 2 x 1 m, with uvs; a corner of each kind OBJ knows.
PLATE = """
v 0 0 0\nv 1 0 0\nv 2 0 0\nv 0 1 0\nv 1 1 0\nv 2 1 0
vt 0 0\nvt 0.5 0\nvt 1 0\nvt 0 1\nvt 0.5 1\nvt 1 1
vn 0 0 1
f 1/1/1 2/2/1 5/5/1 4/4/1
f -5/-5 -4/-4 -1/-1 -2/-2
"""


def picture(path: Path, pixels: np.ndarray) -> None:
    image = pytest.importorskip("PIL.Image")
    image.fromarray(pixels).save(path)


def collider(folder: Path, **keys: object) -> runnel.Scene:
    return runnel.Scene.from_dict(
        {
            "fluid": [{"name": "water"}],
            "source": [{"fluid": "water", "spacing": 0.1, "shape": {"box": {
                "min": [0, 0, 1], "max": [1, 1, 2]}}}],
            "collider": [{"name": "plate", "shape": {"mesh": "plate.obj"}, **keys}],
        },
        folder,
    )  # fmt: skip


def test_obj_uvs_follow_the_triangles(tmp_path: Path) -> None:
    (tmp_path / "plate.obj").write_text(PLATE)
    mesh, uvs = read_mesh(tmp_path / "plate.obj"), read_uvs(tmp_path / "plate.obj")
    assert uvs.shape == (4, 3, 2)
    np.testing.assert_allclose(uvs, mesh.vertices[mesh.triangles][..., :2] / [2, 1])


@pytest.mark.parametrize(
    "text",
    [PLATE.replace("vt ", "# "), PLATE.replace("5/5/1", "5//1"), PLATE.replace("-2/-2", "-2")],
)
def test_a_mesh_that_is_not_unwrapped_has_none(text: str, tmp_path: Path) -> None:
    assert obj_uvs(text.encode()) is None
    (tmp_path / "plate.obj").write_text(text)
    with pytest.raises(MeshError, match="no texture coordinates"):
        read_uvs(tmp_path / "plate.obj")


def test_uvs_that_do_not_exist_are_named() -> None:
    with pytest.raises(MeshError, match="does not exist"):
        obj_uvs(PLATE.replace("5/5/1", "5/55/1").encode())


def test_images_are_read_between_pixels_with_v_up() -> None:
    image = np.array([[0, 1], [2, 3]], np.float32)  # the first row is the top one
    uv = np.array([[0.25, 0.75], [0.75, 0.75], [0.25, 0.25], [0.5, 0.5], [1.25, -0.25]])
    np.testing.assert_allclose(sample_image(image, uv), [0, 1, 2, 1.5, 0])


def test_an_attribute_reaches_the_voxels() -> None:
    """A linear function of the place: exact at the surface's nearest point, whatever the mesh."""
    mesh = torus(rows=60, columns=30)
    field = field_of_mesh(mesh, default_settings(0.08))
    values = mesh.vertices @ [0.3, -0.2, 0.5]
    spread = field_from(field, mesh, values)
    near = abs(field.values) < 0.25 * field.voxel
    expected = field.voxel_places()[near] @ [0.3, -0.2, 0.5]
    assert np.abs(spread[near] - expected).max() < 0.62 * 0.26 * field.voxel
    # The same through an image: u follows the large angle, the picture its cosine.
    angle = np.arctan2(mesh.vertices[:, 1], mesh.vertices[:, 0]) / (2 * np.pi)
    uvs = np.zeros((len(mesh.triangles), 3, 2))
    uvs[..., 0] = angle[mesh.triangles]
    seam = np.ptp(uvs[..., 0], axis=1) > 0.5
    uvs[seam, :, 0] %= 1.0
    wave = np.tile(np.cos(2 * np.pi * (np.arange(256) + 0.5) / 256), (4, 1)).astype(np.float32)
    spread = field_from(field, mesh, Texture(wave, uvs))
    places = field.voxel_places()[near]
    cosine = places[:, 0] / np.hypot(places[:, 0], places[:, 1])
    assert np.abs(spread[near] - cosine).max() < 0.02


def test_a_map_scales_what_the_collider_says(tmp_path: Path) -> None:
    (tmp_path / "plate.obj").write_text(PLATE)
    pixels = np.zeros((4, 64), np.uint8)
    pixels[:, 32:] = 255
    picture(tmp_path / "zones.png", pixels)
    scene = collider(tmp_path, mode="shell", friction=0.8, friction_map="zones.png", bounce=0.3)
    part = scene.colliders[0]
    field = MeshField(scene, part, part.shape, "collider[0]").at(0.0)[0]
    assert field.surface is not None
    known = field.index >= 0
    x = field.voxel_places()[..., 0]
    left, right = known & (x < 0.9), known & (x > 1.1) & (x < 1.9)
    assert (field.surface[left] == [0, np.float32(0.3), 0]).all()
    assert (field.surface[right] == np.float32([0.8, 0.3, 0])).all()


@pytest.mark.parametrize("given", ["zones.png", "rough"])
@pytest.mark.parametrize("name", ["friction", "bounce", "stickiness"])
def test_each_follows_an_image_or_an_attribute(name: str, given: str, tmp_path: Path) -> None:
    """From 0 at one end of a plate to the collider's value at the other; the others stay."""
    picture(tmp_path / "zones.png", np.tile(np.arange(256, dtype=np.uint8), (2, 1)))
    (tmp_path / "plate.ply").write_text(
        "ply\nformat ascii 1.0\nelement vertex 4\nproperty float x\nproperty float y\n"
        "property float z\nproperty float s\nproperty float t\nproperty float rough\n"
        "element face 1\nproperty list uchar int vertex_indices\nend_header\n"
        "0 0 0 0 0 0\n2 0 0 1 0 1\n2 1 0 1 1 1\n0 1 0 0 1 0\n4 0 1 2 3\n"
    )
    keys = {"friction": 0.8, "bounce": 0.6, "stickiness": 0.4}
    scene = collider(
        tmp_path, shape={"mesh": "plate.ply"}, mode="shell", **keys, **{f"{name}_map": given}
    )
    part = scene.colliders[0]
    field = MeshField(scene, part, part.shape, "collider[0]").at(0.0)[0]
    assert field.surface is not None
    known = field.index >= 0
    along = np.clip(field.voxel_places()[known][:, 0] / 2, 0, 1)
    for k, (key, value) in enumerate(keys.items()):
        expected = value * along if key == name else value
        assert np.abs(field.surface[known][:, k] - expected).max() < 0.01 * value


def test_wrong_maps_are_named(tmp_path: Path) -> None:
    (tmp_path / "plate.obj").write_text(PLATE)
    (tmp_path / "broken.png").write_bytes(b"no image")
    with pytest.raises(SceneError, match=r"collider\[0\].friction_map.*set friction too"):
        collider(tmp_path, friction_map="zones.png")
    with pytest.raises(SceneError, match="there is no file"):
        collider(tmp_path, friction=1.0, friction_map="zones.png")
    with pytest.raises(SceneError, match="outside of the scene's folder"):
        collider(tmp_path, friction=1.0, friction_map="../zones.png")
    with pytest.raises(SceneError, match="belongs to meshes"):
        collider(tmp_path, friction=1.0, friction_map="a.png", shape={
            "sphere": {"center": [0, 0, 0], "radius": 1}})  # fmt: skip
    with pytest.raises(SceneError, match="needs wet_map"):
        collider(tmp_path, wet_friction=1.0)
    for name, message in (("broken.png", "as an image"), ("rough", "no vertex attribute")):
        scene = collider(tmp_path, mode="shell", friction=1.0, friction_map=name)
        with pytest.raises(SceneError, match=rf"collider\[0\].friction_map.*{message}"):
            runnel.Simulation(scene)


def test_attributes_of_ply_files(tmp_path: Path) -> None:
    path = tmp_path / "plate.ply"
    path.write_text(
        "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\n"
        "property float z\nproperty float s\nproperty float t\nproperty float rough\n"
        "element face 1\nproperty list uchar int vertex_indices\nend_header\n"
        "0 0 0 0 0 0.5\n1 0 0 1 0 0.25\n0 1 0 0 1 0.125\n3 0 1 2\n"
    )
    np.testing.assert_allclose(read_attribute(path, "rough"), [0.5, 0.25, 0.125])
    np.testing.assert_allclose(read_uvs(path), [[[0, 0], [1, 0], [0, 1]]])
    with pytest.raises(SceneError, match="It has: x, y, z, s, t, rough"):
        read_attribute(path, "rougher")


def test_values_of_another_mesh_are_refused() -> None:
    mesh = torus(rows=20, columns=10)
    field = field_of_mesh(mesh, default_settings(0.2))
    other = Mesh(mesh.vertices, mesh.triangles[:7])
    with pytest.raises(runnel.RunnelError, match="values of 400 triangles"):
        field_from(field, other, Texture(np.ones((2, 2), np.float32), np.zeros((400, 3, 2))))
