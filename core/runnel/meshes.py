"""Triangle meshes: reading them, and what is inside.

Inside is where the generalized winding number is not 0. Along a vertical line it changes at each
triangle by +1 or -1, so for closed meshes it is counted, exactly, from the triangles above a point:
a lattice costs one line per column.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .errors import MeshError
from .mesh_formats import READERS, Floats, Ints, weld

MAX_BYTES = 2 * 2**30

Mask = NDArray[np.bool_]

_PAIRS = 1 << 20  # line-triangle pairs worked on at a time
_MOST_PAIRS = 2_000_000_000  # solid angles beyond this would take minutes
_SHIFTS = ((2.7e-8, 6.1e-8), (-5.3e-8, 3.9e-8), (7.1e-8, -1.9e-8))  # of the mesh's size


@dataclass(frozen=True, eq=False)
class Mesh:
    """Vertices (n, 3) [m] and triangles (m, 3), counterclockwise seen from outside."""

    vertices: Floats
    triangles: NDArray[np.int32]

    @cached_property
    def bounds(self) -> tuple[Floats, Floats]:
        """Lowest and highest corner of the box around all triangles."""
        used = self.vertices[np.unique(self.triangles)]
        return used.min(axis=0), used.max(axis=0)

    def volume(self) -> float:
        """Signed volume [m^3]: negative if triangles face inwards. Means little if open."""
        a, b, c = np.moveaxis((self.vertices - self.bounds[0])[self.triangles], 1, 0)
        return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6.0)

    @cached_property
    def welded(self) -> Mesh:
        """Vertices of equal coordinates made one; without triangles that lose a corner by it."""
        vertices, numbers = weld(self.vertices)
        triangles = numbers[self.triangles].astype(np.int32)
        a, b, c = triangles.T
        return Mesh(vertices, triangles[(a != b) & (b != c) & (c != a)])

    @cached_property
    def open_edges(self) -> int:
        """Edges that belong to one triangle only, once vertices are welded."""
        _, counts = np.unique(_edges(self.welded)[0], return_counts=True)
        return int(np.count_nonzero(counts == 1))

    def is_closed(self) -> bool:
        """Whether each edge belongs to two triangles or more, once vertices are welded.

        More than two is allowed: parts that touch along an edge still have an inside.
        """
        return self.open_edges == 0 and len(self.welded.triangles) > 0

    def require_closed(self, file: object = None) -> None:
        """MeshError if the mesh has no inside."""
        if not self.is_closed():
            raise MeshError(
                f"the mesh is open: {self.open_edges} edges belong to one triangle only, so it "
                "has no inside to fill. Close its holes (Blender: Mesh > Clean Up > Fill Holes; "
                "Houdini: PolyFill) or use a box, sphere or cylinder",
                file=file,
            )

    @cached_property
    def oriented(self) -> Mesh:
        """The welded mesh with neighbours facing the same way, as most of each part do."""
        mesh = self.welded
        flip = _minority(mesh)
        triangles = np.where(flip[:, None], mesh.triangles[:, ::-1], mesh.triangles)
        return Mesh(mesh.vertices, triangles)


def read_mesh(path: str | Path, max_bytes: int = MAX_BYTES) -> Mesh:
    """Read an OBJ, STL, PLY or OFF file, told apart by the ending of its name."""
    path = Path(path)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise MeshError(f"a mesh file ends in {', '.join(READERS)}", file=path)
    try:
        if not path.is_file():
            raise MeshError("there is no such file", file=path)
        size = path.stat().st_size
        if size > max_bytes:
            raise MeshError(
                f"has {size / 2**20:.0f} MB, at most {max_bytes / 2**20:.0f} MB are read; "
                "decimate the mesh",
                file=path,
            )
        data = path.read_bytes()
    except OSError as error:
        raise MeshError(f"cannot be read: {error.strerror}", file=path) from None
    try:
        with np.errstate(all="ignore"):  # odd bit patterns end as MeshError, not as warnings
            vertices, triangles = reader(data)
    except MeshError as error:
        raise error.in_file(path) from None
    except MemoryError:
        raise MeshError(f"needs too much memory ({size / 2**20:.0f} MB file)", file=path) from None
    if not len(triangles):
        raise MeshError("holds no faces", file=path)
    return Mesh(vertices, triangles)


# --- inside ---------------------------------------------------------------------------------------


def contains(mesh: Mesh, points: Floats) -> Mask:
    """Which points (n, 3) are inside: winding number above 1/2 or below -1/2.

    Parts may overlap, and face inwards. Of an open mesh too, where the number is a fraction; that
    costs points times triangles.
    """
    points = np.asarray(points, np.float64).reshape(-1, 3)
    if not mesh.is_closed():
        return np.abs(winding_number(mesh, points)) > 0.5
    low, high = mesh.bounds
    near = np.flatnonzero(((points >= low) & (points <= high)).all(axis=1))
    result = np.zeros(len(points), np.bool_)
    result[near] = _balanced(mesh.oriented, points[near], None)[:, 0]
    return result


def lattice_inside(mesh: Mesh, x: Floats, y: Floats, z: Floats) -> Mask:
    """Which points of a lattice are inside a closed mesh: (len(x), len(y), len(z)).

    z must rise.
    """
    columns = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
    lines = np.concatenate([columns, np.zeros((len(columns), 1))], axis=1)
    return _balanced(mesh.oriented, lines, z).reshape(len(x), len(y), len(z))


def _balanced(mesh: Mesh, lines: Floats, heights: Floats | None) -> Mask:
    """Inside or not, per line and height. heights: those of all lines; None: each line's own z.

    A closed mesh leaves a line as often as it enters. Where rounding makes a line miss that, it
    is tried again a little aside; where the mesh itself does (triangles twice, parts that share a
    face), solid angles decide.
    """
    result = np.zeros((len(lines), 1 if heights is None else len(heights)), np.bool_)
    todo = np.arange(len(lines))
    scale = float(np.max(mesh.bounds[1] - mesh.bounds[0]))
    for shift in _SHIFTS:
        aside = lines[todo].copy()
        aside[:, :2] += np.array(shift) * scale  # off edges and vertices, which like round numbers
        winding, total = _count_above(mesh, aside, heights)
        result[todo] = winding != 0
        todo = todo[total != 0]
        if not len(todo):
            return result
    levels = lines[todo, 2:] if heights is None else np.broadcast_to(heights, result[todo].shape)
    if levels.size * len(mesh.triangles) > _MOST_PAIRS:
        raise MeshError(
            "too many faces are doubled or overlap for its inside to be clear. Merge doubled faces "
            "and recalculate normals (Blender: Mesh > Clean Up; Houdini: Clean)"
        )
    points = np.repeat(lines[todo], levels.shape[1], axis=0)
    points[:, 2] = levels.ravel()
    result[todo] = (np.abs(winding_number(mesh, points)) > 0.5).reshape(levels.shape)
    return result


def _count_above(mesh: Mesh, lines: Floats, heights: Floats | None) -> tuple[Ints, Ints]:
    """Winding number per line and height, and the sum over all crossings of each line."""
    columns = 1 if heights is None else len(heights)
    # steps[i, k]: crossings of line i that have exactly k of its heights below them.
    steps = np.zeros(len(lines) * (columns + 1))
    for line, height, sign in _crossings(mesh, lines[:, :2]):
        if heights is None:
            below = (lines[line, 2] < height).astype(np.int64)
        else:
            below = np.searchsorted(heights, height)
        steps += np.bincount(line * (columns + 1) + below, sign, len(steps))
    above = steps.reshape(len(lines), columns + 1)[:, ::-1].cumsum(axis=1).astype(np.int64)
    return above[:, -2::-1], above[:, -1]


def _crossings(mesh: Mesh, xy: Floats) -> Iterator[tuple[Ints, Floats, Floats]]:
    """Where vertical lines at xy (n, 2) meet triangles: line, height, sign (+1 seen from above)."""
    if not len(xy):
        return
    order, bins = _bin(xy)
    corners = mesh.vertices[mesh.triangles, :2]
    low, high = corners.min(axis=1), corners.max(axis=1)
    near = np.flatnonzero(((high >= xy.min(axis=0)) & (low <= xy.max(axis=0))).all(axis=1))
    first, last = bins.cells(low[near]), bins.cells(high[near])
    # A triangle meets the bins of its box: one run of lines per row of bins.
    rows = last[:, 0] - first[:, 0] + 1
    box = np.repeat(np.arange(len(near)), rows)
    row = first[box, 0] + np.arange(len(box)) - np.repeat(np.cumsum(rows) - rows, rows)
    begin = bins.starts[row * bins.side + first[box, 1]]
    runs: Ints = bins.starts[row * bins.side + last[box, 1] + 1] - begin
    triangle = near[box]
    done = np.cumsum(runs)
    start = 0
    while start < len(runs):
        before = done[start] - runs[start]
        end = max(start + 1, int(np.searchsorted(done, before + _PAIRS, side="right")))
        part = runs[start:end]
        shift = np.repeat(begin[start:end] - (np.cumsum(part) - part), part)
        line = order[shift + np.arange(len(shift))]
        yield _hit(mesh, np.repeat(triangle[start:end], part), line, xy)
        start = end


@dataclass(frozen=True)
class _Bins:
    """Lines by bins, side by side; bin b holds order[starts[b] : starts[b + 1]]."""

    low: Floats
    size: Floats
    side: int
    starts: Ints

    def cells(self, xy: Floats) -> Ints:
        """Bins of places, those outside moved to the border: (n, 2)."""
        return _cells(xy, self.low, self.size, self.side)


def _cells(xy: Floats, low: Floats, size: Floats, side: int) -> Ints:
    place: Floats = np.clip(np.floor((xy - low) / size), 0, side - 1)
    return place.astype(np.int64)


def _bin(xy: Floats) -> tuple[Ints, _Bins]:
    """Order of lines by bin, and the bins."""
    side = int(np.clip(np.sqrt(len(xy)), 1, 2048))
    low = xy.min(axis=0)
    size = np.maximum((xy.max(axis=0) - low) / side, 1e-30)
    cell = _cells(xy, low, size, side)
    number = cell[:, 0] * side + cell[:, 1]
    counts = np.bincount(number, minlength=side * side)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return np.argsort(number, kind="stable"), _Bins(low, size, side, starts)


def _hit(mesh: Mesh, triangle: Ints, line: Ints, xy: Floats) -> tuple[Ints, Floats, Floats]:
    """The pairs of triangle and line that meet."""
    corners = mesh.triangles[triangle]
    points = xy[line]
    sides = []
    for k in range(3):
        a, b = corners[:, k - 2], corners[:, k - 1]
        # Both triangles of an edge compute it from the same end, so that they agree on the side
        # a line passes it, however it is rounded: no line slips through or counts twice.
        up = a < b
        start = mesh.vertices[np.where(up, a, b), :2]
        end = mesh.vertices[np.where(up, b, a), :2]
        edge, away = end - start, points - start
        side = edge[:, 0] * away[:, 1] - edge[:, 1] * away[:, 0]
        sides.append((np.where(up, side, -side), np.where(up, side >= 0, side < 0)))
    left = sides[0][1].astype(np.int8) + sides[1][1] + sides[2][1]
    met = np.flatnonzero((left == 0) | (left == 3))
    weights = np.stack([side[met] for side, _ in sides], axis=1)  # opposite to corner 0, 1, 2
    total = weights.sum(axis=1)
    heights = mesh.vertices[corners[met], 2]
    height = (weights * heights).sum(axis=1) / np.where(total == 0, 1, total)
    height = np.where(total == 0, heights.mean(axis=1), height)
    return line[met], height, np.where(left[met] == 3, 1.0, -1.0)


def winding_number(mesh: Mesh, points: Floats) -> Floats:
    """Generalized winding number of points (n, 3), from solid angles; any mesh.

    Costs points times triangles.
    """
    points = np.asarray(points, np.float64).reshape(-1, 3)
    corners = np.moveaxis(mesh.vertices[mesh.triangles], 1, 0)
    result = np.zeros(len(points))
    step = max(1, _PAIRS // max(1, len(mesh.triangles)))
    for start in range(0, len(points), step):
        a, b, c = corners[:, None] - points[None, start : start + step, None]
        la, lb, lc = (np.sqrt(np.einsum("ijk,ijk->ij", v, v)) for v in (a, b, c))
        volume = np.einsum("ijk,ijk->ij", a, np.cross(b, c))
        ab, bc, ca = (np.einsum("ijk,ijk->ij", *p) for p in ((a, b), (b, c), (c, a)))
        angle = np.arctan2(volume, la * lb * lc + ab * lc + bc * la + ca * lb)
        result[start : start + step] = angle.sum(axis=1) / (2 * np.pi)
    return result


# --- edges ----------------------------------------------------------------------------------------


def _edges(mesh: Mesh) -> tuple[Ints, Mask]:
    """A number per undirected edge, three per triangle in a row; whether it runs upwards."""
    start = mesh.triangles.astype(np.int64)
    end = np.roll(start, -1, axis=1)
    keys = np.minimum(start, end) * len(mesh.vertices) + np.maximum(start, end)
    return keys.ravel(), (start < end).ravel()


def _minority(mesh: Mesh) -> Mask:
    """Triangles to turn so that those joined by an edge of two face the same way."""
    keys, up = _edges(mesh)
    order = np.argsort(keys, kind="stable")
    _, first, counts = np.unique(keys[order], return_index=True, return_counts=True)
    pairs = first[counts == 2]
    one, two = order[pairs], order[pairs + 1]
    flip = np.zeros(len(mesh.triangles), np.bool_)
    differ = up[one] == up[two]  # neighbours that agree run along their edge in opposite ways
    if not differ.any():
        return flip
    parent = list(range(len(flip)))
    odd = [False] * len(flip)  # faces otherwise than its parent
    for a, b, d in zip((one // 3).tolist(), (two // 3).tolist(), differ.tolist(), strict=True):
        (root_a, odd_a), (root_b, odd_b) = _root(parent, odd, a), _root(parent, odd, b)
        if root_a != root_b:
            parent[root_a] = root_b
            odd[root_a] = odd_a ^ odd_b ^ d
    ends = [_root(parent, odd, t) for t in range(len(flip))]
    root = np.array([r for r, _ in ends])
    flip = np.array([o for _, o in ends])
    turned = np.bincount(root, flip, len(flip))
    members = np.bincount(root, minlength=len(flip))
    return np.asarray(flip ^ (turned * 2 > members)[root])


def _root(parent: list[int], odd: list[bool], node: int) -> tuple[int, bool]:
    """Root of a node's tree, and whether it faces otherwise; shortens the way there."""
    path = []
    while parent[node] != node:
        path.append(node)
        node = parent[node]
    facing = False
    for step in reversed(path):
        facing ^= odd[step]
        parent[step], odd[step] = node, facing
    return node, facing


# --- flat meshes ----------------------------------------------------------------------------------


def is_flat(vertices: Floats) -> bool:
    """Whether all vertices (n, 3) lie in a plane."""
    spread = np.linalg.svd(vertices - vertices.mean(axis=0), compute_uv=False)
    return bool(spread[2] < 1e-5 * spread[0])


def slab(vertices: Floats, triangles: Ints, thickness: float) -> tuple[Floats, Ints]:
    """A closed slab around a mesh that is flat or nearly so, for emitters made of a plane."""
    a, b, c = np.moveaxis(vertices[triangles], 1, 0)
    normal = np.cross(b - a, c - a).sum(axis=0)
    normal *= 0.5 * thickness / max(float(np.linalg.norm(normal)), 1e-30)
    count = len(vertices)
    edges = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    have = set(map(tuple, edges.tolist()))
    rim = np.array([e for e in edges.tolist() if (e[1], e[0]) not in have], np.int32).reshape(-1, 2)
    i, j = rim.T
    # The walls lead from the upper rim to the lower one.
    sides = [np.stack([j, i, i + count], axis=1), np.stack([j, i + count, j + count], axis=1)]
    both = np.concatenate([vertices + normal, vertices - normal])
    faces = np.concatenate([triangles, triangles[:, ::-1] + count, *sides])
    return both, faces.astype(np.int32)
