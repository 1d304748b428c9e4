"""Velocities and attributes per voxel."""

from __future__ import annotations

import numpy as np
import pytest

from runnel.errors import RunnelError
from runnel.fields.grid import default_settings
from runnel.fields.rasterize import field_of_mesh
from runnel.fields.velocity import attribute_field, deform, with_velocity
from runnel.meshes import Mesh

from . import field_meshes as made

OMEGA = np.array([0.3, -0.5, 2.0])  # rad/s
SETTINGS = default_settings(2.8 / 48, name="ring")


def test_velocity_of_a_rotating_body_within_one_percent() -> None:
    """ORACLES 27: omega x r at the nearest point of the surface."""
    mesh = made.torus()
    velocities = np.cross(OMEGA, mesh.vertices)
    field = with_velocity(field_of_mesh(mesh, SETTINGS), mesh, velocities)
    assert field.velocity is not None
    assert field.velocity.shape == (field.leaves, 729, 3)
    fastest = np.linalg.norm(velocities, axis=1).max()
    rng = np.random.default_rng(1)
    a, b = rng.uniform(0, 2 * np.pi, (2, 5000))
    spoke = np.stack([np.cos(a), np.sin(a), np.zeros_like(a)], axis=1)
    away = np.cos(b)[:, None] * spoke + np.sin(b)[:, None] * [0, 0, 1]
    surface = spoke + 0.4 * away
    for off in (-1.5, 0.0, 1.5):
        found = field.velocity_at(surface + off * field.voxel * away)
        error = np.linalg.norm(found - np.cross(OMEGA, surface), axis=1)
        assert error.max() < 0.01 * fastest
    assert not field.velocity_at([[50.0, 0, 0]]).any()


def test_deforming_mesh_moves_by_differences() -> None:
    before = made.sphere(rows=64)
    dt = 1 / 24
    now = Mesh(before.vertices * [1.0, 1.0, 1.1], before.triangles)
    field = deform(before, now, dt, default_settings(2.2 / 48))
    top = field.velocity_at([[0, 0, 1.1]])[0]
    assert top == pytest.approx([0, 0, 0.1 / dt], abs=0.02 / dt)
    assert not field.notes


def test_changed_triangles_keep_what_is_near_and_say_so() -> None:
    before, now = made.torus(rows=60, columns=30), made.torus(rows=64, columns=30)
    settings = default_settings(2.8 / 48, name="ring")
    still = deform(before, now, 0.1, settings)
    assert not still.velocity.any()
    assert "triangles changed between frames" in still.notes[0]
    known = with_velocity(field_of_mesh(before, settings), before, np.cross(OMEGA, before.vertices))
    field = deform(before, now, 0.1, settings, known)
    points = now.vertices[::7]
    np.testing.assert_allclose(field.velocity_at(points), np.cross(OMEGA, points), atol=0.1)
    with pytest.raises(RunnelError, match="dt is 0"):
        deform(before, now, 0.0, settings)


def test_any_attribute_of_vertices_becomes_a_channel() -> None:
    """Row G03; linear along the surface, so exact at voxels."""
    mesh = made.cube()
    field = field_of_mesh(mesh, default_settings(1 / 24))
    friction = attribute_field(field, mesh, mesh.vertices[:, 0])
    assert friction.shape == (field.leaves, 729, 1)
    expected = np.clip(field.voxel_places()[..., 0], 0, 1)
    top = (field.voxel_places()[..., 2] > 1) & (field.index >= 0)
    np.testing.assert_allclose(friction[..., 0][top], expected[top], atol=1e-5)
    with pytest.raises(RunnelError, match="one for each vertex"):
        attribute_field(field, mesh, np.zeros(5))
