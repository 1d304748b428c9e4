"""Friction and the like by place: images, point attributes; and settings of packed pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hou
import numpy as np
import pytest
from hou_standin import Geometry, SopNode
from hou_standin.geometry import _PrimData
from PIL import Image
from shots import box, node, upstream, values

from runnel_houdini import sessions


def plate(*, uv: bool = False, moss: bool = False) -> Geometry:
    geo = box((-0.5, -0.2, -0.5), (0.5, 0.0, 0.5))
    place = values(geo, "P")
    if uv:
        geo.addAttrib(hou.attribType.Point, "uv", (0.0, 0.0, 0.0))
        flat = np.column_stack([place[:, 0] + 0.5, place[:, 2] + 0.5, np.zeros(8)])
        geo.setPointFloatAttribValuesFromString("uv", flat.astype(np.float32).tobytes())
    if moss:
        geo.addAttrib(hou.attribType.Point, "moss", 0.0)
        share = (place[:, 0] > 0).astype(np.float32)
        geo.setPointFloatAttribValuesFromString("moss", share.tobytes())
    return geo


def solver(geometry: Geometry, **parms: Any) -> SopNode:
    collider = node("fluid_collider", upstream(geometry), friction=0.8, **parms)
    water = upstream(box((-0.2, 0.0, -0.2), (0.2, 0.2, 0.2)))
    wall = upstream(collider._cook(1))
    assert collider.errors() == ()
    return node("fluid_solver", water, wall, particlesep=0.1)


def test_an_image_comes_along_with_uv(tmp_path: Path) -> None:
    image = tmp_path / "zones.png"
    Image.new("L", (4, 4), 128).save(image)
    made = solver(plate(uv=True), usefrictionmap=1, frictionmap=str(image))
    made._cook(2)
    assert made.errors() == ()
    scene = sessions.of(made).scene
    assert scene is not None
    (collider,) = scene.colliders
    assert collider.friction_map == "collider_1_friction_map.png"
    assert (Path(str(scene.directory)) / collider.friction_map).read_bytes() == image.read_bytes()
    head = scene.mesh_path(collider.shape).read_bytes().split(b"end_header")[0]
    assert b"property float s\nproperty float t\n" in head, "texture coordinates"


def test_a_point_attribute_comes_along() -> None:
    made = solver(plate(moss=True), usestickinessmap=1, stickinessmap="moss", stickiness=1.0)
    made._cook(2)
    assert made.errors() == ()
    scene = sessions.of(made).scene
    assert scene is not None
    assert scene.colliders[0].stickiness_map == "moss"


@pytest.mark.parametrize(
    ("parms", "message"),
    [
        ({"usefrictionmap": 1, "frictionmap": "/nowhere/zones.png"}, "there is no image"),
        ({"usefrictionmap": 1, "frictionmap": "grime"}, "needs the point attribute 'grime'"),
        ({"wetmap": "exr"}, "needs the point attribute 'uv'"),
    ],
)
def test_what_is_missing_is_named(parms: dict[str, Any], message: str) -> None:
    made = solver(plate(), **parms)
    made._cook(1)
    (error,) = made.errors()
    assert message in error
    assert "Traceback" not in error


def test_a_packed_source_with_velocity_is_filled() -> None:
    geo = Geometry()
    geo.createPoints([(0.0, 0.0, 0.0)])
    geo._add_prim(_PrimData(hou.primType.PackedGeometry, [0], content=box((0, 0, 0), (0.4,) * 3)))
    geo.addAttrib(hou.attribType.Point, "v", (1.0, 0.0, 0.0))
    made = node("fluid_solver", upstream(geo), particlesep=0.1)
    start = made._cook(1)
    assert made.errors() == ()
    assert start.pointCount() == 64
