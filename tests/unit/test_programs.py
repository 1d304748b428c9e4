"""What simulations of one process share, and what each has of its own."""

from __future__ import annotations

import gc
import subprocess
import sys
from threading import Thread
from typing import Any

import pytest

import runnel
from runnel import Scene, Simulation, kernels
from runnel.backends import devices
from runnel.backends.devices import DeviceInfo
from runnel.backends.opencl import program
from runnel.errors import DeviceError
from tests.tools import oclgrind

FRAMES = range(2, 8)


def dam(viscosity: float = 0.1) -> Scene:
    changes = ["source.dam.spacing=0.1", f"fluid.water.viscosity={viscosity}"]
    return runnel.example("dam_break").with_overrides(changes)


def bits(sim: Simulation) -> bytes:
    return sim.particles["position"].tobytes() + sim.particles["velocity"].tobytes()


def alone(scene: Scene, device: DeviceInfo) -> bytes:
    with Simulation(scene, device=device) as sim:
        for frame in FRAMES:
            sim.advance(frame)
        return bits(sim)


def test_two_in_turns_give_the_bits_of_each_alone(opencl_device: DeviceInfo) -> None:
    """They share a program, and nothing that one of them sets."""
    scenes = [dam(0.1), dam(2.0)]
    expected = [alone(scene, opencl_device) for scene in scenes]
    assert expected[0] != expected[1]
    sims = [Simulation(scene, device=opencl_device) for scene in scenes]
    for frame in FRAMES:
        for sim in sims:
            sim.advance(frame)
    assert [bits(sim) for sim in sims] == expected
    for sim in sims:
        sim.close()


def test_threads_give_the_bits_of_each_alone(opencl_device: DeviceInfo) -> None:
    scenes = [dam(0.1), dam(2.0), dam(0.1)]
    found: dict[int, bytes] = {}

    def run(k: int) -> None:
        found[k] = alone(scenes[k], opencl_device)

    threads = [Thread(target=run, args=(k,)) for k in range(len(scenes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {k: alone(scene, opencl_device) for k, scene in enumerate(scenes)}


def test_nothing_of_a_closed_simulation_is_left(opencl_device: DeviceInfo) -> None:
    """Hosts stay open for days: neither contexts nor programs nor their users may add up."""

    def users() -> tuple[int, int]:
        gc.collect()
        context, _ = devices.open_context(opencl_device)
        return len(devices._contexts), context.reference_count

    alone(dam(), opencl_device)
    before, built = users(), program.build.cache_info().misses
    for viscosity in (0.1, 0.2, 0.3, 0.4):  # none of them needs a program of its own
        alone(dam(viscosity), opencl_device)
    contexts, uses = users()
    assert contexts == before[0]
    assert uses <= before[1]
    assert program.build.cache_info().misses == built


def test_programs_are_released(opencl_device: DeviceInfo) -> None:
    """Two kernels hold their program while they live, no longer; so does what keeps programs."""
    context, _ = devices.open_context(opencl_device)
    source = "__kernel void a(__global int *x) {*x = N;} __kernel void b(__global int *x) {*x = 1;}"
    users = context.reference_count
    kept = program.MOST_PROGRAMS
    assert program.build.cache_info().maxsize == kept
    for k in range(kept + 2):
        own = program.kernels_of(program.build(context, source, f"-DN={k}"))
        assert set(own) == {"a", "b"}
        assert program.build(context, source, f"-DN={k}").reference_count == 3
        own.clear()
        assert program.build(context, source, f"-DN={k}").reference_count == 1
    program.build.cache_clear()
    assert context.reference_count <= users


def test_another_source_is_another_program(
    opencl_device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone(dam(), opencl_device)
    more = kernels.source() + "__kernel void more(__global int *x) {*x = 1;}"
    monkeypatch.setattr(kernels, "source", lambda: more)
    with Simulation(dam(), device=opencl_device) as sim:
        backend: Any = sim._backend
        assert "more" in backend._program()


def test_a_broken_context_is_not_given_out_again(
    opencl_device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that had to be reset answers with errors for as long as its context is used."""
    import pyopencl as cl

    broken, _ = devices.open_context(opencl_device)
    make = cl.CommandQueue

    def queue(context: Any, **options: Any) -> Any:
        if context == broken:
            raise cl.RuntimeError("lost")
        return make(context, **options)

    monkeypatch.setattr(cl, "CommandQueue", queue)
    with pytest.raises(DeviceError, match="lost"):
        devices.open_context(opencl_device)
    context, _ = devices.open_context(opencl_device)
    assert context != broken


LEFT_OPEN = """
import json
import runnel
from runnel.backends import devices

scene = runnel.example("dam_break").with_overrides(["source.dam.spacing=0.5"])
info = devices.choose()
sims = [runnel.Simulation(scene, device=info) for _ in range(3)]
sims[0].close()
sims[1].itself = sims[1]  # goes last of all
json.kept = sims.pop()
assert sims[0].particles.count > 0
"""


def test_a_process_ends_well_with_simulations_open() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEFT_OPEN], capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_so_it_does_under_oclgrind() -> None:
    """It takes apart what others leave to the end of the process."""
    oclgrind.require()
    outcome = oclgrind.run(LEFT_OPEN)
    assert (outcome.status, outcome.findings) == (0, []), outcome.stderr
