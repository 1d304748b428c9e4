"""Where a solid is too thin for its voxels."""

from __future__ import annotations

import numpy as np

from ..meshes import Mesh
from .grid import SparseField

_THINNEST = 2.0  # voxels


def thin_share(field: SparseField, mesh: Mesh) -> float:
    """Share of a solid's surface where it is thinner than about two voxels, from 0 to 1.

    Fluid may pass there: finer voxels, a larger offset or mode "shell" help. Of "outside" only.
    """
    deep = _THINNEST / 2 * field.voxel - field.shift  # under the triangles
    if field.mode != "outside" or deep <= 0:
        return 0.0
    a, b, c = np.moveaxis(mesh.vertices[mesh.triangles], 1, 0)
    normal = np.cross(b - a, c - a)
    area = np.linalg.norm(normal, axis=1)
    real = area > 0
    step = normal[real] / area[real, None] * deep
    middle = ((a + b + c) / 3)[real]
    # Half the thickness under the surface, whichever side that is, it should be that deep.
    depth = -np.minimum(field.distance(middle + step), field.distance(middle - step))
    thin = depth < 0.75 * _THINNEST / 2 * field.voxel
    return float((area[real] * thin).sum() / area[real].sum())


def thin_note(field: SparseField, mesh: Mesh, name: str) -> str | None:
    """What to tell people about thin parts, if there are any to speak of."""
    share = thin_share(field, mesh)
    if share < 0.01:
        return None
    return (
        f"{name}: {100 * share:.0f} % of its surface belongs to parts thinner than two voxels "
        f"({2 * field.voxel:.3g} m), which fluid may pass. Use a smaller voxel size, a larger "
        'offset, or mode = "shell".'
    )
