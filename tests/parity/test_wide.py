"""Sixteen lanes (kernels/wide.cl, batches in lists.cl) beside eight: same lists, same motion."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from runnel.backends import devices, pocl

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
import numpy as np
import runnel
from runnel import bench

knobs = ["fluid.water.surface_tension=0.4", "fluid.water.viscosity=0.1"]
scene = bench.tank(1000, 4).with_overrides(knobs)
with runnel.Simulation(scene, sys.argv[1]) as sim:
    for _ in range(2):
        sim.step()
    backend = sim._backend
    ranges, entries, lanes = backend.neighbor_lists()
    ids = backend.read("id")
    pairs = [
        (ids[8 * c + lane], ids[j])
        for c, (start, length) in enumerate(ranges)
        for j, bits in zip(entries[start : start + length], lanes[start : start + length])
        for lane in range(8)
        if bits >> lane & 1
    ]
    x, v = (sim.particles[name] for name in ("position", "velocity"))
    np.savez(sys.argv[2], x=x, v=v, pairs=sorted(pairs))
"""


@pytest.fixture(scope="module")
def pocl_device() -> str:
    """The number of PoCL's device, if its compiler is told about AVX-512."""
    found = [
        str(k)
        for k, info in enumerate(devices.list_devices())
        if info.works and info.platform == pocl.PLATFORM
    ]
    if not found or pocl.like(pocl.cpu_flags()) != "skylake-avx512":
        pytest.skip("needs PoCL on a CPU with AVX-512")
    return found[0]


def run(cpu: str, device: str, file: Path) -> dict[str, np.ndarray]:
    environment = {
        **os.environ,
        "RUNNEL_CPU": cpu,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "core"), str(ROOT)]),
    }
    command = [sys.executable, "-c", PROGRAM, device, str(file)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    with np.load(file) as values:
        return dict(values)


def test_sixteen_lanes_do_what_eight_do(pocl_device, tmp_path):
    """They differ in the order of sums only: by rounding, which grows fast where lattices melt."""
    wide = run("skylake-avx512", pocl_device, tmp_path / "wide.npz")
    narrow = run("haswell", pocl_device, tmp_path / "narrow.npz")
    spacing = 0.1
    assert (wide["x"] != narrow["x"]).any(), "both ran the same code"
    np.testing.assert_allclose(wide["x"], narrow["x"], atol=2e-5 * spacing)
    np.testing.assert_allclose(wide["v"], narrow["v"], atol=5e-4)
    apart = {tuple(p) for p in wide["pairs"]} ^ {tuple(p) for p in narrow["pairs"]}
    assert len(apart) < 1e-3 * len(wide["pairs"])  # those at the edge of reach
