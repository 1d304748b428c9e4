"""Solids in the reference backend: distance, what they add to the density, contact, response."""

from __future__ import annotations

import numpy as np
import pytest

from runnel.backends.base import BOX, CYLINDER, PLANE, SPHERE
from runnel.backends.reference.solids import (
    WallTable,
    mend_gradients,
    signed_distances,
    wall_share,
)
from runnel.solver.calibration import KERNELS
from tests.unit.reference_setup import (
    by_id,
    channels,
    lattice_block,
    loaded,
    make_model,
    measure,
    one_thread,  # noqa: F401 - a fixture
    random_rotation,
    solid,
    step,
)

SHAPES = {PLANE: (), BOX: (0.5, 0.7, 0.9), SPHERE: (0.8,), CYLINDER: (0.6, 0.9)}
CASES = [(kind, inside) for kind in SHAPES for inside in (False, True)]
R, DT, G = 0.05, 0.01, 9.81  # radius of particles of spacing 0.1, time step, gravity


def placed(kind: int, inside: bool, seed: int = 0, **options: object) -> np.ndarray:
    """A turned and shifted solid, as float64 so that derivatives can be taken."""
    rng = np.random.default_rng(seed)
    row = solid(
        kind,
        SHAPES[kind],
        inside=inside,
        origin=rng.normal(size=3),
        rotation=random_rotation(rng),
        **options,
    )
    return row[None].astype(np.float64)


@pytest.mark.parametrize(("kind", "inside"), CASES)
def test_distance_is_a_distance(kind, inside):
    """Its slope is the normal, of length 1; going back along that ends on the surface."""
    rng = np.random.default_rng(1)
    row = placed(kind, inside)
    x = row[0, 17:20] + rng.uniform(-1.5, 1.5, (400, 3))
    phi, normal = (a[:, 0] for a in signed_distances(row, x))
    assert (phi > 0).any()
    assert (phi < 0).any()
    slope = np.empty_like(x)
    for axis in range(3):
        shift = np.eye(3)[axis] * 1e-6
        far, near = signed_distances(row, x + shift)[0], signed_distances(row, x - shift)[0]
        slope[:, axis] = (far - near)[:, 0] / 2e-6
    smooth = abs(np.linalg.norm(slope, axis=1) - 1) < 1e-3  # not astride an edge
    assert smooth.mean() > 0.98
    np.testing.assert_allclose(slope[smooth], normal[smooth], atol=1e-4)
    on_surface = signed_distances(row, x - phi[:, None] * normal)[0][:, 0]
    np.testing.assert_allclose(on_surface, 0, atol=1e-6)


@pytest.mark.parametrize(("kind", "inside"), CASES)
def test_distance_has_the_right_sign(kind, inside):
    """Against what the shapes are, said in local coordinates."""
    rng = np.random.default_rng(2)
    row = placed(kind, inside, 3)
    local = rng.uniform(-1.2, 1.2, (500, 3))
    x = local @ row[0, 8:17].reshape(3, 3) + row[0, 17:20]
    size = np.array(SHAPES[kind])
    within = {
        PLANE: lambda: local[:, 2] < 0,
        BOX: lambda: (abs(local) < size).all(axis=1),
        SPHERE: lambda: np.linalg.norm(local, axis=1) < size[0],
        CYLINDER: lambda: (
            (np.hypot(local[:, 0], local[:, 1]) < size[0]) & (abs(local[:, 2]) < size[1])
        ),
    }[kind]()
    assert ((signed_distances(row, x)[0][:, 0] < 0) == (within != inside)).all()


@pytest.mark.parametrize(("kind", "inside"), CASES)
def test_share_gradient_is_its_derivative(kind, inside):
    """With a table whose slope is the share's own: product rule over axes and over solids."""
    q = np.linspace(-1, 1, 257)
    table = WallTable((1 - q) / 2, np.full(257, -0.5), np.zeros(257))
    rows = np.concatenate([placed(kind, inside), placed(PLANE, False, 5), placed(BOX, False, 6)])
    rows[1:, 17:20] = rows[0, 17:20]  # close enough to overlap
    rng = np.random.default_rng(4)
    x = rows[0, 17:20] + rng.uniform(-1.5, 1.5, (300, 3))
    h = np.full(len(x), 0.8)
    value, gradient = wall_share(table, rows, x, h, -1)
    assert ((value > 0.05) & (value < 0.95)).sum() > 60
    numeric = np.empty_like(x)
    for axis in range(3):
        shift = np.eye(3)[axis] * 1e-6
        far = wall_share(table, rows, x + shift, h, -1)[0]
        numeric[:, axis] = (far - wall_share(table, rows, x - shift, h, -1)[0]) / 2e-6
    agree = np.isclose(numeric, gradient, atol=1e-5).all(axis=1)
    assert agree.mean() > 0.97  # the rest lies astride a kink


def tank(dimensions: int, kernel: str, n: int = 7, d: float = 0.1):
    """A lattice that fills a container; fill in the shape of the lattice."""
    centre = np.full(3, n * d / 2)
    half = np.full(3, n * d / 2)
    if dimensions == 2:
        centre[1], half[1] = 0, np.inf
    x = lattice_block((n, n if dimensions == 3 else 0, n), d)
    box = solid(BOX, half, inside=True, origin=centre)
    backend = loaded(make_model(dimensions, kernel), channels(x, d, dimensions), [box])
    measure(backend)
    return backend, by_id(backend, "fill").reshape((n,) * dimensions)


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("kernel", KERNELS)
def test_tank_starts_full(kernel, dimensions):
    """Exactly 1 inside, in the first and the second layer; edges and corners a little short."""
    _, fill = tank(dimensions, kernel)
    distance = np.array([min(k, 6 - k) for k in range(7)])
    places = np.meshgrid(*[distance] * dimensions, indexing="ij")
    walls = sum(p == 0 for p in places)  # how many walls a particle stands beside
    np.testing.assert_allclose(fill[walls <= 1], 1, atol=2e-6)
    short = {
        "even": 0.0034,
        "wendland": 0.0028,
        "poly6": 0.0062,
        "cubic": 0.0034,
        "gaussian": 0.0007,
    }[kernel]
    assert (1 - short < fill[walls == 2]).all()
    assert (fill[walls == 2] < 1).all()
    if dimensions == 3:
        short = {
            "even": 0.0088,
            "wendland": 0.007,
            "poly6": 0.0146,
            "cubic": 0.0083,
            "gaussian": 0.0016,
        }[kernel]
        assert (1 - short < fill[walls == 3]).all()


@pytest.mark.parametrize("kernel", KERNELS)
def test_obstacles_fill_like_a_plane(kernel):
    """Lattice on a plane and on a large box: the same, and exactly full."""
    x = lattice_block((7, 7, 4), 0.1)
    fills = []
    for row in (solid(PLANE), solid(BOX, (5, 5, 1), origin=(0, 0, -1))):
        backend = loaded(make_model(3, kernel), channels(x, 0.1), [row])
        measure(backend)
        fills.append(by_id(backend, "fill").reshape(7, 7, 4))
    np.testing.assert_allclose(fills[0][2:5, 2:5, :2], 1, atol=2e-6)
    np.testing.assert_allclose(fills[0], fills[1], atol=1e-6)


def test_two_planes_make_a_corner_like_a_box():
    """wall = 1 - prod(1 - solid): a container and the planes it consists of agree."""
    turned = np.array([[0, 0, 1.0], [0, 1, 0], [1, 0, 0]])  # local z is world x
    planes = [solid(PLANE), solid(PLANE, rotation=turned)]
    box = [solid(BOX, (1, np.inf, 1), inside=True, origin=(1, 0, 1))]
    x = lattice_block((5, 5, 5), 0.1)
    fills = []
    for rows in (planes, box):
        backend = loaded(make_model(), channels(x, 0.1), rows)
        measure(backend)
        fills.append((by_id(backend, "fill"), by_id(backend, "wall_gradient")))
    np.testing.assert_allclose(fills[0][0], fills[1][0], atol=1e-6)
    np.testing.assert_allclose(fills[0][1], fills[1][1], atol=1e-5)


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize(
    ("before", "p", "felt"),
    [(0.0, -0.3, -0.3), (-0.5, -0.2, 0.3), (-0.1, 0.2, 0.1), (0.1, -0.2, -0.2), (0.1, 0.3, 0.0)],
)
def test_wall_mirrors_pressure_but_no_tension(before, p, felt, dimensions):
    """Beside a wall a particle moves by 2 grad wall / rho0 times the change of min(p, 0)."""
    model = make_model(dimensions)
    backend = loaded(model, channels([[0, 0, 0.06]], 0.1, dimensions), [solid(PLANE)])
    measure(backend)
    backend.write("multiplier", np.array([p]))
    backend.write("change", np.array([p - before]))
    gradient = backend.read("wall_gradient").astype(np.float64)
    assert gradient[0, 2] < 0
    backend.correct_positions()
    expected = max(2 * felt / 1000 * gradient[0, 2], 0.05 - 0.06)  # no nearer than contact
    moved = backend.read("predicted")[0] - np.float32([0, 0, 0.06])
    np.testing.assert_allclose(moved, [0, 0, expected], atol=1e-8)
    np.testing.assert_allclose(backend.read("push")[0], [0, 0, expected], rtol=1e-6, atol=1e-12)


def wall_beside(kind: int, inside: bool) -> np.ndarray:
    """A solid whose surface is, nearly, the plane z = 0 around the origin."""
    turned = np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])  # a cylinder's axis along y
    size = {PLANE: (), BOX: (50, 50, 50), SPHERE: (500,), CYLINDER: (500, 50)}[kind]
    half = {PLANE: 0, BOX: 50, SPHERE: 500, CYLINDER: 500}[kind]
    origin = (0, 0, half if inside else -half)
    rotation = turned if kind == CYLINDER else None
    if kind == PLANE and inside:
        rotation = np.diag([1.0, -1, -1])
    return solid(kind, size, inside=inside, origin=origin, rotation=rotation)


@pytest.mark.parametrize(("kind", "inside"), CASES)
@pytest.mark.parametrize("dimensions", [2, 3])
def test_gradient_along_a_wall_is_whole(kind, inside, dimensions):
    """Under a pressure that rises along the wall, layers beside it move as those far from it."""
    d, layers = 0.1, 6
    x = lattice_block((9, 9 if dimensions == 3 else 0, layers), d) - [0.45, 0.45, 0]
    x[:, 1] *= dimensions == 3
    model = make_model(dimensions)
    model.tensile[:] = 0
    backend = loaded(model, channels(x, d, dimensions), [wall_beside(kind, inside)])
    backend.write("change", backend.read("position")[:, 0])
    backend.correct_positions()
    moved = (by_id(backend, "predicted") - x).reshape(9, -1, layers, 3)
    inner = moved[4, moved.shape[1] // 2, : layers - 2, 0]
    assert abs(inner[2]) > 1e-4
    np.testing.assert_allclose(inner[[0, 1]], inner[2], rtol=0.01)


def test_shear_is_capped():
    """However deep in solids, a correction at most doubles along each of their walls."""
    q = np.linspace(-1, 1, 257)
    table = WallTable((1 - q) / 2, 0 * q, (1 - q) / 2)
    rows = np.stack([solid(PLANE), solid(BOX, (1, 1, 1), inside=True)]).astype(np.float64)
    moved = np.ones((1, 3))
    mend_gradients(table, rows[:1], np.array([[0, 0, -0.05]]), np.array([0.1]), moved)
    np.testing.assert_allclose(moved, [[2, 2, 1]])
    moved[:] = 1
    mend_gradients(table, rows[1:], np.array([[0.99, 0.99, 0.0]]), np.array([0.1]), moved)
    f = 1 / (1 - 0.45)  # at a tenth of h, by this table
    np.testing.assert_allclose(moved, [[f, f, f * f]])


@pytest.mark.parametrize(("kind", "inside"), CASES)
def test_contact_restores_the_distance(kind, inside):
    """Particles in or near a solid end r to 1.01 r off it, the others stay; no two on one plane."""
    rng = np.random.default_rng(6)
    row = placed(kind, inside, 7)
    x = (row[0, 17:20] + rng.uniform(-0.8, 0.8, (300, 3))).astype(np.float32)
    before = signed_distances(row, x)[0][:, 0]
    backend = loaded(make_model(), channels(x, 0.1), row)
    backend.model.tensile[:] = 0  # contact alone
    backend.correct_positions()
    moved = by_id(backend, "predicted")
    after = signed_distances(row, moved)[0][:, 0]
    hit = before < R
    assert hit.any()
    assert (~hit).any()
    assert (after > R - 1e-6).all()
    np.testing.assert_array_equal(moved[before > 1.01 * R], x[before > 1.01 * R])
    if kind in (PLANE, SPHERE):
        assert (after[hit] < 1.01 * R + 1e-6).all()
        assert len(np.unique(np.round(after[hit], 7))) > 0.9 * hit.sum()
    np.testing.assert_allclose(by_id(backend, "push"), moved - x, atol=1e-6)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_corner_of_a_container_holds(dimensions):
    """Every face acts: a particle far out at a corner comes back to r off all of them."""
    half = (0.5, np.inf if dimensions == 2 else 0.5, 0.5)
    y = 0.0 if dimensions == 2 else -0.9
    backend = loaded(
        make_model(dimensions),
        channels([[0.9, y, -0.6]], 0.1, dimensions),
        [solid(BOX, half, inside=True)],
    )
    measure(backend)
    backend.correct_positions()
    x = backend.read("predicted")[0]
    held = x[[0, 2]] if dimensions == 2 else x
    assert (abs(held) <= 0.45 + 1e-6).all()
    assert (abs(held) >= 0.4495 - 1e-6).all()
    assert dimensions == 3 or x[1] == 0


def resting(velocity: tuple[float, float, float], row: np.ndarray, above: float = 0.0):
    """One particle `above` its distance of contact with the plane z = 0, which it touches at 0."""
    model = make_model()
    probe = loaded(model, channels([[0, 0, 0.0]], 0.1), [solid(PLANE)])
    measure(probe)
    probe.correct_positions()
    z = float(probe.read("predicted")[0, 2]) + above
    return loaded(model, channels([[0, 0, z]], 0.1, velocity=velocity), [row])


def test_coulomb_friction():
    """Pressed on by gravity, sliding speed falls by mu g dt per step and ends at 0."""
    mu = 0.4
    backend = resting((1.0, 0, 0), solid(PLANE, friction=mu))
    for k in range(1, 40):
        step(backend, DT, (0, 0, -G))
        expected = max(0.0, 1 - k * mu * G * DT)
        np.testing.assert_allclose(backend.read("velocity")[0], [expected, 0, 0], atol=2e-4)


def test_no_friction_slides_on():
    backend = resting((1.0, 0, 0), solid(PLANE))
    for _ in range(20):
        step(backend, DT, (0, 0, -G))
    np.testing.assert_allclose(backend.read("velocity")[0], [1, 0, 0], atol=1e-5)


@pytest.mark.parametrize("bounce", [0.0, 0.5, 1.0])
def test_bounce(bounce):
    """Normal speed comes back times `bounce`; without, the particle stops at the wall."""
    backend = resting((0.3, 0, -2.0), solid(PLANE, bounce=bounce))
    step(backend, DT)
    np.testing.assert_allclose(backend.read("velocity")[0], [0.3, 0, 2 * bounce], atol=1e-5)
    step(backend, DT)
    np.testing.assert_allclose(backend.read("velocity")[0], [0.3, 0, 2 * bounce], atol=1e-5)


def test_bounce_off_a_moving_wall():
    """Relative to the wall: struck at 1 m/s while at rest, a particle leaves at 1 + bounce."""
    racket = solid(PLANE, bounce=0.5, velocity=(0, 0, 1.0), origin=(0, 0, 1.0 * DT))
    backend = resting((0, 0, 0), racket)
    step(backend, DT)
    np.testing.assert_allclose(backend.read("velocity")[0], [0, 0, 1.5], atol=1e-4)


def test_no_bounce_before_the_wall_is_hit():
    """Within what counts as touching, but not pushed yet."""
    backend = resting((0, 0, -0.1), solid(PLANE, bounce=1.0), above=0.05 * R + 0.1 * DT)
    step(backend, DT)
    np.testing.assert_allclose(backend.read("velocity")[0], [0, 0, -0.1], atol=1e-6)


@pytest.mark.parametrize(("speed", "bounces"), [(1.9, False), (2.1, True)])
def test_what_gravity_gives_in_two_steps_does_not_bounce(speed, bounces):
    """Arriving at less than 2 g dt is rest. The predicted velocity counts, gravity included."""
    backend = resting((0, 0, (1 - speed) * G * DT), solid(PLANE, bounce=0.5))
    step(backend, DT, (0, 0, -G))
    expected = 0.5 * speed * G * DT if bounces else 0.0
    np.testing.assert_allclose(backend.read("velocity")[0], [0, 0, expected], atol=1e-5)


def test_faces_of_a_container_answer_one_by_one():
    """In an edge: pushed by the floor alone, friction slows along it and leaves the wall out."""
    tank_row = solid(BOX, (1, 1, 1), inside=True, origin=(0, 0, 1), friction=0.5)
    x = [[1 - 1.3 * R, 0, 0.0]]  # near the wall x = 1, in the floor
    backend = loaded(make_model(), channels(x, 0.1, velocity=[[0, 1.0, -1.0]]), [tank_row])
    backend.predict(DT, np.array([0, 0, -G], np.float32), np.zeros((0, 12), np.float32))
    backend.find_neighbors()
    backend.write("push", np.array([[0, 0, 1e-3]]))
    backend.update_velocities()
    np.testing.assert_allclose(backend.read("velocity")[0], [0, 1 - 0.5 * 1e-3 / DT, 0], atol=1e-6)


def test_resting_particle_does_not_bounce():
    backend = resting((0.0, 0, 0), solid(PLANE, bounce=1.0))
    for _ in range(20):
        step(backend, DT, (0, 0, -G))
    np.testing.assert_allclose(backend.read("velocity")[0], 0, atol=1e-5)


@pytest.mark.parametrize("stickiness", [0.2, 1.0])
@pytest.mark.parametrize("dt", [1 / 60, 1 / 240])
def test_stickiness_takes_its_share_per_sixtieth_of_a_second(stickiness, dt):
    backend = resting((1.0, 0, 0.1), solid(PLANE, stickiness=stickiness))
    step(backend, dt)
    left = (1 - stickiness) ** (60 * dt)
    np.testing.assert_allclose(backend.read("velocity")[0], [left, 0, 0.1 * left], atol=1e-6)


def test_far_wall_does_nothing():
    row = solid(PLANE, friction=1, bounce=1, stickiness=1)
    backend = resting((1.0, 0, -0.1), row, above=0.01)
    step(backend, DT)
    np.testing.assert_allclose(backend.read("velocity")[0], [1, 0, -0.1], atol=1e-6)


def test_moving_wall_takes_along():
    """A belt: friction acts on the velocity relative to it."""
    backend = resting((0.0, 0, 0), solid(PLANE, friction=0.5, velocity=(0, 2.0, 0)))
    for k in range(1, 60):
        step(backend, DT, (0, 0, -G))
        expected = min(2.0, k * 0.5 * G * DT)
        np.testing.assert_allclose(backend.read("velocity")[0], [0, expected, 0], atol=5e-4)


def test_turning_wall_has_the_velocity_of_its_points():
    """A sticky drum turning about y: u = omega x (x - origin)."""
    drum = solid(SPHERE, (1.0,), origin=(5, 0, 0), stickiness=1.0, angular=(0, 3.0, 0))
    backend = loaded(make_model(), channels([[5, 0, 1 + R]], 0.1), [drum])
    backend.predict(DT, np.zeros(3, np.float32), np.zeros((0, 12), np.float32))
    backend.find_neighbors()
    backend.update_velocities()
    np.testing.assert_allclose(backend.read("velocity")[0], [3 * (1 + R), 0, 0], rtol=1e-5)


def test_moving_wall_pushes():
    """A wall that comes 0.1 m/s faster than the particle leaves it with the wall's speed."""
    backend = resting((0, 0, 0), solid(PLANE, velocity=(0, 0, 0.1), origin=(0, 0, 0.1 * DT)))
    step(backend, DT)
    np.testing.assert_allclose(backend.read("velocity")[0], [0, 0, 0.1], atol=1e-4)


def test_sinks_and_containers_of_life():
    """A sink takes what lies inside; with mode inside, what lies outside."""
    x = [[0, 0, 0], [0.3, 0, 0], [2, 0, 0]]
    wide = np.full(3, 10, np.float32)
    for inside, left in ((False, [2]), (True, [0, 1])):
        backend = loaded(make_model(), channels(x, 0.1))
        backend.remove(solid(SPHERE, (0.5,), inside=inside)[None], -wide, wide, 0.0)
        assert sorted(backend.read("id").tolist()) == left
        assert backend.count == len(left)
