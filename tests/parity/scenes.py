"""Small states that bring out every branch of the passes: sizes, fluids, kernels, solids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from runnel.backends.base import (
    BOX,
    CYLINDER,
    FIELD,
    FORCE_COLUMNS,
    PLANE,
    POINT,
    SOLID_COLUMNS,
    SPHERE,
    VORTEX,
    WIND,
    Current,
)
from runnel.backends.reference.field import world_of
from runnel.backends.reference.solids import signed_distances
from runnel.fields.flow import Flow
from runnel.fields.grid import SparseField, default_settings
from runnel.fields.rasterize import field_of_mesh
from runnel.fields.velocity import deform
from runnel.fields.walls import with_walls
from runnel.meshes import Mesh
from runnel.solver.model import Model
from tests.unit.field_meshes import cube, sphere, torus
from tests.unit.reference_setup import channels, lattice_block, make_model, random_rotation, solid

Array = NDArray[np.float64]
Rows = dict[str, NDArray[np.generic]]
D = 0.1  # largest spacing [m]
ENDLESS = 1e9


@dataclass(frozen=True)
class Case:
    """A state and what acts on it. One number seeds everything."""

    name: str
    dimensions: int = 3
    ignored_axis: int = 1  # in 2D
    kernel: str = "even"
    support: float = 4.0
    exact: bool = False
    ratio: float = 1.0  # of sizes
    fluids: int = 1
    solids: Sequence[str] = ()
    viscosity: float = 0.3
    twins: int = 0
    count: int | None = None  # cut to so many particles
    reorder_interval: int = 1
    dt: float = 0.004

    def __str__(self) -> str:
        return self.name

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(sum(ord(c) for c in self.name))

    def model(self) -> Model:
        rows = slice(0, self.fluids)
        model = make_model(
            self.dimensions,
            self.kernel,
            support=self.support,
            exact=self.exact,
            rest_density=(1000.0, 100.0, 650.0)[rows],
            viscosity=(self.viscosity, 0.1, 1.2 * self.viscosity)[rows],
            kappa=(0.0, 0.8, 0.3)[rows],
            vorticity=(0.6, 0.2, 0.0)[rows],
        )
        return replace(model, ignored_axis=self.ignored_axis if self.dimensions == 2 else -1)

    def rows(self) -> Rows:
        """Calm enough that no correction carries a particle farther than walls are felt."""
        rng = self.rng
        x, d = block(self.dimensions, self.ratio)
        x += rng.normal(0, 0.05, x.shape) * d[:, None]
        if self.twins:
            alike = np.flatnonzero(d == d.min())
            chosen = rng.choice(alike, 2 * self.twins, replace=False)
            x[chosen[: self.twins]] = x[chosen[self.twins :]]
        if self.dimensions == 2:
            x = into_plane(x, self.ignored_axis)
        axis = self.ignored_axis if self.dimensions == 2 else -1
        world = world_of(self.solid_rows(), fields(), axis)
        depth = signed_distances(world, x)[0].min(axis=1, initial=1)
        kept = rng.permutation(np.flatnonzero(depth > 0.15 * d))[: self.count]
        assert self.count is None or len(kept) == self.count
        x, d = x[kept], d[kept]
        v = rng.normal(0, 0.5, x.shape)
        if self.dimensions == 2:
            v[:, self.ignored_axis] = 0
        phase = rng.integers(0, self.fluids, len(x))
        rows = channels(x, d, self.dimensions, velocity=v, phase=phase, support=self.support)
        rows["id"] = rng.permutation(3 * len(x))[: len(x)].astype(np.uint32)
        rows["expiry"] = np.where(rng.random(len(x)) < 0.05, 2.5 * self.dt, np.inf)
        return rows

    def solid_rows(self) -> NDArray[np.float32]:
        made = [SOLIDS[name](self, self.rng) for name in self.solids]
        return np.stack(made) if made else np.zeros((0, SOLID_COLUMNS), np.float32)

    def gravity(self) -> NDArray[np.float32]:
        up = 2 if self.dimensions == 3 or self.ignored_axis == 1 else 1
        return (-9.81 * np.eye(3)[up]).astype(np.float32)

    def turned(self, angle: float) -> Array:
        """World -> local: any rotation by an angle; in 2D about the ignored axis."""
        axis = np.eye(3)[self.ignored_axis]
        if self.dimensions == 3:
            axis = random_rotation(self.rng)[0]
        k = np.cross(np.eye(3), axis)
        return np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * k @ k

    def placed(self, point: Sequence[float]) -> Array:
        flat = np.array(point, np.float64)
        return into_plane(flat[None], self.ignored_axis)[0] if self.dimensions == 2 else flat

    def off_cells(self, point: Sequence[float]) -> Array:
        """Of a field in 2D: so that the plane does not lie on cells' borders, where the gradient
        jumps."""
        off = 0.013 * np.eye(3)[self.ignored_axis] if self.dimensions == 2 else 0.0
        return self.placed(point) + off

    def endless(self, half: Sequence[float]) -> Array:
        """Half sizes; without end along the axis left out."""
        sizes = np.array(half, np.float64)
        if self.dimensions == 2:
            sizes[self.ignored_axis] = ENDLESS
        return sizes

    def motion(self) -> dict[str, ArrayLike]:
        spin = np.array([3.0, -2.0, 4.0])
        if self.dimensions == 2:
            spin = 5 * np.eye(3)[self.ignored_axis]
        return {"velocity": self.placed((0.8, -0.5, 0.6)), "angular": spin}


SURFACE = {"friction": 0.4, "bounce": 0.5, "stickiness": 0.2}
SIDE = 0.6  # of the block [m]
MIDDLE = (0.3, 0.3, 0.3)


def into_plane(x: Array, axis: int) -> Array:
    """Of what was laid out over x and z: onto the plane that leaves out `axis`."""
    flat = np.zeros_like(x)
    flat[:, 0], flat[:, 3 - axis] = x[:, 0], x[:, 2]
    return flat


def block(dimensions: int, ratio: float) -> tuple[Array, Array]:
    """Places and spacings: a lattice of D; of two sizes the upper part is that much finer."""
    deep = dimensions == 3
    if ratio == 1.0:
        x = lattice_block((6, 6 if deep else 0, 6) if deep else (17, 0, 17), D)
        x *= SIDE / x.max() * 0.95 if not deep else 1.0
        d = np.full(len(x), D if deep else SIDE / 17)
        return x, d
    fine = D / ratio
    n = 4 if deep else 6
    many = int(n * D / fine)
    coarse = lattice_block((n, n if deep else 0, 3), D)
    layers = 3 if deep else int(3 * D / fine)
    small = lattice_block((many, many if deep else 0, layers), fine) + np.array([0, 0, 3 * D])
    x = np.concatenate((coarse, small))
    return x, np.concatenate((np.full(len(coarse), D), np.full(len(small), fine)))


def _plane(case: Case, rng: np.random.Generator) -> NDArray[np.float32]:
    up = case.gravity() / -9.81
    across = np.eye(3)[0]
    frame = np.stack([across, np.cross(up, across), up])  # local z is up
    tilted = frame @ case.turned(0.1)
    return solid(PLANE, origin=0.03 * up, rotation=tilted, **SURFACE, **case.motion())


def _box_in(case: Case, rng: np.random.Generator) -> NDArray[np.float32]:
    half = case.endless((0.29, 0.29, 0.29))
    origin, turn = case.placed(MIDDLE), case.turned(0.07)
    return solid(BOX, half, inside=True, origin=origin, rotation=turn, **SURFACE, **case.motion())


def _box_out(case: Case, rng: np.random.Generator) -> NDArray[np.float32]:
    half = case.endless((0.12, 0.2, 0.09))
    origin, turn = case.placed((0.35, 0.1, 0.2)), case.turned(0.6)
    return solid(BOX, half, origin=origin, rotation=turn, **SURFACE, **case.motion())


def _sphere_in(case: Case, rng: np.random.Generator) -> NDArray[np.float32]:
    origin = case.placed(MIDDLE)
    return solid(SPHERE, (0.42,), inside=True, origin=origin, **SURFACE, **case.motion())


def _sphere_out(case: Case, rng: np.random.Generator) -> NDArray[np.float32]:
    origin = case.placed((0.15, 0.4, 0.3))
    return solid(SPHERE, (0.14,), origin=origin, **SURFACE, **case.motion())


def _cylinder(case: Case, inside: bool, point: Sequence[float], size: tuple[float, float]):
    turn = case.turned(0.5)
    if case.dimensions == 2:  # a circle: its axis across the plane
        axis = case.ignored_axis
        turn = np.eye(3)[[(axis + 1) % 3, (axis + 2) % 3, axis]]
        size = (size[0], ENDLESS)
    origin = case.placed(point)
    return solid(
        CYLINDER, size, inside=inside, origin=origin, rotation=turn, **SURFACE, **case.motion()
    )


def _cylinder_in(case: Case, rng: np.random.Generator) -> NDArray[np.float32]:
    return _cylinder(case, True, MIDDLE, (0.4, 0.33))


def _cylinder_out(case: Case, rng: np.random.Generator) -> NDArray[np.float32]:
    return _cylinder(case, False, (0.45, 0.3, 0.35), (0.08, 0.2))


def _free_box(case: Case, rng: np.random.Generator) -> NDArray[np.float32]:
    """Neither rough nor bouncy nor sticky, at rest, straight: as the walls of a domain."""
    half = case.endless((0.29, 0.29, 0.29))
    return solid(BOX, half, inside=True, origin=case.placed(MIDDLE))


@cache
def fields() -> tuple[SparseField, ...]:
    """What rows of fields give numbers of."""
    coarse = default_settings(0.05, 0.25)
    ball = sphere(0.15, 40)
    larger = Mesh(ball.vertices * [1.1, 1.0, 1.2] + 0.01, ball.triangles)
    sheet = Mesh(np.array([[0, 0, 0], [1, 0, 0.2], [0, 1, 0], [1, 1, 0]]), np.array(
        [[0, 1, 2], [2, 1, 3]], np.int32))  # fmt: skip
    return (
        with_walls(field_of_mesh(torus(0.2, 0.09, 60, 30), coarse), 0.22),
        with_walls(field_of_mesh(cube((-0.29,) * 3, 0.58), replace(coarse, mode="inside")), 0.22),
        field_of_mesh(sheet, replace(coarse, mode="shell")),
        deform(ball, ball, 0.04, coarse),
        with_walls(deform(ball, larger, 0.04, coarse), 0.22),
    )


def _torus(case: Case, rng: np.random.Generator) -> NDArray[np.float32]:
    origin, turn = case.off_cells((0.35, 0.3, 0.2)), case.turned(0.6)
    return solid(FIELD, (0.9,), origin=origin, rotation=turn, **SURFACE, **case.motion())


def _mesh_tank(case: Case, rng: np.random.Generator) -> NDArray[np.float32]:
    origin, turn = case.placed(MIDDLE), case.turned(0.07)
    return solid(
        FIELD, (1.02,), origin=origin, rotation=turn, fields=(1, 1), **SURFACE, **case.motion()
    )


def _sheet(case: Case, rng: np.random.Generator) -> NDArray[np.float32]:
    origin, turn = case.placed((-0.2, -0.2, 0.1)), case.turned(0.1)
    return solid(FIELD, (1.1,), origin=origin, rotation=turn, fields=(2, 2), **SURFACE)


def _breathing(case: Case, rng: np.random.Generator) -> NDArray[np.float32]:
    origin, turn = case.off_cells((0.3, 0.3, 0.35)), case.turned(0.9)
    return solid(
        FIELD, (0.8, 0.6), origin=origin, rotation=turn, fields=(3, 4), **SURFACE, **case.motion()
    )


def _box_shell(case: Case, rng: np.random.Generator) -> NDArray[np.float32]:
    half = case.endless((0.22, 0.25, 0.21))
    origin, turn = case.placed(MIDDLE), case.turned(0.3)
    return solid(BOX, half, origin=origin, rotation=turn, shell=0.03, **SURFACE, **case.motion())


SOLIDS = {
    "torus": _torus,
    "mesh tank": _mesh_tank,
    "sheet": _sheet,
    "breathing": _breathing,
    "box shell": _box_shell,
    "plane": _plane,
    "box in": _box_in,
    "box out": _box_out,
    "sphere in": _sphere_in,
    "sphere out": _sphere_out,
    "cylinder in": _cylinder_in,
    "cylinder out": _cylinder_out,
    "free box": _free_box,
}


def forces(case: Case) -> NDArray[np.float32]:
    rows = np.zeros((4, FORCE_COLUMNS), np.float32)
    centre = case.placed((0.2, 0.3, 0.4))
    rows[0, :3], rows[0, 3:6] = (WIND, 3.0, 3e38), case.placed((4, 1, -2))
    rows[1, :3], rows[1, 6:9] = (POINT, 30.0, 0.3), centre
    rows[2, :3], rows[2, 3:6], rows[2, 6:9] = (VORTEX, 20.0, 0.4), (0, 0, 1), centre
    rows[3, :3], rows[3, 6:9] = (POINT, -8.0, 3e38), -centre
    if case.dimensions == 2:
        rows[2, 3:6] = np.eye(3)[case.ignored_axis]
    return rows


def currents(case: Case) -> tuple[Current, ...]:
    """Two frames of a field on other nodes each, which end amid the particles, and one that
    stands; slow, so that what follows is as without them."""
    made = []
    for low, voxel, dims in (((-0.1,) * 3, 0.07, (5, 6, 7)), ((-0.2,) * 3, 0.11, (4, 4, 3))):
        values = case.rng.uniform(-0.3, 0.3, (*dims, 4)).astype(np.float32)
        values[..., 3] = abs(values[..., 3])
        made.append(
            Flow(voxel, case.placed(low) - (voxel / 2) * (case.placed((1, 1, 1)) == 0), values)
        )
    return Current(3.0, made[0], made[1], 0.3), Current(1e4, made[1], made[1], 0.0)


def sinks(case: Case) -> NDArray[np.float32]:
    origin = case.placed((0.5, 0.5, 0.1))
    ball = solid(SPHERE, (0.12,), origin=origin)
    mesh = solid(FIELD, (0.5,), origin=case.placed((0.1, 0.1, 0.5)), fields=(3, 3))
    return np.stack([ball, mesh])


EVERYTHING = ("plane", "box in", "box out", "sphere out", "cylinder out")
CASES = (
    Case("tank", solids=("box in",)),
    Case("wide", support=4.4, fluids=2, ratio=2.15, solids=("box in", "cylinder out")),
    Case("mixed in all solids", ratio=2.15, fluids=3, solids=EVERYTHING, reorder_interval=5),
    Case("very mixed exact cubic", ratio=4.0, fluids=2, kernel="cubic", exact=True),
    Case("flat poly6", dimensions=2, kernel="poly6", solids=("plane", "sphere out"), twins=4),
    Case("flat mixed gaussian", dimensions=2, ignored_axis=2, ratio=2.15, fluids=3,
         kernel="gaussian", exact=True, solids=("box out", "cylinder in")),
    Case("fluids in a ball", fluids=2, kernel="poly6", solids=("sphere in", "cylinder out")),
    Case("very mixed in a drum", ratio=4.0, kernel="gaussian", solids=("cylinder in",), twins=5),
    Case("flat exact", dimensions=2, fluids=2, exact=True, solids=("box in",), count=264),
    Case("thick gaussian", kernel="gaussian", viscosity=1.7, count=208, reorder_interval=5),
    Case("flat very mixed", dimensions=2, ignored_axis=2, ratio=4.0, viscosity=0.8,
         solids=("free box", "plane"), reorder_interval=5, count=221),
    Case("cubic", kernel="cubic", solids=("plane",), count=157, twins=3),
    Case("exact", exact=True, solids=("plane", "box out"), count=161),
    Case("meshes", support=4.4, fluids=2, ratio=2.15, solids=("mesh tank", "breathing")),
    Case("sheet", solids=("sheet", "plane"), reorder_interval=5),
    Case("flat meshes", dimensions=2, solids=("torus", "breathing", "box shell")),
    Case("mesh and box", solids=("torus", "free box", "box shell")),
)  # fmt: skip
