"""Mesh colliders in pictures: solid, see-through, containers as edges, deforming."""

from __future__ import annotations

from typing import Any

import numpy as np

from runnel.preview import PreviewOptions, render_frame
from runnel.preview.solids import TRIANGLE, gather, with_bodies

from .field_meshes import cube, sphere

OPTIONS = PreviewOptions(
    width=96, height=72, quality=2, floor=False, labels=False, shadows=False,
    bounds=((-1.0, -1.0, -1.0), (1.0, 1.0, 1.0)),
)  # fmt: skip
FAR = {"position": np.array([[0.0, 0.0, -0.95]]), "radius": np.array([0.01])}


def scene(mesh: Any = None, deforms: bool = False, **keys: Any) -> Any:
    collider = {"name": "ball", "shape": {"mesh": {"file": "ball.obj"}}, **keys}
    mesh = sphere(0.5, 32) if mesh is None else mesh
    return with_bodies({"collider": [collider]}, {}, {0: (mesh, deforms)})


def shown(picture: np.ndarray, empty: np.ndarray) -> np.ndarray:
    """Pixels (rows, columns) that a thing changed."""
    return np.asarray(abs(picture.astype(int) - empty).max(axis=2) > 12)


def test_a_mesh_covers_what_its_ball_covers() -> None:
    empty = render_frame(FAR, {}, OPTIONS)
    mesh = shown(render_frame(FAR, scene(), OPTIONS), empty)
    ball = {"collider": [{"shape": {"sphere": {"center": [0, 0, 0], "radius": 0.5}}}]}
    true = shown(render_frame(FAR, ball, OPTIONS), empty)
    assert true.sum() > 300
    assert np.count_nonzero(mesh != true) < 0.06 * true.sum()
    # Shaded alike: smooth normals.
    a = render_frame(FAR, scene(), OPTIONS)[mesh & true].astype(int)
    b = render_frame(FAR, ball, OPTIONS)[mesh & true].astype(int)
    assert abs(a - b).mean() < 6


def test_glass_lets_one_see_through() -> None:
    inside = {"position": np.zeros((1, 3)), "radius": np.array([0.3])}
    empty = render_frame(FAR, {}, OPTIONS)
    solid = render_frame(inside, scene(), OPTIONS).astype(int)
    glass = render_frame(inside, scene(), OPTIONS.replace(glass=("ball",))).astype(int)
    plain = render_frame(inside, {}, OPTIONS).astype(int)
    middle = (slice(34, 38), slice(46, 50))
    assert (
        abs(glass[middle] - plain[middle]).mean() < 0.7 * abs(solid[middle] - plain[middle]).mean()
    )
    assert shown(glass, empty).sum() > 300


def test_places_and_modes() -> None:
    ends = (np.full(3, -1.0), np.full(3, 1.0))
    place = {"position": [1, 2, 3], "scale": 2.0}
    moved = gather(scene(**place), 1, ends)
    np.testing.assert_allclose(moved.low[0], [0, 1, 2], atol=0.02)
    assert {int(row[0]) for row in moved.solids} == {TRIANGLE}
    deformed = gather(scene(deforms=True, **place), 1, ends)  # in the world already
    np.testing.assert_allclose(deformed.low[0], [-0.5, -0.5, -0.5], atol=0.02)
    tank = gather(scene(cube((-0.5, -0.5, -0.5)), mode="inside"), 1, ends)
    assert not tank.solids
    assert tank.lines[0].shape == (12, 2, 3)  # not the diagonals


def test_what_a_cache_does_not_hold_is_left_out() -> None:
    collider = {"name": "ball", "shape": {"mesh": {"file": "ball.obj"}}}
    assert not gather({"collider": [collider]}, 1, (np.zeros(3), np.ones(3))).solids
