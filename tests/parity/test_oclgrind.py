"""All kernels under Oclgrind: no data race, nothing out of bounds.

Its search for values never written crashes on these kernels; test_edges.py looks for those by
filling memory with garbage.
"""

from __future__ import annotations

import pytest

from tests.tools import oclgrind

SCENE = """
import numpy as np
from runnel.backends import devices
from runnel.backends.opencl import OpenCLBackend
from tests.parity import scenes
from tests.unit.reference_setup import chebyshev

case = scenes.Case("checked", **{case})
_, queue = devices.open_context(devices.choose())
model = case.model()
backend = OpenCLBackend(model, queue, vector_lanes={lanes}, reorder_interval=2)
backend.load(case.rows())
backend.set_solids(case.solid_rows(), scenes.fields())
low, high = (case.placed((v, v, v)).astype(np.float32) for v in (-0.1, 1.0))
before = backend.count
for step in range(3):
    backend.follow(scenes.currents(case), case.dt)
    backend.predict(case.dt, case.gravity(), scenes.forces(case))
    backend.hold(np.arange(5, 50, 3, dtype=np.uint32), np.tile(high, (15, 1)), 0.1)
    backend.stop_at_solids()
    backend.find_neighbors()
    for momentum, gain in chebyshev(model, 2):
        backend.compute_pressure(momentum, gain)
        backend.correct_positions(momentum == 0)
    backend.measure_error()
    backend.density_error()
    backend.update_velocities()
    backend.apply_viscosity()
    backend.compute_vorticity()
    backend.apply_confinement()
    if step == 1:
        backend.remove(scenes.sinks(case), low, high, 3 * case.dt, scenes.fields())
assert len(backend.positions_inside(np.stack([low, high])[None])) > 0
found = backend.survey()
assert found.bad_id is None and np.isfinite(backend.read("velocity")).all()
assert 0 < backend.count < before
print(before, "particles")
"""
SOLIDS = ("plane", "box in", "box out", "breathing", "torus")
CASES = {
    "mixed": {"ratio": 2.6, "fluids": 3, "solids": SOLIDS, "twins": 3, "viscosity": 0.6},
    "flat": {"dimensions": 2, "solids": ("box in", "sphere out"), "twins": 3, "kernel": "cubic"},
}


@pytest.fixture(scope="module", autouse=True)
def _checker() -> None:
    oclgrind.require()


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [True, False], ids=["vector", "scalar"])
@pytest.mark.parametrize("case", CASES)
def test_kernels_have_no_findings(case, lanes):
    code = SCENE.replace("{case}", repr(CASES[case])).replace("{lanes}", str(lanes))
    outcome = oclgrind.run(code, timeout=600)
    assert outcome.status == 0, outcome.stderr
    assert "particles" in outcome.stdout
    assert not outcome.findings, "\n\n".join(finding.text for finding in outcome.findings)
