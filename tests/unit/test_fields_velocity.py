"""Velocities and attributes per voxel."""

from __future__ import annotations

import numpy as np
import pytest

from runnel.errors import RunnelError
from runnel.fields.flow import flow_of_points
from runnel.fields.grid import default_settings
from runnel.fields.rasterize import field_of_mesh
from runnel.fields.velocity import attribute_field, deform, moved, with_velocity
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
    assert abs(still.velocity).max() < 0.05  # 3 mm in 0.1 s, by which facets differ
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


# --- distances alone ------------------------------------------------------------------------------


def turned(mesh: Mesh, angle: float, shift: np.ndarray) -> Mesh:
    """About the direction of OMEGA."""
    axis = OMEGA / np.linalg.norm(OMEGA)
    v = mesh.vertices
    along = (v @ axis)[:, None] * axis
    turn = along + np.cos(angle) * (v - along) + np.sin(angle) * np.cross(axis, v)
    return Mesh(turn + shift, mesh.triangles)


def test_a_turning_block_is_known_by_its_distances() -> None:
    """Also along its faces; triangles may be others in each frame."""
    dt, shift = 0.02, np.array([0.03, 0.0, -0.02])
    mesh = made.cube((-1.0, -0.6, -0.4), (2.0, 1.2, 0.8))
    after = turned(mesh, np.linalg.norm(OMEGA) * dt, shift)
    settings = default_settings(2.8 / 48, name="block")
    field = moved(field_of_mesh(mesh, settings), field_of_mesh(after, settings), dt)
    rng = np.random.default_rng(2)
    corner = after.vertices[after.triangles[rng.integers(len(after.triangles), size=500)]]
    weights = rng.dirichlet([4, 4, 4], 500)
    points = (corner * weights[..., None]).sum(axis=1)
    expected = np.cross(OMEGA, points - shift / 2) + shift / dt
    fastest = np.linalg.norm(expected, axis=1).max()
    error = np.linalg.norm(field.velocity_at(points) - expected, axis=1)
    assert np.quantile(error, 0.95) < 0.05 * fastest
    assert error.max() < 0.15 * fastest
    other = Mesh(after.vertices, after.triangles[::-1].copy())
    again = deform(mesh, other, dt, settings)
    np.testing.assert_allclose(again.velocity_at(points), field.velocity_at(points), atol=1e-6)


def test_parts_that_go_apart_move_along_their_normals_only() -> None:
    """No one motion explains both: what they do along themselves is not made up."""
    settings = default_settings(2.8 / 48, name="pair")
    fields = []
    for gap in (0.0, 0.02):
        one, two = (made.cube((x - 0.4, -0.4, -0.4), 0.8) for x in (-1 - gap, 1))
        both = Mesh(
            np.concatenate([one.vertices, two.vertices + np.array([0, gap, 0])]),
            np.concatenate([one.triangles, two.triangles + len(one.vertices)]),
        )
        fields.append(field_of_mesh(both, settings))
    field = moved(*fields, 0.02)
    left, top = field.velocity_at([[-1.42, 0.1, 0.1], [-1.0, 0.4, 0.1]])
    np.testing.assert_allclose(left, [-1, 0, 0], atol=0.05)
    np.testing.assert_allclose(top, 0, atol=0.05)


def test_velocities_that_are_given_count_along_the_surface() -> None:
    """A ball that spins does not show it; across the surface its distances are believed."""
    settings = default_settings(2.2 / 48, name="ball")
    ball = field_of_mesh(made.sphere(rows=64), settings)
    nodes = np.stack(np.meshgrid(*(np.arange(-1.5, 1.51, 0.1),) * 3), axis=-1).reshape(-1, 3)
    flow = flow_of_points(nodes, np.cross(OMEGA, nodes) + nodes, 0.1)
    rng = np.random.default_rng(3)
    points = rng.normal(size=(300, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    assert abs(moved(ball, ball, 0.1).velocity_at(points)).max() < 1e-6
    found = moved(ball, ball, 0.1, flow).velocity_at(points)
    np.testing.assert_allclose(found, np.cross(OMEGA, points), atol=0.05)
