"""Small particle sets, solids and models for tests of the passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product

import numba
import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from runnel.backends.base import BOX, CYLINDER, FIELD, FORCE_COLUMNS, PLANE, SOLID_COLUMNS, SPHERE
from runnel.backends.reference import ReferenceBackend
from runnel.solver.acceleration import weights
from runnel.solver.calibration import calibrate
from runnel.solver.model import Model, attraction_limit, tensile_stiffness

Array = NDArray[np.float64]
NO_FORCES = np.zeros((0, FORCE_COLUMNS), np.float32)
NO_GRAVITY = np.zeros(3, np.float32)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads cost small passes more than they give. For the modules that import it."""
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    yield
    numba.set_num_threads(before)


def make_model(
    dimensions: int = 3,
    kernel: str = "even",
    *,
    support: float = 4.0,
    exact: bool = False,
    rest_density: Sequence[float] = (1000.0,),
    viscosity: Sequence[float] = (0.0,),
    kappa: Sequence[float] = (0.0,),
    vorticity: Sequence[float] = (0.0,),
) -> Model:
    """One fluid per entry of `rest_density`; shorter rows repeat their first entry."""

    def row(values: Sequence[float]) -> NDArray[np.float32]:
        return np.array([values[k if k < len(values) else 0] for k in range(fluids)], np.float32)

    fluids = len(rest_density)
    return Model(
        calibration=calibrate(kernel, dimensions, support),
        ignored_axis=-1 if dimensions == 3 else 1,
        exact=exact,
        rest_density=row(rest_density),
        viscosity=row(viscosity),
        attraction=row([attraction_limit(k) for k in kappa]),
        tensile=row([tensile_stiffness(k) for k in kappa]),
        vorticity=row(vorticity),
    )


def lattice_block(counts: Sequence[int], d: float = 1.0) -> Array:
    """Points at (k + 1/2) d; a count of 0 leaves its axis out (2D)."""
    axes = [(np.arange(n) + 0.5) * d if n else np.zeros(1) for n in counts]
    return np.array(list(product(*axes)))


def random_block(rng: np.random.Generator, n: int, dimensions: int, side: float) -> Array:
    x = rng.uniform(0, side, (n, 3))
    if dimensions == 2:
        x[:, 1] = 0
    return x


def channels(
    x: ArrayLike,
    d: ArrayLike,
    dimensions: int = 3,
    *,
    velocity: ArrayLike = 0.0,
    phase: ArrayLike = 0,
    support: float = 4.0,
) -> dict[str, NDArray[np.generic]]:
    """Channels of particles of spacing d (one, or one each)."""
    position = np.asarray(x, np.float32)
    n = len(position)
    spacing = np.broadcast_to(np.asarray(d, np.float64), n)
    return {
        "position": position,
        "velocity": np.broadcast_to(np.asarray(velocity, np.float32), (n, 3)),
        "volume": (spacing**dimensions).astype(np.float32),
        "kernel_radius": (support / 2 * spacing).astype(np.float32),
        "phase": np.broadcast_to(np.asarray(phase, np.uint32), n),
        "id": np.arange(n, dtype=np.uint32),
    }


def loaded(
    model: Model, rows: dict[str, NDArray[np.generic]], solids: ArrayLike = ()
) -> ReferenceBackend:
    """A backend with these particles, ready for compute_pressure."""
    backend = ReferenceBackend(model)
    backend.load(rows)
    backend.set_solids(np.asarray(solids, np.float32))
    backend.find_neighbors()
    return backend


def by_id(backend: ReferenceBackend, name: str) -> NDArray[np.generic]:
    """A channel in the order of ids."""
    return backend.read(name)[np.argsort(backend.read("id"))]


def chebyshev(model: Model, iterations: int) -> list[tuple[float, float]]:
    """(momentum, gain) of the iterations of a step."""
    return list(islice(weights(model.calibration, iterations, 0.0), iterations))


def measure(backend: ReferenceBackend) -> None:
    """One evaluation of eq. 1 and 2 with P004's own relaxation."""
    backend.compute_pressure(0.0, backend.model.calibration.relaxation)


def step(
    backend: ReferenceBackend,
    dt: float,
    gravity: ArrayLike = NO_GRAVITY,
    iterations: int = 4,
    forces: ArrayLike = NO_FORCES,
) -> None:
    """The passes in order, without viscosity and vorticity."""
    backend.predict(dt, np.asarray(gravity, np.float32), np.asarray(forces, np.float32))
    backend.find_neighbors()
    for momentum, gain in chebyshev(backend.model, iterations):
        backend.compute_pressure(momentum, gain)
        backend.correct_positions(momentum == 0)
    backend.update_velocities()


def solid(
    kind: int,
    size: Sequence[float] = (),
    *,
    inside: bool = False,
    origin: ArrayLike = (0.0, 0.0, 0.0),
    rotation: ArrayLike | None = None,
    friction: float = 0.0,
    bounce: float = 0.0,
    stickiness: float = 0.0,
    velocity: ArrayLike = (0.0, 0.0, 0.0),
    angular: ArrayLike = (0.0, 0.0, 0.0),
    fields: Sequence[int] = (0, 0),
    shell: float = 0.0,
) -> NDArray[np.float32]:
    """A packed row; `rotation` is world -> local. Of a field, `size` is (scale, share)."""
    assert kind in (PLANE, BOX, SPHERE, CYLINDER, FIELD)
    row = np.zeros(SOLID_COLUMNS, np.float32)
    row[0:5] = kind, -1 if inside else 1, friction, bounce, stickiness
    row[5 : 5 + len(size)] = size
    row[8:17] = np.ravel(np.eye(3) if rotation is None else rotation)
    row[17:20], row[20:23], row[23:26] = origin, velocity, angular
    row[26:28], row[28] = fields, shell
    return row


def random_rotation(rng: np.random.Generator) -> Array:
    q, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    return q * np.sign(np.linalg.det(q))
