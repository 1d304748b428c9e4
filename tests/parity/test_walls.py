"""Answers of every solid, with every surface, to particles that touch it or nearly do."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from runnel.backends.base import (
    BODY,
    BOX,
    CYLINDER,
    FIELD,
    PLANE,
    SPHERE,
    field_bits,
    near_bit,
)
from runnel.backends.reference import ReferenceBackend
from runnel.backends.reference.solids import signed_distances
from runnel.fields.grid import FieldSettings
from runnel.fields.rasterize import field_of_mesh
from runnel.meshes import Mesh
from tests.parity.compare import Twins, by_id
from tests.parity.scenes import SOLIDS, Case, fields
from tests.unit.field_meshes import cube
from tests.unit.reference_setup import NO_FORCES, NO_GRAVITY, channels, make_model, solid

D, DT = 0.02, 0.002
PLACE = 1e-4  # [d]: two iterations on places 50 d from the origin
GRAVITY = np.array([0, 0, -9.81], np.float32)
SURFACES = {  # friction, bounce, stickiness
    "free": (0.0, 0.0, 0.0),
    "rough": (0.5, 0.0, 0.0),
    "bouncy": (0.0, 0.8, 0.0),
    "sticky": (0.0, 0.0, 0.3),
    "all": (0.3, 0.4, 0.6),
    "glue": (10.0, 1.0, 1.0),
}


@dataclass(frozen=True)
class Setting:
    """Both backends, a step begun."""

    twins: Twins

    def step(self, gravity: np.ndarray = GRAVITY, leaving_out: np.ndarray | bool = False) -> None:
        self.twins.both("predict", DT, gravity, NO_FORCES)
        self.twins.both("find_neighbors")
        self.twins.share_lists()
        for momentum in (0.0, 0.3):
            self.twins.both("compute_pressure", momentum, 0.6)
            self.twins.both("correct_positions", momentum == 0)
        self.twins.agree("places", "predicted", PLACE * D)
        self.twins.both("update_velocities")
        tolerance = np.where(leaving_out, np.inf, PLACE * D / DT)
        self.twins.agree("velocities", "velocity", tolerance)
        self.twins.agree("held places", "position", np.where(leaving_out, np.inf, 2 * PLACE * D))


def begin(make, rows, solids) -> Setting:
    model = make_model()
    twins = Twins(make(model), ReferenceBackend(model))
    twins.both("load", rows)
    twins.both("set_solids", np.asarray(solids, np.float32), fields())
    return Setting(twins)


def beside(row: np.ndarray, rng: np.random.Generator, n: int) -> np.ndarray:
    """Places around the surface: from a third of r deep to 3 r off."""
    x = rng.uniform(-0.3, 0.9, (60 * n, 3))
    for _ in range(12):  # onto the surface, edges included
        phi, normal = (a[:, 0] for a in signed_distances(row[None], x, fields()))
        x -= phi[:, None] * normal
    x = x[rng.permutation(len(x))[:n]]
    _, normal = signed_distances(row[None], x, fields())
    return x + normal[:, 0] * rng.uniform(-0.15, 1.5, (n, 1)) * D


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("name", sorted(SOLIDS))
def test_walls_answer_alike(name, surface, make_backend):
    """Friction, bounce and stickiness of moving, turning solids."""
    rng = np.random.default_rng(len(name) + len(surface))
    row = SOLIDS[name](Case("walls"), rng)
    row[2:5] = SURFACES[surface]
    x = beside(row, rng, 150)
    v = rng.normal(0, 1.0, x.shape)
    setting = begin(make_backend, channels(x, D, velocity=v), [row])
    setting.step(leaving_out=in_edge(row, x + DT * v))
    push = by_id(setting.twins.reference, "push")[1]
    assert (abs(push).max(axis=1) > 0).sum() > 10


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)])
def test_fields_and_containers_at_one_cluster(order, make_backend):
    """A tank, two fields and a ball within h of the same particles: shares multiply, the first
    field is kept for the correction, the second asked again; whichever comes first."""
    rng = np.random.default_rng(5)
    rows = [SOLIDS[name](Case("walls"), rng) for name in ("torus", "sheet")]
    x = beside(rows[0], rng, 400)
    near = x[np.argsort(signed_distances(rows[1][None], x, fields())[0][:, 0])[:60]]
    middle = near.mean(axis=0)
    tank = solid(BOX, (0.5, 0.5, 0.05), inside=True, origin=middle, friction=0.2)
    ball = solid(SPHERE, (0.1,), origin=middle + np.array([0.1, 0.02, 0.0]), bounce=0.3)
    rows += [tank, ball]
    x = np.concatenate([near, middle + rng.uniform(-2, 2, (90, 3)) * D])
    v = rng.normal(0, 0.5, x.shape)
    solids = [rows[k] for k in order]
    setting = begin(make_backend, channels(x, D, velocity=v), solids)
    setting.step()
    felt = (signed_distances(np.array(solids), x, fields())[0] < 2 * D).sum(axis=1)
    assert (felt > 1).sum() > 20


def in_edge(row: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Near side and end of a hollow cylinder: which of them is nearer is for rounding to say."""
    if row[1] > 0 or row[0] != CYLINDER:
        return np.zeros(len(x), bool)
    local = abs((x - row[17:20]) @ row[8:17].reshape(3, 3).T)
    local = np.stack((np.hypot(local[:, 0], local[:, 1]), local[:, 2]), axis=1)
    return np.count_nonzero(row[5:7] - local < D, axis=1) > 1


@pytest.mark.parametrize("angle", np.linspace(0, 1.5, 6))
def test_only_the_wall_that_was_hit_throws_back(angle, make_backend):
    """In a turned container, pressed onto one wall and on the way to another that is still off."""
    c, s = np.cos(angle), np.sin(angle)
    turn = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])  # world -> local
    box = solid(BOX, (1.0, 1.0, 1.0), inside=True, rotation=turn, origin=(3, 2, 1), bounce=1.0)
    n, r = 40, D / 2
    along = np.linspace(-0.8, 0.8, n)
    local = np.stack((0 * along - 1 + 1.05 * r, along, 0 * along - 1 + 0.9 * r), axis=1)
    speed = np.array([-0.02 * r / DT, 0, -1.0])  # does not reach the first wall in the step
    rows = channels(local @ turn + [3, 2, 1], D, velocity=np.tile(speed @ turn, (n, 1)))
    setting = begin(make_backend, rows, [box])
    setting.step(NO_GRAVITY)
    for backend in (setting.twins.device, setting.twins.reference):
        after = by_id(backend, "velocity")[1] @ turn.T
        assert after[:, 0] == pytest.approx(np.full(n, speed[0]), rel=0.01)
        assert after[:, 2] == pytest.approx(np.full(n, 1.0), rel=0.01)


def test_slow_arrival_rests_and_fast_one_bounces(make_backend):
    """Row by row around the limit 2 |g| dt."""
    speed = 2 * 9.81 * DT * np.array([0.5, 0.9, 0.99, 1.01, 1.1, 2.0])
    x = np.stack((np.arange(6.0), 0 * speed, 0 * speed + D / 2), axis=1)
    v = np.zeros_like(x)
    v[:, 2] = -(speed - 9.81 * DT)  # gravity adds the rest
    setting = begin(make_backend, channels(x, D, velocity=v), [solid(PLANE, bounce=1.0)])
    setting.step()
    after = by_id(setting.twins.device, "velocity")[1][:, 2]
    assert (after[3:] > 0.9 * speed[3:]).all()
    assert (after[:3] < 0.1 * speed[0] + 0.005 * D / DT).all()


def test_long_ways_end_at_walls_they_did_not_start_near(make_backend):
    """Crowds that throw each other farther than h, from places where no wall is felt."""
    h, places = 2 * D, 9
    crowd = np.random.default_rng(1).uniform(0, 0.3 * D, (4, 3)) + np.array([0, 0, 1.02 * h])
    crowd[0, 2] = 1.01 * h
    x = np.concatenate([crowd + np.array([k - places // 2, 0, 0]) for k in range(places)])
    floor = solid(BOX, (9, 9, 1), origin=(0, 0, -1), friction=0.5)
    twins = begin(make_backend, channels(x, D), [floor]).twins
    twins.both("predict", DT, NO_GRAVITY, NO_FORCES)
    twins.both("find_neighbors")
    twins.both("compute_pressure", 0.0, 8.0)
    assert by_id(twins.device, "predicted")[1][:, 2].min() > h
    twins.both("correct_positions")
    twins.agree("places", "predicted", PLACE * D)
    twins.agree("push", "push", PLACE * D)
    landed = by_id(twins.device, "push")[1][:, 2] > 0
    assert landed.sum() >= places
    assert by_id(twins.device, "predicted")[1][:, 2].min() >= 0.499 * D


def test_fields_that_were_clear_when_asked_are_met_later_in_the_step(make_backend):
    """Crowds beyond h of a field: they stay there at first, then throw each other onto it."""
    h, voxel = 2 * D, 0.75 * D
    settings = FieldSettings(voxel=voxel, band=2.2 * D + 2 * voxel)
    plate = field_of_mesh(cube((-0.5, -0.5, -0.2), 1.0), settings)
    crowd = np.random.default_rng(2).uniform(0, 0.3 * D, (4, 3)) + np.array([0, 0, 0.8 + 1.3 * h])
    x = np.concatenate(
        [crowd + np.array([a, b, 0]) for a in (-0.3, 0, 0.3) for b in (-0.3, 0, 0.3)]
    )
    model = make_model()
    twins = Twins(make_backend(model), ReferenceBackend(model))
    twins.both("load", channels(x, D))
    twins.both("set_solids", solid(FIELD, (1.0,), friction=0.3)[None], [plate])
    twins.both("predict", DT, NO_GRAVITY, NO_FORCES)
    twins.both("find_neighbors")
    for k, gain in enumerate((1e-3, 1e-3, 16.0)):
        twins.both("compute_pressure", 0.0, gain)
        twins.both("correct_positions", k == 0)
    twins.agree("places", "predicted", PLACE * D)
    twins.agree("push", "push", PLACE * D)
    twins.both("update_velocities")
    twins.agree("velocities", "velocity", PLACE * D / DT)
    after = by_id(twins.device, "position")[1][:, 2] - 0.8
    assert (after < 0.6 * D).sum() >= 9
    assert after.min() > 0.49 * D


def test_long_ways_in_a_crevice_end_at_the_wall_across(make_backend):
    """Between two sheets, a particle wide: the nearer one does not tell of the other."""
    voxel = 0.75 * D
    half = 1.6 * voxel  # 0.6 voxels free on each side of the middle
    corners = [[x, y, z] for x in (-half, half) for y in (-0.5, 0.5) for z in (-0.5, 0.5)]
    sheets = Mesh(np.array(corners), np.array([[0, 1, 2], [1, 3, 2], [4, 5, 6], [5, 7, 6]]))
    settings = FieldSettings(voxel=voxel, band=2.2 * D + 2 * voxel, mode="shell", thickness=voxel)
    # Pairs beside the middle that throw each other across it.
    pair = np.array([[0.1, 0, 0], [0.3, 0, 0]]) * voxel
    x = np.concatenate([s * pair + [0, y, 0] for s in (-1, 1) for y in np.linspace(-0.4, 0.4, 9)])
    model = make_model()
    twins = Twins(make_backend(model), ReferenceBackend(model))
    twins.both("load", channels(x, D))
    twins.both("set_solids", solid(FIELD, (1.0,))[None], [field_of_mesh(sheets, settings)])
    twins.both("predict", DT, NO_GRAVITY, NO_FORCES)
    twins.both("find_neighbors")
    twins.both("compute_pressure", 0.0, 10.0)
    twins.both("correct_positions")
    twins.agree("places", "predicted", PLACE * D)
    after = by_id(twins.device, "predicted")[1]
    assert abs(after[:, 0]).max() < half - 0.2 * voxel


def test_what_is_jammed_does_not_fly_through_a_sheet(make_backend):
    """A little within the surface, and fast enough to come out on the other side."""
    voxel = 0.75 * D
    corners = [[-0.5, -0.5, 0], [0.5, -0.5, 0], [0.5, 0.5, 0], [-0.5, 0.5, 0]]
    sheet = Mesh(np.array(corners), np.array([[0, 1, 2], [0, 2, 3]]))
    settings = FieldSettings(voxel=voxel, band=2.2 * D + 2 * voxel, mode="shell", thickness=voxel)
    depth = np.linspace(0.05, 0.45, 9) * D / 2
    x = np.stack((np.linspace(-0.4, 0.4, 9), np.full(9, 0.01), voxel - depth), axis=1)
    v = np.tile([0.5, 0.2, -3 * D / DT], (9, 1))
    model = make_model()
    twins = Twins(make_backend(model), ReferenceBackend(model))
    twins.both("load", channels(x, D, velocity=v))
    twins.both("set_solids", solid(FIELD, (1.0,))[None], [field_of_mesh(sheet, settings)])
    twins.both("predict", DT, NO_GRAVITY, NO_FORCES)
    twins.both("stop_at_solids")
    twins.agree("velocities", "velocity", PLACE * D / DT)
    there = x + DT * by_id(twins.device, "velocity")[1]
    assert there[:, 2].min() > 0.5 * voxel


@pytest.mark.parametrize("hollow", [False, True], ids=["solid", "hollow"])
def test_middling_ways_end_at_walls_too(hollow, make_backend):
    """From where the share of a wall has just ended, 0.75 h off."""
    h, places = 2 * D, 9
    crowd = np.random.default_rng(1).uniform(0, 0.3 * D, (4, 3)) + np.array([0, 0, 0.77 * h])
    x = np.concatenate([crowd + np.array([k - places // 2, 0, 0]) for k in range(places)])
    floor = solid(BOX, (9, 9, 1), inside=hollow, origin=(0, 0, 1 if hollow else -1))
    twins = begin(make_backend, channels(x, D), [floor]).twins
    met = []
    for gain in np.linspace(1, 8, 43):
        twins.both("predict", DT, NO_GRAVITY, NO_FORCES)
        twins.both("find_neighbors")
        twins.both("compute_pressure", 0.0, float(gain))
        assert (twins.device.read("fill") == twins.device.read("fluid_fill")).all()
        twins.both("correct_positions")
        twins.agree("places", "predicted", PLACE * D)
        met.append(int((by_id(twins.reference, "push")[1][:, 2] != 0).sum()))
    assert min(met) == 0 < max(met)


def test_many_solids(make_backend):
    """More than there are bits to remember which of them are near."""
    rng = np.random.default_rng(9)
    balls = [
        solid(SPHERE, (0.05,), origin=rng.uniform(0, 1, 3), friction=0.2, bounce=k % 2)
        for k in range(40)
    ]
    x = np.concatenate([beside_ball(row, rng) for row in balls])
    v = rng.normal(0, 1, x.shape)
    begin(make_backend, channels(x, D, velocity=v), balls).step()


def beside_ball(row: np.ndarray, rng: np.random.Generator, n: int = 6) -> np.ndarray:
    direction = rng.normal(size=(n, 3))
    direction /= np.linalg.norm(direction, axis=1)[:, None]
    return row[17:20] + direction * (0.05 + rng.uniform(0, D, (n, 1)))


def test_narrow_container_keeps_what_it_holds(make_backend):
    """Narrower than a particle: it stays in the middle, on every backend."""
    box = solid(BOX, (1.0, 0.3 * D, 1.0), inside=True)
    x = np.array([[0, 0.2 * D, 0], [0.5, -0.6 * D, 0], [-0.5, 0, 0.99]])
    setting = begin(make_backend, channels(x, D), [box])
    setting.step()
    assert abs(by_id(setting.twins.device, "position")[1][:, 1]).max() < 1e-6


@pytest.mark.parametrize("axis", [1, 2])
def test_particle_in_the_middle_of_a_ball_stays_in_its_plane(axis, make_backend):
    """2D: there is no way out along the ignored axis."""
    model = replace(make_model(2), ignored_axis=axis)
    twins = Twins(make_backend(model), ReferenceBackend(model))
    twins.both("load", channels(np.zeros((1, 3)), D, 2))
    twins.both("set_solids", solid(SPHERE, (0.1,))[None])
    Setting(twins).step(NO_GRAVITY)
    at = by_id(twins.device, "position")[1][0]
    assert at[axis] == 0
    assert np.linalg.norm(at) > 0.1 + 0.499 * D


def test_fields_are_known_by_bits_of_their_own():
    """Of many solids some share a bit: then none of the fields is passed by."""
    ball, mesh, tank = (solid(kind, (1.0, 1.0, 1.0)) for kind in (SPHERE, FIELD, BOX))
    assert field_bits(np.array([tank, mesh, ball, mesh])) == 0b1010
    moved = mesh.copy()
    moved[BODY] = 1
    assert field_bits(np.array([mesh, moved])) == 0b1
    many = [ball] * 40
    assert field_bits(np.array([mesh, *many])) == 0b1
    assert field_bits(np.array([*many, mesh])) == 0
    assert field_bits(np.array([mesh] * 40)) == sum({near_bit(s) for s in range(40)})
