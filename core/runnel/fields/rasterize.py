"""Triangles to a sparse field.

1. tiles near triangles (tiles.py)
2. sides: which voxels are outside; rims are closed or found to be sheets (signs.py, holes.py)
3. exact distances to triangles, and the nearest triangle, in one sweep over the leaves
4. signs, mode, offset; leaves that hold nothing within the band go
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..errors import MeshError, RunnelError
from ..meshes import Mesh, winding_number
from . import holes, signs
from .compile import parallel, part, prange
from .geometry import edge_distance2, frame_of
from .grid import FieldSettings, SparseField, side_entry
from .tiles import Cover, Table, TooLarge, bytes_of, cover, table_around

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Mask = NDArray[np.bool_]

_SLIVER = 1e-10  # twice the area by the square of the longest side, below which there is no area
_SMALL_HOLE = 4.0  # voxels across; smaller holes are closed at once
_GAP = 1.5  # voxels from rims where the flood stops: gaps up to twice that are closed
# A hole that lets the flood in is closed if it is small beside its part; else the part is a sheet.
_OPENING = {"outside": 0.5, "inside": 0.95}
_ATTEMPTS = 4
_FINER = 1.15  # from one voxel size to the next that is tried
_STRIDE = 16
_BALL = 2.5  # voxels: largest empty ball that repairs a buried distance


@dataclass(frozen=True, eq=False)
class _Soup:
    """Triangles, and caps after them."""

    corners: Floats  # (m, 9) [voxels]
    owners: Ints  # (m,) number of the mesh's triangle
    sheet: Mask  # (m,) has no inside
    notes: tuple[str, ...] = ()


def field_of_mesh(mesh: Mesh, settings: FieldSettings) -> SparseField:
    """The field of a mesh, in the frame of the mesh.

    RunnelError if it would need more memory than allowed; MeshError if there is no surface.
    """
    try:
        return _field_of_mesh(mesh, settings)
    except TooLarge as error:
        message = _what_fits(mesh, settings, error.needed)
    raise RunnelError(message)


def _field_of_mesh(mesh: Mesh, settings: FieldSettings) -> SparseField:
    reach, thick = _reaches(settings)
    table = table_around(*_checked_bounds(mesh, settings), max(reach, thick), settings)
    soup = _soup(mesh, table, settings)
    if settings.mode == "shell":
        soup = replace(soup, sheet=np.ones(len(soup.corners), np.bool_))
        covered = cover(soup.corners, thick, table, settings)
        sides = None
    else:
        soup, covered, sides = _find_sides(mesh, soup, (reach, thick), table, settings)
    values = np.full((len(covered.tiles), 729), np.float32(np.inf))
    index = np.full((len(covered.tiles), 729), -1, np.int32)
    if sides is not None and not soup.sheet.all():
        values, index = _solid(soup, reach, table, covered, sides, settings)
    elif settings.mode == "inside":
        soup = replace(soup, notes=(*soup.notes, f"{settings.name}: encloses nothing."))
    if soup.sheet.any():
        unsigned, nearest = _distances(soup.corners, soup.sheet, thick, covered)
        thin = unsigned * np.float32(settings.voxel) - np.float32(settings.half_thickness)
        index = np.where(thin < values, nearest, index)
        values = np.minimum(values, thin)
    return _finish(soup, table, covered, sides, values, index, settings)


def _reaches(settings: FieldSettings) -> tuple[float, float]:
    """How far leaves go from solids, and from sheets [voxels]."""
    # A little more than the band, so that rounding leaves nothing just within it.
    far = (settings.band + abs(settings.offset)) / settings.voxel * (1.0 + 1e-5)
    # Crossings and gaps must lie within leaves.
    return max(far, 3.0), far + settings.half_thickness / settings.voxel


def _what_fits(mesh: Mesh, settings: FieldSettings, needed: float) -> str:
    """How much memory a field takes that is too large, and the finest voxel that is not, found by
    trying ever finer ones."""
    low, high = _checked_bounds(mesh, settings)
    voxel = longest = float((high - low).max())
    fits, estimate = "Use a larger voxel size", 0.0
    while voxel > settings.voxel:
        wider = settings.band + math.sqrt(3.0) * (voxel - settings.voxel)
        tried = replace(settings, voxel=voxel, band=wider)
        reach = max(_reaches(tried))
        try:
            table = table_around(low, high, reach, tried)
            covered = cover(_soup(mesh, table, tried).corners, reach, table, tried)
        except MeshError:
            raise
        except RunnelError:
            break
        fits = f"Use a voxel size of at least {1.005 * voxel:.3g} m (now {settings.voxel:g} m)"
        # Leaves fill a layer: the band on both sides, and what of a leaf sticks out.
        layers = [(2 * s.band + 12 * s.voxel) / s.voxel**3 for s in (settings, tried)]
        taken = bytes_of(len(covered.tiles), len(covered.lists), table)
        estimate = taken * layers[0] / layers[1]
        voxel /= _FINER
    return (
        f"{settings.name}: a field of {longest / settings.voxel:.0f} voxels along its longest side "
        f"needs about {max(needed, estimate) / 2**20:.0f} MB, {settings.memory / 2**20:.0f} MB are "
        f"allowed. {fits}, or allow more memory."
    )


def _checked_bounds(mesh: Mesh, settings: FieldSettings) -> tuple[Floats, Floats]:
    if not len(mesh.triangles):
        raise MeshError(f"{settings.name}: holds no triangles")
    used = mesh.vertices[mesh.triangles.ravel()]
    if not np.isfinite(used).all():
        bad = int(np.argmin(np.isfinite(used).all(axis=1))) // 3
        raise MeshError(
            f"{settings.name}: triangle {bad} has a vertex that is not a number. Clean the mesh "
            "(Blender: Mesh > Clean Up; Houdini: Clean)"
        )
    return used.min(axis=0), used.max(axis=0)


def _soup(mesh: Mesh, table: Table, settings: FieldSettings) -> _Soup:
    """Triangles with an area, in voxels from the table's first."""
    places = mesh.vertices / settings.voxel - table.first
    corners = places[mesh.triangles].reshape(-1, 9)
    a, b, c = corners[:, :3], corners[:, 3:6], corners[:, 6:]
    twice_area2 = (np.cross(b - a, c - a) ** 2).sum(axis=1)
    longest2 = np.maximum.reduce([((q - p) ** 2).sum(axis=1) for p, q in ((a, b), (b, c), (c, a))])
    rows = np.flatnonzero(twice_area2 > (_SLIVER * longest2) ** 2)
    if not len(rows):
        raise MeshError(f"{settings.name}: none of its {len(corners)} triangles has an area")
    kept = np.ascontiguousarray(corners[rows])
    return _Soup(kept, rows.astype(np.int32), np.zeros(len(rows), np.bool_))


# --- sides ----------------------------------------------------------------------------------------


def _find_sides(
    mesh: Mesh, soup: _Soup, reaches: tuple[float, float], table: Table, settings: FieldSettings
) -> tuple[_Soup, Cover, signs.Sides]:
    """Sides of voxels, with caps in holes; parts that stay open become sheets.

    reaches [voxels]: how far leaves go from solids, and if there are sheets.

    Small holes are closed first, and gaps between rims stop the flood. If it still gets behind a
    part that has a rim, its holes are closed too; if that does not help, or a hole is most of the
    part, the part has no inside.
    """
    triangles, part = holes.parts_of(soup.corners)
    rims = holes.rims_of(soup.corners, triangles, part)
    if rims is None:
        covered = cover(soup.corners, reaches[0], table, settings)
        return soup, covered, _sides_of(mesh, soup, covered, table, None, settings)
    closed = rims.size <= _SMALL_HOLE
    sheets = np.zeros(int(part.max()) + 1, np.bool_)
    for attempt in range(_ATTEMPTS + 1):
        capped = _capped(soup, rims, closed & ~sheets[rims.part], sheets[part])
        covered = cover(capped.corners, reaches[int(sheets.any())], table, settings)
        flags = _rim_flags(len(capped.corners), rims, ~closed & ~sheets[rims.part])
        sides = _sides_of(mesh, capped, covered, table, flags, settings)
        leaky = _leaky(soup.corners, part, rims, sheets, covered, table, sides)
        if not leaky.any():
            break
        if attempt == _ATTEMPTS - 1:  # parts that lean on each other: end it
            leaky[rims.part] = True
            closed[:] = True
        # Nothing left to close, or too much: a part without an inside.
        largest = _largest(rims, closed, len(sheets))
        sheets |= leaky & ((largest < 0.0) | (largest > _OPENING[settings.mode]))
        closed = closed | (leaky & ~sheets)[rims.part]
    return replace(capped, notes=_notes(rims, closed, sheets, settings)), covered, sides


def _largest(rims: holes.Rims, closed: Mask, parts: int) -> Floats:
    """Share of the largest open walk of each part, -1 if there is none."""
    result = np.full(parts, -1.0)
    np.maximum.at(result, rims.part[~closed], rims.share[~closed])
    return result


def _capped(soup: _Soup, rims: holes.Rims, walks: Mask, sheet: Mask) -> _Soup:
    fans, rows = holes.caps(rims, walks)
    return _Soup(
        np.concatenate([soup.corners, fans]),
        np.concatenate([soup.owners, soup.owners[rows]]),
        np.concatenate([sheet, np.zeros(len(fans), np.bool_)]),
    )


def _rim_flags(count: int, rims: holes.Rims, walks: Mask) -> NDArray[np.uint8]:
    flags = np.zeros(count, np.uint8)
    chosen = walks[rims.walk]
    np.bitwise_or.at(flags, rims.owner[chosen], (1 << rims.side[chosen]).astype(np.uint8))
    return flags


def _sides_of(
    mesh: Mesh, soup: _Soup, covered: Cover, table: Table, rims: NDArray[np.uint8] | None,
    settings: FieldSettings,
) -> signs.Sides:  # fmt: skip
    corners = soup.corners
    if soup.sheet.any():  # sheets stop no flood
        corners = np.where(soup.sheet[:, None], -1e6, corners)
    if rims is None:
        rims = np.zeros(len(corners), np.uint8)
    sides = signs.find_sides(corners, covered, table, rims, _GAP)
    if settings.cavities:
        _open_cavities(mesh, covered, table, sides, settings)
    return sides


def _open_cavities(
    mesh: Mesh, covered: Cover, table: Table, sides: signs.Sides, settings: FieldSettings
) -> None:
    """Closed regions around which the mesh does not wind are the fluid's."""
    regions = sides.regions
    numbers, first, counts = np.unique(regions, return_index=True, return_counts=True)
    for number, place, count in zip(numbers, first, counts, strict=True):
        if number in (-1, sides.outer) or count < 8:  # single voxels on the surface itself
            continue
        leaf, v = divmod(int(place), 512)
        local = np.array([v & 7, (v >> 3) & 7, v >> 6])
        voxel = 8 * covered.tiles[leaf].astype(np.int64) + local + table.first
        if abs(winding_number(mesh, voxel * settings.voxel)[0]) < 0.5:
            sides.state[regions == number] = signs.OUTSIDE
            sides.tile_state[sides.tile_regions == number] = signs.OUTSIDE


def _leaky(
    corners: Floats, part: Longs, rims: holes.Rims, sheets: Mask, covered: Cover, table: Table,
    sides: signs.Sides,
) -> Mask:  # fmt: skip
    """Parts with rims, not yet sheets, that have the outside on both sides of most triangles."""
    open_parts = np.zeros(len(sheets), np.bool_)
    open_parts[rims.part] = True
    rows = np.flatnonzero((open_parts & ~sheets)[part])
    if not len(rows):
        return np.zeros(len(sheets), np.bool_)
    rows = rows[np.argsort(part[rows], kind="stable")]
    first = np.flatnonzero(np.diff(part[rows], prepend=-1))
    counts = np.diff(np.concatenate([first, [len(rows)]]))
    # Every k-th triangle: some 200 of a part.
    order = np.arange(len(rows)) - np.repeat(first, counts)
    rows = rows[order % np.maximum(np.repeat(counts, counts) // 200, 1) == 0]
    a, b, c = corners[rows, :3], corners[rows, 3:6], corners[rows, 6:]
    normal = np.cross(b - a, c - a)
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    middle = (a + b + c) / 3
    above = signs.states_at(middle + 1.25 * normal, covered, table, sides)
    below = signs.states_at(middle - 1.25 * normal, covered, table, sides)
    both = (above == signs.OUTSIDE) & (below == signs.OUTSIDE)
    # Large triangles count for more: a rim may be finely divided.
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    share = np.bincount(part[rows], area * both, len(sheets))
    return np.asarray(share > 0.5 * np.bincount(part[rows], area, len(sheets)))


def _notes(
    rims: holes.Rims, closed: Mask, sheets: Mask, settings: FieldSettings
) -> tuple[str, ...]:
    notes = []
    large = closed & (rims.size > _SMALL_HOLE) & ~sheets[rims.part]
    if large.any():
        notes.append(
            f"{settings.name}: {np.count_nonzero(large)} holes, up to "
            f"{rims.size[large].max() * settings.voxel:.3g} m across, were closed. If fluid should "
            'get in, use mode = "shell" or give the mesh a thickness.'
        )
    if sheets.any():
        notes.append(
            f"{settings.name}: {np.count_nonzero(sheets)} of its {len(sheets)} parts are open and "
            f"have no inside; they are walls {2 * settings.half_thickness:.3g} m thick, as with "
            'mode = "shell". Close them to make them solid.'
        )
    return tuple(notes)


# --- distances ------------------------------------------------------------------------------------


def _distances(corners: Floats, wanted: Mask, reach: float, covered: Cover) -> tuple[Singles, Ints]:
    """Distance [voxels] of all values from the wanted triangles, at most reach; nearest row."""
    values = np.empty((len(covered.tiles), 729), np.float32)
    nearest = np.empty((len(covered.tiles), 729), np.int32)
    measure_leaves(
        corners, wanted, reach, covered.tiles, covered.starts, covered.lists, values, nearest
    )
    return values, nearest


def _solid(
    soup: _Soup, reach: float, table: Table, covered: Cover, sides: signs.Sides,
    settings: FieldSettings,
) -> tuple[Singles, Ints]:  # fmt: skip
    """Signed distance [m] from the surface of the solid, in the fluid's sense; nearest rows."""
    unsigned, nearest = _distances(soup.corners, ~soup.sheet, reach, covered)
    grid = (covered.table, table.dims, covered.tiles)
    buried = np.zeros(len(covered.tiles), np.bool_)
    signs.is_buried(*grid, sides.crossed, sides.state, sides.tile_state, buried)
    offsets, lengths = _ways(math.ceil(reach + _BALL) if buried.any() else 1)
    signed, index = np.empty_like(unsigned), np.empty_like(nearest)
    signs.sign_distances(
        *grid, sides.state, sides.tile_state, soup.corners, unsigned, nearest,
        _with_neighbours(buried, covered, table), offsets, lengths, _BALL, signed, index,
    )  # fmt: skip
    turn = -1.0 if settings.mode == "inside" else 1.0
    return signed * np.float32(turn * settings.voxel), index


def _with_neighbours(chosen: Mask, covered: Cover, table: Table) -> Mask:
    """Leaves that are chosen or touch one that is."""
    dense = np.zeros(table.count, np.bool_)
    dense[covered.table >= 0] = chosen
    grid = dense.reshape(table.dims[::-1])
    for axis in range(3) if chosen.any() else ():
        # The outermost tiles hold no leaf, so nothing comes round from the other end.
        grid = grid | np.roll(grid, 1, axis) | np.roll(grid, -1, axis)
    return grid.ravel()[covered.table >= 0]


def _ways(radius: int) -> tuple[Ints, Floats]:
    """Offsets within a radius, the shortest first."""
    steps = np.arange(-radius, radius + 1)
    offsets = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), axis=-1).reshape(-1, 3)
    lengths = np.linalg.norm(offsets, axis=1)
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] <= radius]
    return offsets[order].astype(np.int32), lengths[order]


@parallel
def measure_leaves(
    corners: Floats, wanted: Mask, reach: float, tiles: Ints, starts: Longs, lists: Ints,
    values_out: Singles, nearest_out: Ints,
) -> None:  # fmt: skip
    """Distance and nearest triangle; of equally near ones the first."""
    for leaf in prange(len(tiles)):
        best = np.empty(729)
        farthest = np.empty(81)  # of each row
        frame = np.empty(27)
        apart = np.empty(27)
        bounds = np.empty(6, np.int64)
        nearest = nearest_out[leaf]
        for v in range(729):
            best[v] = reach * reach
            nearest[v] = -1
        # In strides, so that triangles from all over the leaf come soon: the closer the distances
        # already are, the more of what follows can be skipped.
        for first in range(_STRIDE):
            for row in range(81):
                farthest[row] = best[9 * row]
                for v in range(9 * row + 1, 9 * row + 9):
                    farthest[row] = max(farthest[row], best[v])
            for n in range(starts[leaf] + first, starts[leaf + 1], _STRIDE):
                t = lists[n]
                if wanted[t] and _box(corners, t, reach, tiles[leaf], apart, bounds):
                    if frame_of(corners, t, frame):
                        _measure(t, frame, tiles[leaf], apart, bounds, farthest, best, nearest)
        for v in range(729):
            values_out[leaf, v] = np.sqrt(best[v])


@part
def _box(corners: Floats, t: int, reach: float, tile: Ints, apart: Floats, bounds: Longs) -> bool:
    """Values of a leaf that a triangle may reach: first and last along each axis.

    apart (27,): squared distance from the triangle's box along each axis, but for rounding.
    """
    for axis in range(3):
        a, b, c = corners[t, axis], corners[t, 3 + axis], corners[t, 6 + axis]
        low, high = min(a, b, c) - 8 * tile[axis], max(a, b, c) - 8 * tile[axis]
        bounds[axis] = max(0, int(np.ceil(low - reach)))
        bounds[3 + axis] = min(8, int(np.floor(high + reach)))
        if bounds[axis] > bounds[3 + axis]:
            return False
        for k in range(bounds[axis], bounds[3 + axis] + 1):
            out = max(low - k, k - high, 0.0)
            apart[9 * axis + k] = out * out * (1.0 - 1e-9)
    return True


@part
def _measure(
    t: int, f: Floats, tile: Ints, apart: Floats, bounds: Longs, farthest: Floats, best: Floats,
    nearest: Ints,
) -> None:  # fmt: skip
    """Let one triangle lower the squared distances of a leaf."""
    ax, ay, az = f[0] - 8 * tile[0], f[1] - 8 * tile[1], f[2] - 8 * tile[2]
    for k in range(bounds[2], bounds[5] + 1):
        for j in range(bounds[1], bounds[4] + 1):
            box = apart[18 + k] + apart[9 + j]
            if box > farthest[k * 9 + j]:
                continue
            row = (k * 9 + j) * 9
            for i in range(bounds[0], bounds[3] + 1):
                if box + apart[i] > best[row + i]:
                    continue
                px, py, pz = i - ax, j - ay, k - az
                d = edge_distance2(f, px, py, pz)
                if d < 0.0:
                    height = f[12] * px + f[13] * py + f[14] * pz
                    d = height * height
                if d < best[row + i] or (d == best[row + i] and t < nearest[row + i]):
                    best[row + i] = d
                    nearest[row + i] = t


# --- the field ------------------------------------------------------------------------------------


def _finish(
    soup: _Soup, table: Table, covered: Cover, sides: signs.Sides | None, values: Singles,
    nearest: Ints, settings: FieldSettings,
) -> SparseField:  # fmt: skip
    """Offset, cut off at the band, and keep leaves that hold something within it."""
    band = np.float32(settings.band)
    values = np.clip(values - np.float32(settings.offset), -band, band)
    kept = np.flatnonzero((np.abs(values) < band).any(axis=1))
    turned = settings.mode == "inside" and not soup.sheet.all()
    negative = np.full(table.count, turned)
    if sides is not None and not soup.sheet.all():
        negative = (sides.tile_state == signs.INSIDE) != turned
    entries = side_entry(negative)
    places = np.flatnonzero(covered.table >= 0)
    entries[places] = side_entry(values[:, 0] < 0)
    entries[places[kept]] = np.arange(len(kept), dtype=np.int32)
    rows = nearest[kept]
    index = np.where(rows >= 0, soup.owners[np.maximum(rows, 0)], -1).astype(np.int32)
    shift = settings.offset + (settings.half_thickness if soup.sheet.all() else 0.0)
    return SparseField(
        voxel=settings.voxel, band=float(band), origin=table.first * settings.voxel,
        first=table.first, dims=table.dims, table=entries, values=values[kept], index=index,
        background=float(-band if turned else band), mode=settings.mode, shift=shift,
        notes=soup.notes,
    )  # fmt: skip
