"""Fields on the device against their sampling on the host: distance, normal, velocity, bounds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from runnel import kernels
from runnel.backends.base import FIELD
from runnel.backends.reference.field import world_of
from runnel.backends.reference.solids import signed_distances, surface, velocities
from runnel.fields.grid import SparseField, default_settings
from runnel.fields.packed import far_table
from runnel.fields.rasterize import field_of_mesh
from runnel.fields.velocity import deform
from runnel.meshes import Mesh, read_mesh
from tests.unit.field_meshes import cube, sphere
from tests.unit.reference_setup import make_model, random_rotation, solid

MESHES = Path(__file__).resolve().parents[3] / "shared" / "validation" / "meshes"
PROBE = """
__kernel void probe(
    __global const float *solids, __global const float4 *x_in, __global float4 *out,
    const uint count)
{
    const uint first = get_global_id(0) * CLUSTER;
    for (uint i = first; i < MIN(first + CLUSTER, count); ++i) {
        float3 n;
        const float3 x = x_in[i].xyz;
        const float phi = solid_distance(solids, x, &n);
        out[3 * i] = (float4)(n, phi);
        out[3 * i + 1] = (float4)(solid_velocity(solids, x), 0.0f);
        real bound = distance_bound(solids, (real)x.x, (real)x.y, (real)x.z, (real)3e38f);
        uint lane = 0;
        out[3 * i + 2] = (float4)(LANE_OF(bound), solid_surface(solids, x));
    }
}
"""


class Probe:
    """Solids of a device, asked at points."""

    def __init__(self, make, monkeypatch, ignored_axis: int = -1) -> None:
        whole = kernels.source() + PROBE
        monkeypatch.setattr(kernels, "source", lambda: whole)
        model = make_model(3 if ignored_axis < 0 else 2)
        self.axis = ignored_axis
        self.backend = make(replace(model, ignored_axis=ignored_axis))

    def ask(self, row, fields, x) -> tuple[np.ndarray, ...]:
        """distance, normal, velocity, bound"""
        b, points = self.backend, np.zeros((len(x), 4), np.float32)
        points[:, :3] = x
        b.set_solids(row[None], fields)
        b._buffers["x_probe"], b._buffers["out"] = b._upload(points), b._allocate(48 * len(x))
        arguments = b._take("solids x_probe out")
        b._run(b._program(), "probe", -(-len(x) // 8), *arguments, np.uint32(len(x)), group=1)
        out = b._fetch("out", np.float32, 12, len(x))
        self.surface = out[:, 9:12]
        return out[:, 3], out[:, :3], out[:, 4:7], out[:, 8]


def shapes() -> dict[str, SparseField]:
    coarse = default_settings(0.1, 0.22)
    ball = sphere(0.5, 48)
    made = {
        "ball": field_of_mesh(ball, coarse),
        "tank": field_of_mesh(cube((-0.5,) * 3, 1.0), replace(coarse, mode="inside")),
        "sheet": field_of_mesh(
            Mesh(ball.vertices, ball.triangles[:300]), replace(coarse, mode="shell")
        ),
        "pulse": deform(Mesh(0.9 * ball.vertices, ball.triangles), ball, 0.1, coarse),
    }
    if MESHES.is_dir():
        bunny = read_mesh(MESHES / "bunny_closed_3k.off")
        low, high = bunny.bounds
        scaled = Mesh((bunny.vertices - (low + high) / 2) / (high - low).max(), bunny.triangles)
        made["bunny"] = field_of_mesh(scaled, coarse)
    return made


SHAPES = shapes()


def places(field: SparseField, rng: np.random.Generator, n: int = 4000) -> np.ndarray:
    """In the field's frame: all over the table, at the surface, at borders of leaves, far away."""
    low, high = field.bounds
    x = rng.uniform(low - 0.5, high + 0.5, (n, 3))
    x[: n // 8] = rng.uniform(-1, 1, (n // 8, 3)) * 10.0 ** rng.uniform(0, 4, (n // 8, 1))
    near = slice(n // 8, n // 2)
    voxels = field.voxel_places()[abs(field.values) < field.band]
    x[near] = rng.choice(voxels, near.stop - near.start)
    x[near] += rng.normal(0, 0.5 * field.voxel, x[near].shape)
    edge = slice(n // 4, n // 2)
    on_tiles = field.origin + 8 * field.voxel * np.round((x[edge] - field.origin) / field.voxel / 8)
    x[edge] = np.where(rng.random((n // 4, 3)) < 0.5, on_tiles, x[edge])
    return x


@pytest.mark.parametrize("name", SHAPES)
def test_samples_agree(name, make_backend, monkeypatch):
    """In poses that turn, scale and move."""
    rng = np.random.default_rng(len(name))
    probe, field = Probe(make_backend, monkeypatch), SHAPES[name]
    for scale in (1.0, 0.02, 30.0):
        turn = random_rotation(rng)
        origin = scale * rng.normal(0, 1, 3)
        velocity, spin = rng.normal(0, 1, 3), rng.normal(0, 3, 3)
        row = solid(FIELD, (scale,), origin=origin, rotation=turn, velocity=velocity, angular=spin)
        local = places(field, rng)
        x = (scale * local @ turn + origin).astype(np.float32)
        local = (x.astype(np.float64) - row[17:20]) @ row[8:17].reshape(3, 3).T / row[5]
        phi, n, u, bound = probe.ask(row, [field], x)
        far = abs(local).max(axis=1)
        slight = 2e-6 * (1 + far)
        expected, grad = field.distance(local), field.gradient(local)
        leaf = abs(expected) < field.band * (1 - 1e-5)
        assert leaf.sum() > 800
        off = abs(phi / scale - expected)[leaf]
        assert (off < slight[leaf]).all()
        assert (phi / scale >= field.band - slight)[~leaf & (expected > 0)].all()
        assert (phi / scale <= -field.band + slight)[~leaf & (expected < 0)].all()
        assert (bound <= phi + scale * slight).all()
        known = leaf & (np.linalg.norm(grad, axis=1) > 0.3)
        unit = grad[known] / np.linalg.norm(grad[known], axis=1)[:, None] @ turn
        inner = at_cell_borders(field, local)[known]
        assert (abs(n[known] - unit).max(axis=1) < 2e-4)[~inner].all()
        length = np.linalg.norm(n, axis=1)
        assert ((abs(length - 1) < 1e-5) | (length == 0)).all()
        assert (length > 0)[phi < 0].mean() > 0.98
        own = row[20:23] + np.cross(row[23:26], x - row[17:20])
        expected_u = own + scale * field.velocity_at(local) @ turn
        assert (abs(u - expected_u).max(axis=1) < 1e-5 * (1 + scale * far) * 10)[leaf].all()


def at_cell_borders(field: SparseField, x: np.ndarray) -> np.ndarray:
    """Where rounding says which of two cells gives the gradient."""
    q = (x - field.origin) / field.voxel
    return (abs(q - np.round(q)) < 1e-3 * (1 + abs(x))).any(axis=1)


@pytest.mark.parametrize("name", SHAPES)
def test_far_away_the_distance_grows(name, make_backend, monkeypatch):
    """Never more than the true one, and more than a third of it: far clusters are passed by."""
    rng = np.random.default_rng(3)
    probe, field = Probe(make_backend, monkeypatch), SHAPES[name]
    x = rng.normal(0, 1, (500, 3))
    x *= (10.0 ** rng.uniform(0.6, 3, 500) / np.linalg.norm(x, axis=1))[:, None]
    phi, n, _, bound = probe.ask(solid(FIELD, (1.0,)), [field], x)
    away = np.linalg.norm(x, axis=1)
    assert (np.sign(phi) == np.sign(field.background)).all()
    assert (abs(phi) <= away + field.band).all()
    assert (abs(phi) > away / 3).all()
    assert (np.sign(field.background) * (n * x).sum(axis=1) > 0.4 * away).all()
    np.testing.assert_allclose(bound, phi, rtol=1e-5)


def test_surface_values_agree(make_backend, monkeypatch):
    """Friction, bounce and stickiness of a field, or of the row where it has none."""
    rng = np.random.default_rng(4)
    probe = Probe(make_backend, monkeypatch)
    plain = SHAPES["ball"]
    values = rng.uniform(0, 1, (plain.leaves, 729, 3)).astype(np.float32)
    turn = random_rotation(rng)
    row = solid(FIELD, (2.0,), origin=np.array([1.0, 2, 3]), rotation=turn)
    row[2:5] = 0.25, 0.5, 0.75
    voxels = plain.voxel_places()[abs(plain.values) < plain.band / 2]
    x = rng.choice(voxels, 2000) + rng.normal(0, 0.3 * plain.voxel, (2000, 3))
    x = (2.0 * x @ turn + [1, 2, 3]).astype(np.float32)
    for field in (plain, replace(plain, surface=values)):
        probe.ask(row, [field], x)
        world = world_of(row[None], [field])
        expected = np.array([surface(world, 0, *map(float, point)) for point in x])
        assert abs(probe.surface - expected).max() < 2e-4
    assert np.ptp(expected) > 0.5


def test_tiles_know_the_way_to_the_surface():
    """In a large solid: from anywhere within, following the normal leads out."""
    field = field_of_mesh(sphere(1.0, 64), default_settings(0.04, 0.09))
    table = far_table(field)
    assert (table == field.table)[field.table >= 0].all()
    codes = -1 - table[table < 0]
    assert ((codes & 1) == (field.table[table < 0] == -2)).all()
    assert (codes >> 6 >= 1).all()
    assert (codes >> 6).max() >= 3
    x = np.random.default_rng(1).uniform(-0.5, 0.5, (300, 3))
    row = solid(FIELD, (1.0,))
    for _ in range(40):
        phi, normal = signed_distances(row[None], x, [field])
        x = x + np.maximum(0.02 - phi, 0) * normal[:, 0]
    assert (np.linalg.norm(x, axis=1) > 1.0).all()
    assert (np.linalg.norm(x, axis=1) < 1.1).all()


def test_backends_agree_between_two_fields(make_backend, monkeypatch):
    """Mixed in time, with velocities, in 3D and cut by a plane."""
    rng = np.random.default_rng(5)
    fields = [SHAPES["ball"], SHAPES["pulse"]]
    for axis in (-1, 1, 2):
        with monkeypatch.context() as patch:
            probe = Probe(make_backend, patch, axis)
            x = places(fields[1], rng).astype(np.float32)
            if axis >= 0:
                x[:, axis] = 0.0
            row = solid(FIELD, (1.0, 0.3), origin=0.31 * np.eye(3)[axis], fields=(0, 1))
            phi, n, u, bound = probe.ask(row, fields, x)
        world = world_of(row[None], fields, axis)
        expected, normal = (a[:, 0] for a in signed_distances(world, x))
        slight = 4e-6 * (1 + abs(x).max(axis=1))
        border = at_cell_borders(fields[0], x - row[17:20])
        assert (abs(phi - expected) < slight)[~border].all()
        assert (bound <= phi + slight)[phi > 0].all()
        assert (abs(n - normal).max(axis=1) < 5e-4)[~border].all()
        np.testing.assert_allclose(u, velocities(world, x)[:, 0], atol=2e-5)
        if axis >= 0:
            assert not n[:, axis].any()
            assert not u[:, axis].any()
