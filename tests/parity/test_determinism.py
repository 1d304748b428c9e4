"""The same bits on one thread and on two, in one process and in the next."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runnel.backends import devices

ROOT = Path(__file__).resolve().parents[2]
STEPS = 20
PROGRAM = """
import hashlib, sys
from runnel.backends import devices
devices.prepare_environment()
import numpy as np
from runnel.solver.coarse import CoarseLevel
from tests.parity import scenes
from tests.unit.reference_setup import chebyshev

device, lanes = sys.argv[1:]
case = scenes.Case("bits", ratio=2.15, fluids=3, solids=("plane", "box in", "breathing"), twins=2)
model = case.model()
if device == "reference":
    from runnel.backends.reference import ReferenceBackend
    backend = ReferenceBackend(model)
else:
    from runnel.backends.opencl import OpenCLBackend
    _, queue = devices.open_context(devices.choose(device))
    backend = OpenCLBackend(model, queue, vector_lanes=lanes == "vector", reorder_interval=3)
backend.load(case.rows())
backend.set_solids(case.solid_rows(), scenes.fields())
low, high = np.full(3, -1, np.float32), np.full(3, 2, np.float32)
for step in range({steps}):
    backend.follow(scenes.currents(case), case.dt)
    backend.predict(case.dt, case.gravity(), scenes.forces(case))
    backend.stop_at_solids()
    backend.find_neighbors()
    for k, (momentum, gain) in enumerate(chebyshev(model, 3)):
        backend.compute_pressure(momentum, gain, 1 - k / 3 if k else 0.0)
        if k == 0:
            backend.add_coarse(CoarseLevel(model, 0.01), 3)
        backend.correct_positions(momentum == 0)
    backend.measure_error()
    error = backend.density_error()
    backend.update_velocities()
    backend.apply_viscosity()
    backend.compute_vorticity()
    backend.apply_confinement()
    backend.remove(scenes.sinks(case), low, high, step * case.dt, scenes.fields())
digest = hashlib.sha256(repr((error, backend.survey(), backend.count)).encode())
for name in ("id", "position", "velocity", "pressure"):
    values = backend.read(name)
    assert np.isfinite(values).all()
    digest.update(values.tobytes())
print(backend.count, digest.hexdigest())
"""


def run(device: str, lanes: str, threads: int) -> str:
    environment = {
        **os.environ,
        "RUNNEL_THREADS": str(threads),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "core"), str(ROOT)]),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("{steps}", str(STEPS)), device, lanes],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > 50
    return done.stdout


@pytest.mark.parametrize("lanes", ["vector", "scalar"])
def test_bits_do_not_depend_on_threads(lanes):
    """On every CPU device; a GPU has no such number."""
    found = [
        k for k, info in enumerate(devices.list_devices()) if info.kind == "cpu" and info.works
    ]
    if not found:
        pytest.skip("no OpenCL device on the CPU")
    for number in found:
        assert run(str(number), lanes, 1) == run(str(number), lanes, 2)


def test_bits_of_the_reference_do_not_depend_on_threads():
    assert run("reference", "none", 1) == run("reference", "none", 2)


BODIES = """
import hashlib, sys
import numpy as np
from pathlib import Path
from runnel import Scene, Simulation
from tests.physics.test_deformables import write_sheet
folder = Path(sys.argv[1])
write_sheet(folder / "sheet.obj", 8, 0.4)
box = lambda low, high: {"box": {"min": low, "max": high}}
data = {
    "fps": 25, "frames": [0, 9], "solver": {"time_step": 0.01}, "fluid": [{"name": "water"}],
    "source": [{"fluid": "water", "spacing": 0.03, "shape": box([0, 0, 0], [0.6, 0.3, 0.2])}],
    "collider": [
        {"shape": box([0, 0, 0], [0.6, 0.3, 0.6]), "mode": "inside"},
        {"shape": box([0.1, 0.1, 0.22], [0.22, 0.22, 0.34]), "body": "rigid", "density": 300},
        {"shape": {"mesh": "sheet.obj"}, "position": [0.35, 0.15, 0.3], "rotation": [0, 80, 0],
         "mode": "shell", "body": "deformable", "mass": 0.3},
    ],
}
with Simulation(Scene.from_dict(data, folder), timed=False) as sim:
    sim.advance(4)
    parts = {**sim.bodies.state(), **sim.deformables.state(), "x": sim.particles["position"]}
print(hashlib.sha256(b"".join(a.tobytes() for a in parts.values())).hexdigest())
"""


def test_bodies_do_not_depend_on_threads(tmp_path):
    """Rigid and deformable ones in the fluid: host and device together."""
    found = set()
    for threads in (1, 2):
        environment = {
            **os.environ,
            "RUNNEL_THREADS": str(threads),
            "NUMBA_NUM_THREADS": str(threads),
            "PYTHONPATH": os.pathsep.join([str(ROOT / "core"), str(ROOT)]),
        }
        done = subprocess.run(
            [sys.executable, "-c", BODIES, str(tmp_path)],
            env=environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found.add(done.stdout)
    assert len(found) == 1
