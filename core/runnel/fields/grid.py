"""The sparse field: a table of tiles of 8^3 voxels, and leaves of 9^3 values.

A leaf holds the values at the voxels of its tile and at the next ones along each axis, so that
a trilinear sample never leaves it. Tiles away from the surface have no leaf: the table says on
which side they lie. Distances are in the fluid's sense, negative in the solid, and end at the band.
Everything lives in the frame of the mesh; a pose puts it into the world.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import RunnelError
from . import sample
from .sample import INSIDE_TILE, LEAF, OUTSIDE_TILE

Floats = NDArray[np.float64]
Mode = Literal["outside", "inside", "shell"]

MODES: tuple[Mode, ...] = ("outside", "inside", "shell")
MEMORY = 2 * 2**30  # bytes a field may take while it is made, unless told otherwise
SUPPORT = 2.2  # default kernel radius h in spacings
VOXEL = 0.75  # default voxel in spacings: docs/decisions/0006-collider-fields.md


@dataclass(frozen=True, kw_only=True)
class FieldSettings:
    """How a mesh becomes a field. Lengths [m] in the mesh's own frame."""

    voxel: float  # distance of voxels
    band: float  # distances are known from -band to +band
    mode: Mode = "outside"
    offset: float = 0.0  # moves the surface into the fluid
    thickness: float | None = None  # from the surface of a shell to its middle; None: a voxel
    cavities: bool = False  # keep closed hollows whose walls face into them, instead of filling
    memory: int = MEMORY  # [bytes]
    name: str = "mesh"  # in messages

    def __post_init__(self) -> None:
        for key in ("voxel", "band"):
            value = getattr(self, key)
            if not (np.isfinite(value) and value > 0):
                raise RunnelError(f"{self.name}: {key} is {value:g} m, must be above 0.")
        if self.mode not in MODES:
            raise RunnelError(f"{self.name}: mode is {self.mode!r}, must be one of {MODES}.")
        if not np.isfinite(self.offset) or not (self.half_thickness >= 0):
            raise RunnelError(f"{self.name}: offset and thickness must be lengths in m.")

    @property
    def half_thickness(self) -> float:
        """From the middle of a shell to its surface [m]."""
        # Interpolated between voxels, the distance from a sheet is up to half a voxel too large:
        # with less than that a sheet would have holes.
        return self.voxel if self.thickness is None else float(self.thickness)


def default_settings(
    spacing: float, kernel_radius: float | None = None, *, voxel: float | None = None,
    band: float | None = None, mode: Mode = "outside", offset: float = 0.0,
    thickness: float | None = None, cavities: bool = False, memory: int = MEMORY,
    name: str = "mesh",
) -> FieldSettings:  # fmt: skip
    """Settings for particles of a spacing d and kernel radius h [m].

    The solver asks for distances from -h to h. A cell that holds such a point has corners up to
    sqrt(3) voxels farther, and none of them may be cut off at the band.
    """
    size = VOXEL * spacing if voxel is None else voxel
    reach = SUPPORT * spacing if kernel_radius is None else kernel_radius
    return FieldSettings(
        voxel=size, band=reach + np.sqrt(3.0) * size if band is None else band, mode=mode,
        offset=offset, thickness=thickness, cavities=cavities, memory=memory, name=name,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class SparseField:
    """Signed distances near a surface [m], flat arrays ready for a device."""

    voxel: float  # [m]
    band: float  # [m]
    origin: Floats  # (3,) place of the table's first voxel [m]
    first: NDArray[np.int64]  # (3,) its number in the endless grid, multiples of 8
    dims: NDArray[np.int32]  # (3,) tiles along x, y, z
    table: NDArray[np.int32]  # (tiles,) x fastest: leaf, or OUTSIDE_TILE, INSIDE_TILE
    values: NDArray[np.float32]  # (leaves, 729) x fastest [m]
    background: float  # beyond the table: band or -band
    index: NDArray[np.int32] | None = None  # (leaves, 729) nearest triangle, -1 unknown
    velocity: NDArray[np.float32] | None = None  # (leaves, 729, 3) [m/s]
    wall: NDArray[np.float32] | None = None  # (leaves, 729) psi of walls.py [m]
    surface: NDArray[np.float32] | None = None  # (leaves, 729, 3) friction, bounce, stickiness
    yields: NDArray[np.float32] | None = None  # (leaves, 729, 3) of deformable bodies; bodies/skin
    mode: Mode = "outside"
    shift: float = 0.0  # how far the zero of the field is from the triangles [m]
    notes: tuple[str, ...] = field(default=())  # what its maker should tell people

    @property
    def leaves(self) -> int:
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (
            self.table, self.values, self.index, self.velocity, self.wall, self.surface,
            self.yields,
        )  # fmt: skip
        return sum(array.nbytes for array in arrays if array is not None)

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """Lowest and highest place of the table [m]; beyond it is the background."""
        return self.origin, self.origin + self.voxel * 8.0 * self.dims

    @cached_property
    def fastest(self) -> float:
        """Largest velocity [m/s]; 0 without a velocity channel."""
        if self.velocity is None:
            return 0.0
        return float(np.linalg.norm(self.velocity, axis=-1).max(initial=0.0))

    @cached_property
    def tiles(self) -> NDArray[np.int32]:
        """(leaves, 3) tile of each leaf."""
        where = np.flatnonzero(self.table >= 0)
        result = np.zeros((self.leaves, 3), np.int32)
        x, rest = where % self.dims[0], where // self.dims[0]
        result[self.table[where]] = np.stack([x, rest % self.dims[1], rest // self.dims[1]], axis=1)
        return result

    def distance(self, points: ArrayLike) -> Floats:
        """Distance of points (n, 3) [m]."""
        return self._sample(points)[:, 0]

    def gradient(self, points: ArrayLike) -> Floats:
        """Gradient (n, 3) of the distance, towards the fluid; 0 outside of the leaves."""
        return self._sample(points)[:, 1:]

    def nearest(self, points: ArrayLike) -> NDArray[np.int32]:
        """Triangle nearest to the voxel nearest to each point (n, 3); -1 unknown."""
        if self.index is None:
            raise RunnelError("the field has no index of triangles: it comes from a .vdb file.")
        places = _points(points)
        result = np.empty(len(places), np.int32)
        sample.sample_index(self.table, self.dims, self.index, self._scalars, places, result)
        return result

    def velocity_at(self, points: ArrayLike) -> Floats:
        """Velocity of the surface nearest to points (n, 3) [m/s]; 0 without a velocity channel."""
        places = _points(points)
        result = np.zeros((len(places), 3))
        if self.velocity is not None:
            sample.sample_channel(
                self.table, self.dims, self.velocity, self._scalars, places, result
            )
        return result

    def volume(self) -> float:
        """Volume where the distance is negative [m^3], of what lies in the table."""
        own = self.values.reshape(-1, 9, 9, 9)[:, :8, :8, :8]
        # A voxel's share of the solid, as if the surface were flat and square to an axis.
        share = np.clip(0.5 - own / np.float32(self.voxel), 0.0, 1.0)
        solid = float(share.sum(dtype=np.float64)) + 512.0 * np.count_nonzero(
            self.table == INSIDE_TILE
        )
        return solid * self.voxel**3

    def with_notes(self, *notes: str) -> SparseField:
        return replace(self, notes=self.notes + notes)

    def voxel_places(self) -> Floats:
        """(leaves, 729, 3) places of all values [m]."""
        steps = np.arange(9)
        z, y, x = np.meshgrid(steps, steps, steps, indexing="ij")
        local = np.stack([x, y, z], axis=-1).reshape(1, LEAF, 3)
        places: Floats = self.origin + self.voxel * (8 * self.tiles[:, None, :] + local)
        return places

    @cached_property
    def _scalars(self) -> Floats:
        return np.array([*self.origin, 1.0 / self.voxel, self.band, self.background])

    def _sample(self, points: ArrayLike) -> Floats:
        places = _points(points)
        result = np.empty((len(places), 4))
        sample.sample_distance(self.table, self.dims, self.values, self._scalars, places, result)
        return result


def _points(points: ArrayLike) -> Floats:
    return np.ascontiguousarray(np.asarray(points, np.float64).reshape(-1, 3))


def side_entry(negative: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Entries of the table for tiles without a leaf."""
    return np.where(negative, INSIDE_TILE, OUTSIDE_TILE).astype(np.int32)
