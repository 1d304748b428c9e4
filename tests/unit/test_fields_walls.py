"""What a wall adds to the density in corners: the half space that holds as much of a kernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from runnel.fields.grid import default_settings
from runnel.fields.rasterize import field_of_mesh
from runnel.fields.walls import with_walls

from . import field_meshes as made

H = 0.3


def half_space_at(share: float) -> float:
    """Distance / h of the plane that a share of (1 - q)^4 (4 q + 1) lies beyond, by quadrature."""
    z = np.linspace(-1, 1, 4001)
    radii = np.linspace(np.abs(z), 1, 400)
    slices = np.mean(radii * (1 - radii) ** 4 * (4 * radii + 1), axis=0) * (1 - np.abs(z))
    beyond = 1 - np.cumsum(slices) / np.sum(slices)
    return float(np.interp(-share, -beyond, z))


@pytest.mark.parametrize("fineness", [3, 8, 16])
def test_edges_and_corners_of_a_box(fineness: int) -> None:
    """Of the space around an edge of a container 3/4 are solid, around a corner 7/8, however fine
    the voxels are."""
    settings = default_settings(H / 2.2, H, voxel=H / fineness, mode="inside")
    field = with_walls(field_of_mesh(made.cube(), settings), H)
    assert field.wall is not None
    psi = replace(field, values=field.wall).distance(
        np.array([[0.0, 0.0, 0.5], [0.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    )
    expected = [H * half_space_at(0.75), H * half_space_at(0.875), 0.0]
    assert psi == pytest.approx(expected, abs=0.1 * H)
