"""Surfaces of particles: a field on sparse voxels, marching cubes, smoothing that keeps the volume.

docs/decisions/0008-surfaces.md
"""

from .cubes import march
from .field import carry, densities, fluid_field
from .finish import enclosed, grow_to, part_volumes, parts, smooth, vertex_normals

__all__ = [
    "carry",
    "densities",
    "enclosed",
    "fluid_field",
    "grow_to",
    "march",
    "part_volumes",
    "parts",
    "smooth",
    "vertex_normals",
]
