"""Estimates beside what simulations do, and warnings where they are due and only there."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import runnel
from runnel.backends.devices import DeviceInfo
from runnel.cache import Cache
from runnel.cli.check import _Keeper, measured
from runnel.colliders import pack_solids
from runnel.errors import SceneError
from runnel.estimate import (
    OWN_ENTRIES,
    Rate,
    distances,
    estimate,
    initial_bytes,
    likely_speed,
    program_bytes,
    rate_of,
    scene_rate,
    warnings,
)
from runnel.motion import motion_of
from runnel.params import Box
from runnel.pilot import STRIKES, Lap, Leg, Pilot, _coarse, _column, fitting, fly, planned, probe
from runnel.scene import Scene, example, example_names
from runnel.shapes import shape_of
from runnel.simulation import Simulation
from runnel.sources import fill_volume


def scene(**more: Any) -> Scene:
    box = {"box": {"min": [0, 0, 0], "max": [0.5, 0.5, 0.5]}}
    source = {"name": "dam", "fluid": "water", "shape": box, "spacing": 0.05}
    hollow = {"box": {"min": [0, 0, 0], "max": [1, 0.5, 1]}}
    walls = {"name": "tank", "mode": "inside", "shape": hollow}
    parts = {"fluid": [{"name": "water"}], "source": [source], "collider": [walls]}
    return Scene.from_dict({**parts, **more})


def test_numbers_of_a_dam() -> None:
    cost = estimate(scene(frames=[1, 10]), Rate(step=1000, iteration=100))
    assert cost.particles == 1000
    assert cost.frames == 10
    assert cost.speed == pytest.approx((2 * 9.81 * 0.5) ** 0.5)
    assert cost.bytes == cost.device_bytes + cost.host_bytes
    per_step = (1000 + 100 * cost.iterations) * (4.4 / 4) ** 3  # rates are those of h = 2d
    assert cost.seconds_per_frame == pytest.approx(1e-9 * 1000 * cost.steps_per_frame * per_step)


@pytest.mark.parametrize("support", [4.0, 4.4, 5.0])
def test_memory_is_about_what_a_run_takes(opencl_device: Any, support: float) -> None:
    it = scene(solver={"support": support}).with_overrides(["source.dam.spacing=0.02"])
    with Simulation(it, opencl_device) as sim:
        sim.advance(3)
        used = sim.bytes
    cost = estimate(it)
    assert 0.8 < cost.device_bytes / used["device"] < 1.2
    assert 1.0 < cost.host_bytes / used["host"] < 1.5  # with copies of a frame


@pytest.mark.parametrize("name", example_names())
def test_memory_and_disk_of_shipped_scenes(name: str, tmp_path: Path) -> None:
    """Their first frames, within 30 %; those on disk may be smaller: a lattice packs well."""
    shipped = example(name)
    first = shipped.frames[0]
    it = shipped.with_overrides([f"frames=[{first}, {first + 3}]"])
    cost = estimate(it)
    used: list[int] = []
    cache = Cache.create(tmp_path, it.to_dict())
    with Simulation(it, timed=False) as sim:
        for frame in range(first, first + 4):
            sim.advance(frame)
            cache.write(frame, {n: sim.particles[n] for n in it.output.channels}, {"x": [1.0] * 90})
            sim.write_wet_maps(tmp_path / "wetmaps")
            used.append(sum(sim.bytes.values()))
        cache.write_checkpoint(first, *sim.state())
        cache.write_checkpoint(sim.frame, *sim.state())
    stored = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert cost.bytes == pytest.approx(max(used), rel=0.3)
    assert 0.7 * stored < cost.disk_bytes < 1.5 * stored


@pytest.mark.parametrize("name", ["hydrostatic_tank", "dam_ratio_1"])
def test_a_pilot_foretells_steps_and_iterations(name: str) -> None:
    """The start of scenes held up by their iterations, of which a small pilot needs half."""
    it = example(name).with_overrides(["frames=[1, 20]"])
    steps, iterations = 0, 0.0
    with Simulation(it, timed=False) as sim:
        for frame in range(2, 21):
            report = sim.advance(frame)
            steps += report.steps
            iterations += report.steps * report.iterations
    for particles, close in ((1500, 0.15), (None, 0.1)):  # a coarse dam splashes more slowly
        legs = fly(it, particles=particles).legs
        if particles:
            own = sum(leg.flown.steps * leg.flown.iterations for leg in legs)
            assert own / sum(leg.flown.steps for leg in legs) < 0.7 * iterations / steps
        assert sum(leg.steps for leg in legs) == pytest.approx(steps, rel=close)
        foretold = sum(leg.steps * leg.iterations for leg in legs)
        assert foretold == pytest.approx(iterations, rel=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dam_ratio_1_mixed", "rayleigh_taylor"])
def test_a_probe_corrects_the_pilot(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Iterations hang on where they were, and a full, closed box is compressed more if coarse:
    0.66 and 1.1 of what the pilot alone had foretold."""
    it = example(name).with_overrides(["frames=[1, 30]"])
    found = []
    with Simulation(it, timed=False) as sim:
        for frame in range(2, 31):
            report = sim.advance(frame)
            found.append(report.steps * report.iterations)
    monkeypatch.setattr("runnel.pilot.PROBE_SECONDS", 60.0)  # on a busy machine, too
    pilot = planned(it, fly(it), probe(it))
    foretold = [leg.steps * leg.iterations for leg in pilot.legs]
    assert sum(foretold[13:]) == pytest.approx(sum(found[12:]), rel=0.3)
    assert sum(foretold) == pytest.approx(sum(found), rel=0.2)


def test_plans_stay_within_their_band() -> None:
    """As those of steps: up at once beyond the tolerance, down slowly below half of it."""
    it = scene(frames=[1, 8], solver={"iterations": [4, 20], "tolerance": 0.01})
    foot = 2.0  # m/s

    def legs(*errors: float) -> list[float]:
        """Plans where the scene would be compressed so much by ten iterations."""
        law = _column(it, foot, 8)
        assert law is not None
        made = [
            Leg(1.0, 8.0, 0.0, Lap(4, 300, 10.0, excess=e / law.compression(10)), foot)
            for e in errors
        ]
        found = planned(it, flat_pilot(*made), [Lap(8, 1000, 10.0)]).legs
        return [leg.iterations for leg in found[1:]]

    first, probed, *later = legs(0.002, 0.005, 0.008, 0.006, 0.02, 0.013, 0.001, 0.001)
    assert first < 10
    assert probed == 10
    assert later[:2] == [10, 10]
    assert later[2] > 12
    assert later[3] == later[2]  # it would take less, but more than half of the tolerance is used
    assert later[4] == pytest.approx(later[3] - 8 / 5)
    assert later[5] == pytest.approx(later[4] - 8 / 5)


def test_a_pilot_flies_no_longer_than_it_may() -> None:
    """What it did not see goes on as it was."""
    it = scene(frames=[1, 200])
    pilot = fly(it, seconds=0.0)
    assert len(pilot.legs) == 200
    assert sum(leg.flown.steps > 0 for leg in pilot.legs) < 10
    assert pilot.legs[-1].steps == pilot.legs[5].steps > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fountain", "vortex_streams"])
def test_a_pilot_knows_what_stays(name: str, tmp_path: Path) -> None:
    """Two seconds of scenes with emitters, less fine; the pilot is coarser still."""
    data = example(name).to_dict() | {"frames": [1, 60]}
    for source in data["source"]:
        source["spacing"] *= 1.6
    it = Scene.from_dict(data)
    alive, steps, stored, every = [], 0, 0, 5
    cache = Cache.create(tmp_path, it.to_dict())
    with Simulation(it, timed=False) as sim:
        for frame in range(it.frames[0], it.frames[1] + 1):
            alive.append(sim.advance(frame).particles)
            steps += sim.report.steps
            if frame % every == 0:
                arrays = {n: sim.particles[n] for n in it.output.channels}
                stored += every * cache.write(frame, arrays, {"x": [1.0] * 90}).bytes
        used = sum(sim.bytes.values())
    pilot = fly(it, particles=600)
    cost = estimate(it, pilot=pilot)
    assert pilot.particles < 0.5 * max(alive)
    assert cost.particles == pytest.approx(max(alive), rel=0.3)
    assert cost.bytes == pytest.approx(used, rel=0.3)
    assert cost.disk_bytes == pytest.approx(stored + 2 * 56 * max(alive), rel=0.3)
    assert sum(leg.steps for leg in pilot.legs) == pytest.approx(steps, rel=0.5)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("name", ["dam_break", "floating_boxes", "bear_pool"])
def test_the_program_itself_takes_what_is_told(name: str, tmp_path: Path) -> None:
    """Most memory of a process that runs a shipped scene, as the system counts it. Bodies and
    meshes need numba, and twice as much; a second run, after it has compiled."""
    code = (
        "import re, sys\n"
        "from runnel.cli import main\n"
        "main(['run', sys.argv[2], '--frames', '1-2', '--quiet', '--out', sys.argv[1]])\n"
        "status = open('/proc/self/status').read()\n"
        "print('most', 1024 * int(re.search(r'VmHWM:\\s+(\\d+)', status)[1]))\n"
    )
    core = str(Path(runnel.__file__).parents[1])
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "c"), name],
            env={**os.environ, "PYTHONPATH": core}, capture_output=True, text=True, check=True,
        )  # fmt: skip
    most, it = int(done.stdout.split("most")[1]), example(name)
    assert program_bytes(it) + estimate(it).bytes == pytest.approx(most, rel=0.3)


def lap(steps: int, particles: int, iterations: float, bodies: float = 0.0) -> Lap:
    """A lap of a device whose steps take 3 ms and 2 us a particle, iterations 1 ms and 0.5 us."""
    once, each = 3 + 2e-3 * particles, 1 + 5e-4 * particles
    return Lap(
        steps, particles, iterations, steps * once, steps * iterations * each, steps * bodies
    )


def test_a_scenes_own_rate_explains_what_was_timed() -> None:
    """Laps of a device that is twice as slow here as in the bench: the shot takes what it would."""
    it = scene(frames=[1, 3], solver={"support": 4.0})
    bench = Rate(step=1000, iteration=250, launch=1.5e6, relaunch=0.5e6)
    legs = [
        Leg(1.0, 4.0, 5.0, lap(2, 300, 4.0, bodies=1.0)),
        Leg(1.0, 6.0, 8.0, lap(3, 300, 4.0, bodies=1.0)),
    ]
    pilot = Pilot((Leg(1.0, 0.0, 0.0, Lap()), *legs), 5, 300)
    probed = [lap(4, 1000, 12.0, bodies=7.0)] * 3
    own = scene_rate(it, bench, pilot, probed)
    assert own.besides == pytest.approx(7e6)
    expected = sum(steps * (3 + 2 + k * (1 + 0.5) + 7) for steps, k in ((4, 5), (6, 8))) * 1e-3
    cost = estimate(it, own, pilot)
    assert cost.seconds_per_frame is not None
    assert cost.seconds_per_frame * cost.frames == pytest.approx(expected)
    few = [lap(4, 10, 4.0)] * 3  # emitters have hardly begun: the pilot knows better
    assert scene_rate(it, bench, pilot, few).besides == pytest.approx(1e6)


def flat_pilot(*legs: Leg) -> Pilot:
    return Pilot((Leg(1.0, 0.0, 0.0, Lap()), *legs), 5, 300)


def seconds(it: Scene, rate: Rate, pilot: Pilot) -> float:
    cost = estimate(it, rate, pilot)
    assert cost.seconds_per_frame is not None
    return cost.seconds_per_frame * cost.frames


def test_passes_of_viscosity_take_what_was_timed() -> None:
    """They belong to what a step has once: iterations that are dearer or cheaper than in the bench
    tell nothing about them."""
    thick = [{"name": "water", "viscosity": 50.0}]
    it = scene(frames=[1, 2], fluid=thick, solver={"support": 4.0})
    bench = Rate(step=1000, iteration=250, launch=1.5e6, relaunch=0.5e6)
    pilot = flat_pilot(Leg(1.0, 4.0, 4.0, lap(2, 300, 4.0)))
    probed = [Lap(4, 1000, 4.0, once=4 * 90.0, repeated=4 * 4 * 0.3)] * 4
    own = scene_rate(it, bench, pilot, probed)
    assert seconds(it, own, pilot) == pytest.approx(4 * (90 + 4 * 0.3) * 1e-3)


def test_bodies_take_a_turn_in_every_iteration() -> None:
    it = scene(frames=[1, 2], solver={"support": 4.0})
    pilot = flat_pilot(Leg(1.0, 4.0, 4.0, Lap(2, 300, 4.0, 1, 1, bodies=1.0)))
    bench = Rate(step=1000, iteration=250)
    turn = 0.5  # ms
    probed = [Lap(4, 1000, 12.0, 4, 12, bodies=4 * (12 + STRIKES) * turn)] * 4
    bare = [replace(one, bodies=0.0) for one in probed]
    with_bodies, without = (
        seconds(it, scene_rate(it, bench, pilot, laps), pilot) for laps in (probed, bare)
    )
    assert with_bodies - without == pytest.approx(4 * (4 + STRIKES) * turn * 1e-3)


def test_more_neighbours_take_more_time() -> None:
    """A fluid that spreads has fewer than its first frames, as the pilot saw."""
    it = scene(frames=[1, 3], solver={"support": 4.0})
    bench = Rate(step=1000, iteration=250)
    early, late = (Lap(2, 300, 4.0, 1, 1, listed=listed) for listed in (80.0, 40.0))
    pilot = flat_pilot(Leg(1.0, 4.0, 4.0, early), Leg(1.0, 4.0, 4.0, early))
    spread = flat_pilot(Leg(1.0, 4.0, 4.0, early), Leg(1.0, 4.0, 4.0, late))
    own = scene_rate(it, bench, pilot, [Lap(4, 1000, 4.0, 4, 4)] * 4)
    assert own.listed == 80
    thinner = (OWN_ENTRIES + 40) / (OWN_ENTRIES + 80)
    assert 0.5 < thinner < 0.9  # half of the neighbours, and what is not read from lists
    expected = 0.5 * (1 + thinner) * seconds(it, own, pilot)
    assert seconds(it, own, spread) == pytest.approx(expected)


def test_launches_do_not_grow_with_lists() -> None:
    """They are the device's, however dear its particles are in a scene."""
    it = scene(frames=[1, 2], solver={"support": 4.0})
    bench = Rate(step=1000, iteration=250, launch=1e6, relaunch=0.5e6)
    pilot = flat_pilot(*[Leg(1.0, 4.0, 4.0, Lap(2, 300, 4.0, 1, 1, listed=80.0))] * 2)
    ms = 4.0, 2.0  # once, in an iteration: of which launches are 1 and 0.5
    probed = [Lap(4, 1000, 4.0, 4 * ms[0], 16 * ms[1])] * 4
    own = scene_rate(it, bench, pilot, probed)
    crowded = (OWN_ENTRIES + 120) / (OWN_ENTRIES + 80)
    for listed, more in ((80.0, 1.0), (120.0, crowded)):
        leg = Leg(1.0, 4.0, 4.0, Lap(2, 300, 4.0, 1, 1, listed=listed))
        expected = 4 * (1 + 3 * more + 4 * (0.5 + 1.5 * more)) * 1e-3
        assert seconds(it, own, flat_pilot(leg)) == pytest.approx(expected)


def test_deformable_bodies_cost_more_the_more_voxels_they_have() -> None:
    it = scene(frames=[1, 9])
    still, moved = (Lap(2, 300, 4.0, 1, 1, besides=2 * ms) for ms in (10.0, 30.0))
    legs = [Leg(1.0, 4.0, 4.0, lap) for lap in (still, still, *[moved] * 6)]
    probed = [Lap(4, 30, 4.0, 4, 4, besides=4 * 12.0)]
    bench = Rate(step=1000, iteration=250)
    own = scene_rate(it, bench, replace(flat_pilot(*legs), finer=2.0), probed)
    assert own.besides == pytest.approx(1e6 * (12 + 2 * (30 - 10)))


def test_what_a_run_keeps_of_a_frame_counts() -> None:
    """Books, leaks and checkpoints, besides the file that was timed alone."""
    it = scene(frames=[1, 3])
    bench = Rate(step=1000, iteration=250, write=2000, file=8e6)  # 10 ms of 1000 particles
    pilot = flat_pilot(Leg(1.0, 4.0, 4.0, lap(2, 300, 4.0)))
    own = scene_rate(it, bench, pilot, [Lap(4, 1000, 4.0, 4, 4, kept=15.0)] * 3)
    assert own.file + 1000 * own.write == pytest.approx(15e6)
    few = scene_rate(it, bench, pilot, [Lap(4, 10, 4.0, 4, 4, kept=15.0)] * 3)
    assert few.write == bench.write  # a scene that starts empty
    assert few.file + 10 * few.write == pytest.approx(15e6)


def test_a_probe_writes_frames_as_a_run_does(tmp_path: Path) -> None:
    keeper = _Keeper(tmp_path)
    it = scene(frames=[1, 8])
    with closing(keeper):
        laps = probe(it, keep=keeper.keep)
    cache = Cache.open(tmp_path)
    assert cache.frames() == list(range(3, 3 + len(laps)))
    assert cache.verify(cache.frames()) == []
    assert "leaks" in cache.entry(3).report
    assert cache.checkpoints()
    assert all(lap.kept > 0 for lap in laps)


def test_a_pilot_starts_no_fuller_than_the_scene() -> None:
    """12.6 rows in the length of 20 are 13: a tenth more fluid than there is room for."""
    it = example("dam_ratio_1")
    wanted = (it.estimate_particles() / 4000) ** (1 / 3)
    assert 20 / wanted == pytest.approx(12.6, abs=0.01)
    factor = fitting(it, wanted)
    assert 20 / factor == pytest.approx(round(20 / factor), abs=0.05)
    assert abs(factor / wanted - 1) <= 0.2
    assert fitting(it, 1.0) == 1.0
    with Simulation(it.with_overrides(["frames=[1, 3]"]), timed=False) as sim:
        real = sim.advance(2).iterations
    legs = fly(it.with_overrides(["frames=[1, 3]"])).legs
    assert legs[1].flown.iterations <= real + 1  # 15.5 where 13 rows were


@pytest.mark.parametrize("name", example_names())
def test_pilots_of_shipped_scenes_start_no_fuller(name: str) -> None:
    """Layers of rayleigh_taylor, a closed box, were 12 % too full: its pilot took a thousand steps
    of 20 iterations a frame, and so the forecast was 50 times the run."""
    it = example(name)
    wanted = max(1.0, (it.estimate_particles() / 2500) ** (1 / it.dimensions))
    factor = fitting(it, wanted)
    volumes = it.with_overrides(["frames=[1, 1]"])  # what emitters give counts little
    full = _coarse(volumes, factor).estimate_particles() * factor**it.dimensions
    if all(s.kind == "volume" and isinstance(s.shape, Box) for s in it.sources):
        assert full <= 1.02 * volumes.estimate_particles()


def test_frames_are_written_after_or_beside_the_simulation() -> None:
    """Small scenes spend more time on writing than on simulating."""
    it = scene(frames=[1, 10])
    rate = Rate(step=1000, iteration=100)
    alone = estimate(it, rate).seconds_per_frame
    assert alone is not None
    per_frame = 1e-3 * (20 + 5)  # 1000 particles of 5 us
    for beside, expected in ((False, alone + per_frame), (True, max(alone, per_frame))):
        full = replace(rate, write=5000, file=2e7, beside=beside)
        assert estimate(it, full).seconds_per_frame == pytest.approx(expected)


def test_a_guess_knows_devices_writing_and_small_steps() -> None:
    few, many = (rate_of(DeviceInfo(name="x", kind="cpu", compute_units=n)) for n in (2, 16))
    assert few.step == 8 * many.step
    assert few.launch == many.launch > 0
    assert few.file == many.file > 0
    assert not many.beside
    assert rate_of(DeviceInfo(name="x", kind="gpu", compute_units=2)).beside


def test_a_device_is_measured_with_what_it_writes(opencl_device: Any) -> None:
    rate = measured(opencl_device, ["position", "id"])
    assert rate.step + rate.launch > 0
    assert rate.iteration + rate.relaunch > 0
    assert rate.write + rate.file > 0


def test_initial_memory_leaves_emitters_out() -> None:
    disc = {"cylinder": {"start": [0, 0, 1], "end": [0, 0, 1.1], "radius": 0.2}}
    jet = {"name": "jet", "fluid": "water", "kind": "emitter", "shape": disc, "spacing": 0.02}
    dam = scene().to_dict()["source"][0]
    jet["velocity"] = [0, 0, -1]
    both = scene(source=[dam, jet])
    assert initial_bytes(both) == estimate(scene()).bytes < estimate(both).bytes
    assert initial_bytes(scene(source=[jet])) == 0


def test_steps_are_about_what_auto_takes() -> None:
    it = scene(frames=[1, 12])
    with Simulation(it) as sim:
        most = max(sim.advance(frame).steps for frame in range(2, 13))
    assert 0.5 <= estimate(it).steps_per_frame / most <= 2


def test_fixed_steps_and_iterations() -> None:
    it = scene(fps=25, solver={"time_step": 0.01, "iterations": [9, 9]})
    cost = estimate(it)
    assert (cost.steps_per_frame, cost.iterations) == (4, 9)
    assert cost.seconds_per_frame is None


def test_speed_without_gravity_is_the_fluids_own() -> None:
    it = scene(solver={"gravity": [0, 0, 0]})
    assert likely_speed(it) == 0
    assert likely_speed(it.with_overrides(["source.dam.velocity=[3, 4, 0]"])) == 5


@pytest.mark.parametrize("kind", ["box", "sphere", "cylinder", "plane"])
def test_distance_of_packed_rows(kind: str) -> None:
    shapes = {
        "box": {"min": [-0.2, 0.1, -0.5], "max": [0.6, 0.4, 0.3]},
        "sphere": {"center": [0.1, -0.3, 0.2], "radius": 0.4},
        "cylinder": {"start": [0.1, 0.0, -0.3], "end": [0.4, 0.5, 0.2], "radius": 0.25},
        "plane": {"point": [0.1, 0.2, -0.1], "normal": [1.0, -2.0, 0.5]},
    }
    part = {"name": "it", "shape": {kind: shapes[kind]}, "rotation": [10, 20, 30]}
    it = scene(collider=[part])
    points = np.random.default_rng(0).uniform(-1, 1, (100, 3))
    (row,) = pack_solids(it, 0.0, 0.1)
    local = motion_of(it.colliders[0], it).pose(0.0).to_local(points)
    expected = shape_of(it.colliders[0].shape).distance(local)
    np.testing.assert_allclose(distances(row, points), expected, atol=1e-6)


# --- warnings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", example_names())
def test_shipped_scenes_give_no_warnings(name: str) -> None:
    assert warnings(example(name)) == []


def test_a_sound_scene_gives_no_warnings() -> None:
    assert warnings(scene()) == []


def obstacle(**more: Any) -> dict[str, Any]:
    shape = {"box": {"min": [0.2, 0, 0], "max": [0.4, 0.5, 0.5]}}
    return {"name": "post", "shape": shape, **more}


def test_source_inside_a_solid() -> None:
    (text,) = warnings(scene(collider=[obstacle()]))
    assert "source[0] 'dam'" in text
    assert "inside of the solid 'post'" in text
    assert "40 % of it" in text


def test_a_volume_that_no_particle_fits() -> None:
    """The run would refuse it; so it is told before."""
    drop = {"name": "drop", "fluid": "water", "spacing": 0.2}
    shapes = [{"sphere": {"center": [0.5, 0.2, 0.5], "radius": r}} for r in (0.06, 0.2)]
    small, large = (scene(source=[{**drop, "shape": shape}]) for shape in shapes)
    (text,) = warnings(small)
    assert text.startswith("source[0] 'drop': no particle fits")
    with pytest.raises(SceneError, match="no particle fits"):
        fill_volume(small, 0)
    assert warnings(large) == []


def test_source_outside_of_its_container() -> None:
    far = {"name": "tank", "mode": "inside", "position": [5, 0, 0]}
    hollow = {"box": {"min": [0, 0, 0], "max": [1, 1, 1]}}
    (text,) = warnings(scene(collider=[{**far, "shape": hollow}]))
    assert "lies outside of the container 'tank'" in text
    closed = {"min": [5, 5, 5], "max": [6, 6, 6], "mode": "close"}
    (text,) = warnings(scene(collider=[], domain=closed))
    assert "the domain" in text


def test_emitter_inside_a_collider() -> None:
    disc = {"cylinder": {"start": [0.3, 0.2, 0.2], "end": [0.3, 0.2, 0.25], "radius": 0.1}}
    jet = {"name": "jet", "fluid": "water", "kind": "emitter", "shape": disc, "spacing": 0.02}
    it = scene(source=[{**jet, "velocity": [0, 0, 1]}], collider=[obstacle()])
    (text,) = warnings(it)
    assert "source[0] 'jet' emits" in text
    assert "inside of the solid 'post'" in text


def test_thin_colliders() -> None:
    def thin(thickness: float, **more: Any) -> list[str]:
        plate = {"box": {"min": [0.7, 0, 0], "max": [0.7 + thickness, 0.5, 0.5]}}
        return warnings(scene(collider=[{"name": "plate", "shape": plate, **more}]))

    (text,) = thin(0.01)
    assert "collider[0] 'plate' is 0.01 m thin" in text
    assert thin(0.1) == []
    (text,) = thin(0.1, voxel_size=0.2)
    assert "a voxel (0.2 m)" in text


def test_a_long_time_step() -> None:
    (text,) = warnings(scene(solver={"time_step": 0.04}, fps=20))
    assert "solver.time_step = 0.04 s is long" in text
    assert "Beyond 1.5 the step is divided" in text
    assert warnings(scene(solver={"time_step": 0.01})) == []


def test_2d_scenes_are_looked_at_in_their_plane() -> None:
    """The ignored axis does not matter, wherever the shapes lie along it."""
    hollow = {"box": {"min": [0, 7, 0], "max": [1, 8, 1]}}
    it = scene(dimensions=2, collider=[{"name": "tank", "mode": "inside", "shape": hollow}])
    assert warnings(it) == []
