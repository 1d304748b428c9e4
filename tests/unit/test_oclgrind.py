"""The checker must find what it is there for, and nothing in a clean kernel."""

from __future__ import annotations

import pytest

from tests.tools import oclgrind

PROGRAM = """
import numpy as np
import pyopencl as cl
from runnel.backends import devices

context, queue = devices.open_context(devices.choose())
kernel = cl.Program(context, '''{source}''').build().k
values = cl.Buffer(context, cl.mem_flags.READ_WRITE, 64)
kernel(queue, (16,), (8,), values, np.int32(16))
queue.finish()
"""

CLEAN = """
__kernel void k(__global int *a, const int n) {
    __local int tile[8];
    const int i = get_global_id(0), l = get_local_id(0);
    tile[l] = i;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i < n) a[i] = tile[7 - l];
}
"""
RACY = CLEAN.replace("barrier(CLK_LOCAL_MEM_FENCE);", "")
OUT_OF_BOUNDS = CLEAN.replace("a[i] =", "a[i + 2] =")
UNINITIALIZED = CLEAN.replace("if (i < n)", "if (a[i] < n)")


@pytest.fixture(scope="module", autouse=True)
def _checker() -> None:
    oclgrind.require()


def findings(source: str, *, uninitialized: bool = False) -> list[oclgrind.Finding]:
    outcome = oclgrind.run(PROGRAM.format(source=source), uninitialized=uninitialized, timeout=120)
    assert outcome.status == 0, outcome.stderr
    return outcome.findings


def test_clean_kernel_has_no_findings() -> None:
    assert findings(CLEAN, uninitialized=True) == []


def test_data_race_is_found_with_its_line() -> None:
    found = findings(RACY)
    assert found
    assert all("data race" in f.what and f.kernel == "k" for f in found)
    assert any("tile" in f.line for f in found)


def test_write_out_of_bounds_is_found_once_per_line() -> None:
    (found,) = findings(OUT_OF_BOUNDS)
    assert found.what == "Invalid write of size 4 in global memory"
    assert found.line == "if (i < n) a[i + 2] = tile[7 - l];"


def test_use_of_a_value_never_written_is_found() -> None:
    found = findings(UNINITIALIZED, uninitialized=True)
    assert any("uninitialized" in f.what for f in found)


def test_python_errors_are_passed_on() -> None:
    outcome = oclgrind.run("raise SystemExit(3)")
    assert (outcome.status, outcome.findings) == (3, [])
