"""Clearance never promises more than there is, and enough to pass by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from runnel.fields.clearance import clearances
from runnel.fields.grid import default_settings
from runnel.fields.rasterize import field_of_mesh

from . import field_meshes as made

MESHES = {
    "ring": (made.torus(rows=80, columns=40), made.torus_distance),
    "cube": (made.cube((-0.31, 0.07, 0.2)),
             lambda p: made.box_distance(p, (-0.31, 0.07, 0.2), (0.69, 1.07, 1.2))),
}  # fmt: skip


@pytest.mark.parametrize("mode", ["outside", "inside"])
@pytest.mark.parametrize("name", MESHES)
def test_clearance_is_a_close_bound(name: str, mode: str) -> None:
    mesh, exact = MESHES[name]
    field = field_of_mesh(mesh, replace(default_settings(0.05), mode=mode))
    low, high = field.bounds
    points = np.random.default_rng(1).uniform(low, high, (20_000, 3))
    q = np.minimum(((points - low) / field.voxel).astype(int), 8 * field.dims - 1)
    tile = (q[:, 2] // 8 * field.dims[1] + q[:, 1] // 8) * field.dims[0] + q[:, 0] // 8
    i, j, k = (q // 2 % 4).T
    found = 0.25 * field.voxel * clearances(field)[tile, (k * 4 + j) * 4 + i]
    truth = exact(points) * (-1 if mode == "inside" else 1)
    assert (found <= np.maximum(truth, 0) + 0.05 * field.voxel).all()  # tessellation
    # Two cells' diagonals are lost at most, up to where it ends.
    assert (found >= np.minimum(truth - 7.2 * field.voxel, 15 * field.voxel)).all()
    assert found[truth < 0].max() == 0
