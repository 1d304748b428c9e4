"""Sources: the right number of particles, in the right place, however time is divided."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import cKDTree

from runnel import sources, surface
from runnel.errors import MeshError, SceneError
from runnel.meshes import Mesh
from runnel.particles import ParticleStore
from runnel.scene import Scene
from runnel.sources import (
    Emitter,
    MassLedger,
    emitters,
    fill_volume,
    fill_volumes,
    select,
    without_overlap,
)
from tests.unit.field_meshes import cube

CUBE = {"box": {"min": [0, 0, 0], "max": [1, 1, 1]}}
NOZZLE = {"box": {"min": [-0.2, -0.2, -0.1], "max": [0.2, 0.2, 0.1]}}
FLUIDS = [{"name": "oil", "density": 800.0}, {"name": "water", "density": 1000.0}]
TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 3 1 4\n"

reproducible = settings(max_examples=30, deadline=None, derandomize=True)


def scene(*parts, directory=None, **keys) -> Scene:
    listed = [{"fluid": "water", "shape": CUBE, "spacing": 0.1, **part} for part in parts]
    data = {"fps": 24, "frames": [1, 100], "seed": 3, "fluid": FLUIDS, "source": listed, **keys}
    return Scene.from_dict(data, directory)


def stream(**keys) -> Scene:
    emitter = {"kind": "emitter", "shape": NOZZLE, "velocity": [0, 0, 2], **keys}
    return scene(emitter)


def run(emitter, times):
    """Births over a sequence of times, each carried on to the last by its own velocity."""
    parts = []
    for t0, t1 in itertools.pairwise(times):
        births = emitter.emit(t0, t1)
        late = births["velocity"].astype(float) * (times[-1] - t1)
        births["position"] = births["position"] + late
        parts.append(births)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def nearest(points):
    return cKDTree(points).query(points, k=2)[0][:, 1]


# --- volumes --------------------------------------------------------------------------------------


def test_a_volume_has_all_channels():
    births = fill_volume(scene({"velocity": [1, 2, 3], "lifetime": 5, "spacing": 0.1}), 0)
    assert {name: len(values) for name, values in births.items()} == dict.fromkeys(
        ["position", "velocity", "volume", "kernel_radius", "phase", "birth", "expiry"], 1000
    )
    assert births["velocity"].tolist() == [[1, 2, 3]] * 1000
    assert births["volume"] == pytest.approx(0.001)
    assert births["kernel_radius"] == pytest.approx(0.22)  # support 4.4 radii
    assert (births["phase"] == 1).all()
    assert (births["expiry"] == 5).all()
    store = ParticleStore()
    assert len(store.add(1000, **births)) == 1000


def test_without_lifetime_particles_stay():
    assert np.isinf(fill_volume(scene({}), 0)["expiry"]).all()


def test_kernel_radius_follows_the_support():
    births = fill_volume(scene({}, solver={"support": 3.0}), 0)
    assert births["kernel_radius"] == pytest.approx(0.15)


@pytest.mark.parametrize(("up", "axis"), [("z", 1), ("y", 2)])
def test_volumes_in_2d(up, axis):
    births = fill_volume(scene({"velocity": [1, 1, 1], "jitter": 0.3}, dimensions=2, up=up), 0)
    assert len(births["position"]) == 100
    assert births["volume"] == pytest.approx(0.01)
    assert not births["position"][:, axis].any()
    assert not births["velocity"][:, axis].any()
    assert births["velocity"][0].sum() == 2


def test_jitter_is_bounded_and_reproducible():
    plain = fill_volume(scene({}), 0)["position"]
    first = fill_volume(scene({"jitter": 0.2}), 0)["position"]
    assert np.abs(first - plain).max() <= 0.02 + 1e-6
    assert np.abs(first - plain).std() > 0.003
    assert (fill_volume(scene({"jitter": 0.2}), 0)["position"] == first).all()
    assert (fill_volume(scene({"jitter": 0.2, "seed": 3}), 0)["position"] == first).all()
    assert (fill_volume(scene({"jitter": 0.2, "seed": 4}), 0)["position"] != first).any()
    two = scene({"jitter": 0.2}, {"jitter": 0.2})
    assert (fill_volume(two, 1)["position"] != first).any()


def test_a_moving_volume_hands_on_its_motion():
    """Half of the velocity, and half of the rotation about the origin of the source."""
    keys = [{"frame": 1}, {"frame": 25, "position": [24, 0, 0], "rotation": [0, 0, 90]}]
    births = fill_volume(scene({"motion": keys, "inherit_velocity": 0.5, "velocity": [0, 0, 7]}), 0)
    x, y, _ = births["position"].T
    spin = np.pi / 4
    expected = np.stack([12 - spin * y, spin * x, np.full_like(x, 7)], axis=1)
    assert np.allclose(births["velocity"], expected, atol=1e-3)


def test_a_volume_that_holds_nothing_is_an_error():
    with pytest.raises(SceneError, match=r"source\[0\]\.spacing = 5.0: no particle fits"):
        fill_volume(scene({"spacing": 5.0}), 0)


def test_mesh_volumes(tmp_path):
    (tmp_path / "t.obj").write_text(TETRAHEDRON)
    births = fill_volume(
        scene({"shape": {"mesh": "t.obj"}, "spacing": 0.02}, directory=tmp_path), 0
    )
    assert len(births["position"]) * 0.02**3 == pytest.approx(1 / 6, rel=0.02)


def test_an_open_mesh_names_file_and_source(tmp_path):
    (tmp_path / "t.obj").write_text(TETRAHEDRON.replace("f 3 1 4\n", ""))
    broken = scene({"shape": {"mesh": "t.obj"}}, directory=tmp_path)
    with pytest.raises(MeshError, match=r"t\.obj: source\[0\]\.shape: the mesh is open"):
        fill_volume(broken, 0)


def test_later_volumes_leave_room_to_earlier_ones():
    """A ball half in a pool: no particle of it in the pool, none too near, none lost outside."""
    ball = {"sphere": {"center": [0.53, 0.52, 1.04], "radius": 0.31}}
    both = scene({"fluid": "oil"}, {"shape": ball, "spacing": 0.05})
    (first, pool), (second, drop) = fill_volumes(both)
    assert (first, second) == (0, 1)
    assert len(pool["position"]) == 1000
    alone = fill_volume(both, 1)["position"]
    above = alone[:, 2] > 1
    assert 0.9 * above.sum() < len(drop["position"]) <= above.sum()
    assert (drop["position"][:, 2] > 1).all()
    distance, _ = cKDTree(pool["position"]).query(drop["position"])
    assert distance.min() >= 0.7 * 0.075 - 1e-6


def test_neighbouring_volumes_lose_nothing():
    side = {"box": {"min": [1, 0, 0], "max": [2, 1, 1]}}
    parts = fill_volumes(scene({}, {"kind": "emitter", "velocity": [1, 0, 0]}, {"shape": side}))
    assert [(index, len(births["position"])) for index, births in parts] == [(0, 1000), (2, 1000)]


def test_equal_volumes_give_one():
    parts = fill_volumes(scene({}, {"spacing": 0.07, "position": [0.01, 0.01, 0.01]}))
    assert len(parts[0][1]["position"]) == 1000
    inner = parts[1][1]["position"]
    assert (inner.max(axis=1) > 1).all()  # only what sticks out


# --- emitters -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"speed": 3.0},
        {"rate": 0.5},
        {"velocity": [0.3, -0.5, 1.7]},
        {"shape": {"sphere": {"center": [0, 0, 0], "radius": 0.33}}, "rate": 0.4},
        {"shape": {"cylinder": {"start": [0, 0, 0], "end": [1, 1, 1], "radius": 0.3}},
         "velocity": [0, 0, 0], "speed": 2.0},
        {"rotation": [30, 40, 50], "scale": 1.5, "rate": 0.7},
    ],
)  # fmt: skip
def test_number_of_particles(keys):
    """ORACLES 24: N = Q t / V_p within 1 %; Q is the rate if one is given."""
    emitter = Emitter(stream(**keys), 0)
    rate = keys.get("rate", emitter.rate)
    assert emitter.rate == pytest.approx(rate)
    seconds = 500 * 0.1 / emitter.speed  # 500 layers
    births = run(emitter, np.linspace(0, seconds, 77))
    assert len(births["position"]) == pytest.approx(rate * seconds / 0.1**3, rel=0.01)


def test_rate_of_a_box_is_area_times_speed():
    emitter = Emitter(stream(), 0)
    assert emitter.area == pytest.approx(0.16)
    assert emitter.speed == 2
    assert emitter.rate == pytest.approx(0.32)


def test_speed_replaces_the_length_of_velocity():
    births = Emitter(stream(velocity=[0, 3, 4], speed=10.0), 0).emit(0, 0.1)
    assert births["velocity"] == pytest.approx(np.broadcast_to([0, 6, 8], births["velocity"].shape))


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"velocity": [1.0, 0.7, -0.2], "shape": {"sphere": {"center": [0, 0, 0], "radius": 0.3}}},
        {"rotation": [10, 20, 30]},
    ],
)
@pytest.mark.parametrize("steps", [1, 7, 40])
def test_streams_have_neither_gaps_nor_bunches(keys, steps):
    """Steps that are no multiple of a layer: each particle's nearest is one spacing away."""
    births = run(Emitter(stream(**keys), 0), np.linspace(0, 0.913, steps + 1))
    assert nearest(births["position"]) == pytest.approx(0.1, rel=1e-3)
    along = births["position"] @ births["velocity"][0] / np.linalg.norm(births["velocity"][0])
    layers = np.unique(along.round(3))
    assert np.diff(layers) == pytest.approx(0.1, abs=2e-3)


MOVING = {
    "motion": [{"frame": 1}, {"frame": 13, "position": [1, 0, 0], "rotation": [0, 90, 0]}],
    "inherit_velocity": 1.0,
    "jitter": 0.2,
    "lifetime": 2.0,
    "frames": [3, 20],
}


@reproducible
@given(
    cuts=st.lists(st.floats(0.001, 0.999), max_size=30, unique=True),
    keys=st.sampled_from([{}, MOVING, {"rate": 0.1, "jitter": 0.5}]),
)
def test_births_do_not_depend_on_the_steps(cuts, keys):
    """The same particles, at the same places at the end, whatever the division of time."""
    once = run(Emitter(stream(**keys), 0), [0.0, 1.0])
    often = run(Emitter(stream(**keys), 0), [0.0, *sorted(cuts), 1.0])
    for name, values in once.items():
        assert often[name].shape == values.shape
        assert np.allclose(often[name], values, atol=1e-5)


def test_steps_that_meet_layers_exactly():
    """A layer at the border of two steps is born once, also with rounding: 0.1 / 2 = 0.05 s."""
    times = np.arange(0, 201) * 0.05
    births = run(Emitter(stream(), 0), times)
    assert len(births["position"]) == 200 * 16
    births = run(Emitter(stream(), 0), np.cumsum([0] + [0.05] * 200))
    assert len(births["position"]) == 200 * 16


def test_state_carries_on_where_it_stopped():
    whole, before, after = (Emitter(stream(jitter=0.3), 0) for _ in range(3))
    expected = run(whole, [0, 0.33, 0.66, 1.0])
    parts = [before.emit(0, 0.33)["birth"]]
    after.restore({name: int(value) for name, value in before.state().items()})
    parts += [after.emit(0.33, 0.66)["birth"], after.emit(0.66, 1.0)["birth"]]
    assert np.concatenate(parts).tolist() == expected["birth"].tolist()
    assert after.state() == whole.state()


def test_layers_have_their_own_jitter():
    first, second = (Emitter(stream(jitter=j), 0).emit(0, 0.1)["position"] for j in (0.0, 0.5))
    moved = (second - first).reshape(2, 16, 3)
    assert np.abs(moved).max() <= 0.05 + 1e-6
    assert np.abs(moved[0] - moved[1]).max() > 0.01


def test_without_state_the_time_decides():
    births = Emitter(stream(), 0).emit(0.5, 1.0)
    assert births["birth"].min() == pytest.approx(0.5)
    assert len(births["birth"]) == 10 * 16


def test_nothing_outside_of_the_frames():
    """Frames 3 to 14 are half a second of emission from 2/24 s on."""
    emitter = Emitter(stream(frames=[3, 14]), 0)
    births = run(emitter, np.linspace(0, 3, 301))
    assert births["birth"].min() == pytest.approx(2 / 24)
    assert births["birth"].max() < 14 / 24
    assert len(births["birth"]) == 10 * 16


def test_birth_and_expiry():
    births = Emitter(stream(lifetime=0.5), 0).emit(0, 1)
    assert births["expiry"] - births["birth"] == pytest.approx(0.5)
    assert births["birth"].min() == 0
    assert births["birth"].max() == pytest.approx(0.95)


def test_a_moving_emitter_leaves_a_trail():
    """Positions at birth follow the path; velocities get their share of its speed."""
    keys = [{"frame": 1}, {"frame": 25, "position": [3, 0, 0]}]
    emitter = Emitter(stream(motion=keys, inherit_velocity=0.25), 0)
    births = run(emitter, np.linspace(0, 0.9, 10))
    assert births["velocity"] == pytest.approx(
        np.broadcast_to([0.75, 0, 2], births["velocity"].shape), abs=1e-4
    )
    age = 0.9 - births["birth"]
    born_at = births["position"] - age[:, None] * births["velocity"]
    centre = np.array(
        [born_at[births["birth"] == t].mean(axis=0) for t in np.unique(births["birth"])]
    )
    assert centre[:, 0] == pytest.approx(3 * np.unique(births["birth"]), abs=1e-4)


def growing(folder, first=0.2, last=1.0, frames=(1, 25), z=0.1) -> None:
    """A box around the origin that becomes wider along x: half of it, evenly from 0 s to 1 s."""
    for frame in range(frames[0], frames[1] + 1):
        half = first + (last - first) * (frame - frames[0]) / (frames[1] - frames[0])
        low, high = (-half, -0.2, -z), (half, 0.2, z)
        write(folder / f"mouth_{frame:04d}.ply", cube(low, np.subtract(high, low)))


def write(path, mesh: Mesh) -> None:
    surface.write_mesh(path, surface.Mesh(mesh.vertices.astype(np.float32), mesh.triangles, {}))


def test_a_stream_is_as_wide_as_its_emitter_is_then(tmp_path):
    """A mouth that opens: particles and volume follow its area, layers stay a spacing apart."""
    growing(tmp_path)
    shape = {"mesh": "mouth_####.ply"}
    part = {"kind": "emitter", "shape": shape, "velocity": [0, 0, 2]}
    emitter = Emitter(scene(part, directory=tmp_path), 0)
    births = run(emitter, np.linspace(0, 1, 7))
    times, counts = np.unique(births["birth"], return_counts=True)
    assert np.diff(times) == pytest.approx(0.05, abs=1e-6)
    width = 2 * (0.2 + 0.8 * times)
    assert counts / 4 == pytest.approx(width / 0.1, abs=1.0)  # rows of whole particles
    assert len(births["birth"]) * 0.1**3 == pytest.approx(0.4 * 1.2 * 2.0, rel=0.05)
    assert scene(part, directory=tmp_path).estimate_particles() >= len(births["birth"])
    again = Emitter(scene(part, directory=tmp_path), 0)
    again.emit(0, 0.5)
    resumed = Emitter(scene(part, directory=tmp_path), 0)
    resumed.restore(again.state())
    a, b = again.emit(0.5, 0.8), resumed.emit(0.5, 0.8)
    assert all(np.array_equal(a[name], b[name]) for name in a)


def test_deforming_sources_pass_on_how_they_stretch(tmp_path):
    """0.8 m/s at the ends, none in the middle; a volume that is filled at once does it too."""
    growing(tmp_path, first=0.5, last=1.3)
    shape = {"mesh": "mouth_####.ply"}
    part = {"shape": shape, "inherit_velocity": 1.0}
    volume = fill_volume(scene(part, directory=tmp_path), 0)
    stream = {**part, "kind": "emitter", "velocity": [0, 0, 2]}
    layer = Emitter(scene(stream, directory=tmp_path), 0).emit(0.0, 0.01)
    for births, along in ((volume, 0.0), (layer, 2.0)):
        x = births["position"][:, 0] - births["velocity"][:, 0] * (0.01 if along else 0.0)
        assert len(x) > 30
        assert births["velocity"][:, 0] == pytest.approx(0.8 / 0.5 * x, abs=1e-4)
        assert births["velocity"][:, 1:] == pytest.approx(
            np.tile([0, along], (len(x), 1)), abs=1e-4
        )


def test_an_emitter_may_begin_flat_at_a_speed_but_not_at_a_rate(tmp_path):
    growing(tmp_path, first=0.0)
    part = {"kind": "emitter", "shape": {"mesh": "mouth_####.ply"}, "velocity": [0, 0, 1]}
    births = run(Emitter(scene(part, directory=tmp_path), 0), [0.0, 0.5, 1.0])
    assert births["birth"].min() == pytest.approx(0.1)
    with pytest.raises(SceneError, match="no particle fits"):
        Emitter(scene(part | {"rate": 0.1}, directory=tmp_path), 0)


def test_an_open_mesh_among_those_of_a_source_is_named(tmp_path):
    growing(tmp_path)
    whole = cube((-1, -1, -1), 2.0)
    write(tmp_path / "mouth_0004.ply", Mesh(whole.vertices, whole.triangles[:-1]))
    part = {"kind": "emitter", "shape": {"mesh": "mouth_####.ply"}, "velocity": [0, 0, 1]}
    emitter = Emitter(scene(part, directory=tmp_path), 0)
    emitter.emit(0.0, 0.09)
    with pytest.raises(MeshError, match=r"mouth_0004\.ply"):
        emitter.emit(0.09, 0.2)


def test_a_turned_emitter_turns_its_stream():
    births = Emitter(stream(rotation=[0, 90, 0]), 0).emit(0, 0.2)
    assert births["velocity"] == pytest.approx(
        np.broadcast_to([2, 0, 0], births["velocity"].shape), abs=1e-6
    )
    assert np.abs(births["position"][:, 1:]).max() < 0.2


def test_emitters_in_2d():
    flat = scene(
        {"kind": "emitter", "shape": NOZZLE, "velocity": [0, 9, 2], "rate": 0.8}, dimensions=2
    )
    emitter = Emitter(flat, 0)
    assert emitter.area == pytest.approx(0.4)
    births = run(emitter, np.linspace(0, 5, 11))
    assert len(births["position"]) == pytest.approx(0.8 * 5 / 0.01, rel=0.01)
    assert not births["position"][:, 1].any()
    assert births["velocity"][0].tolist() == [0, 0, 2]


def test_a_rate_of_zero_emits_nothing():
    emitter = Emitter(stream(rate=0.0), 0)
    assert len(emitter.emit(0, 100)["position"]) == 0


def test_an_emitter_with_a_hole_in_its_middle_is_an_error(tmp_path):
    (tmp_path / "t.obj").write_text(TETRAHEDRON)  # the middle of its box lies outside of it
    emitter = {"kind": "emitter", "shape": {"mesh": "t.obj"}, "velocity": [1, 0, 0], "spacing": 2.0}
    with pytest.raises(SceneError, match=r"source\[0\]\.spacing = 2.0: no particle fits across"):
        Emitter(scene(emitter, directory=tmp_path), 0)


def test_all_emitters_of_a_scene():
    jet = {"kind": "emitter", "velocity": [1, 0, 0]}
    found = emitters(scene({}, {"name": "a", **jet}, {"name": "b", **jet}))
    assert [emitter.name for emitter in found] == ["a", "b"]


# --- overlaps -------------------------------------------------------------------------------------


def brute_overlap(new, reach, existing):
    kept = []
    for point in new:
        others = np.array([*existing, *kept]).reshape(-1, 3)
        if not len(others) or np.linalg.norm(others - point, axis=1).min() >= reach:
            kept.append(point)
    return np.array(kept).reshape(-1, 3)


@reproducible
@given(st.integers(0, 10_000), st.integers(0, 60), st.integers(0, 60), st.floats(0.05, 1.0))
def test_overlaps_agree_with_brute_force(seed, n_new, n_old, spacing):
    """Greedy: existing ones first, then new ones in order; negative cells and empty sets too."""
    rng = np.random.default_rng(seed)
    new, old = rng.normal(size=(n_new, 3)) * 0.5, rng.normal(size=(n_old, 3)) * 0.5
    keep = without_overlap(new, spacing, old)
    existing = old if n_old else np.zeros((0, 3))
    assert np.array_equal(new[keep].reshape(-1, 3), brute_overlap(new, 0.5 * spacing, existing))


def test_a_blocked_emitter_does_not_pop():
    """K05: layers born into particles that stand still are left out; a free stream is whole."""
    emitter = Emitter(stream(), 0)
    first = emitter.emit(0, 0.001)["position"]
    births = emitter.emit(0.001, 0.0501)  # the next layer, still at the nozzle
    assert without_overlap(births["position"], emitter.spacing, first).sum() == 0
    moved = first + np.array([0, 0, 0.1], np.float32)
    kept = select(births, without_overlap(births["position"], emitter.spacing, moved))
    assert len(kept["phase"]) == len(births["phase"]) == 16


def test_only_near_particles_cost(monkeypatch):
    """Of a million existing particles elsewhere none is sorted into cells."""
    sorted_in = []
    hashing = sources._hash
    monkeypatch.setattr(
        sources, "_hash", lambda cells: sorted_in.append(len(cells)) or hashing(cells)
    )
    old = np.random.default_rng(0).random((1_000_000, 3)).astype(np.float32) + 5
    new = np.random.default_rng(1).random((100, 3))
    old[:10] = new[:10]
    keep = without_overlap(new, 1e-6, old)
    assert (~keep).nonzero()[0].tolist() == list(range(10))
    assert max(sorted_in) == 100


# --- books ----------------------------------------------------------------------------------------


def test_books_balance():
    """ORACLES 6: what came in less what went out is what is there."""
    some = scene({"fluid": "oil"}, {"kind": "emitter", "shape": NOZZLE, "velocity": [0, 0, 9]})
    ledger, store = MassLedger.of(some), ParticleStore()
    for index, births in fill_volumes(some):
        ledger.add(some.sources[index].name, births)
        store.add(len(births["phase"]), **births)
    jet = emitters(some)[0]
    rng = np.random.default_rng(0)
    for step in range(30):
        births = jet.emit(step * 0.1, (step + 1) * 0.1)
        ledger.add(jet.name, births)
        store.add(len(births["phase"]), **births)
        doomed = (rng.random(store.used) < 0.1) & store.active
        ledger.remove(store.rows("phase")[doomed], store.rows("volume")[doomed])
        store.kill(doomed)
    assert ledger.count == store.count
    assert ledger.mass == pytest.approx(ledger.mass_of(store["phase"], store["volume"]), rel=1e-9)
    assert ledger.emitted[some.sources[0].name].mass == pytest.approx(800, rel=1e-6)
    assert ledger.emitted[jet.name].count == jet.state()["next_layer"] * 16
    again = MassLedger.of(some)
    again.restore(ledger.state())
    assert again == ledger
