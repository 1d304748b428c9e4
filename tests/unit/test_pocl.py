"""The name that PoCL's compiler gets for a processor it does not know."""

from __future__ import annotations

import ctypes
import runpy
import sys
from types import SimpleNamespace

import pytest

from runnel.backends import pocl

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="PoCL's package is for Linux")


def test_the_name_outlives_what_set_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe runs the module and drops it. Its device then was built for whatever came to lie
    where the name had been, and failed its try now and then."""
    monkeypatch.setenv("RUNNEL_CPU", "haswell")
    texts = [ctypes.create_string_buffer(t) for t in (b"x86_64-pc-linux-gnu", b"generic")]
    record = (ctypes.c_uint64 * 256)(0, 0, *map(ctypes.addressof, texts))
    device = SimpleNamespace(
        platform=SimpleNamespace(name=pocl.PLATFORM), int_ptr=ctypes.addressof(record)
    )
    flags = runpy.run_path(pocl.__file__)["help_device"](device)
    others = [ctypes.create_string_buffer(b"another") for _ in range(1000)]
    assert ctypes.string_at(record[3]) == b"haswell"
    assert flags == ["-DBUILT_FOR_HASWELL"]
    assert len(others) == 1000


def test_of_processors_the_most_able_that_fits() -> None:
    assert pocl.like(pocl.KNOWN["skylake-avx512"] | {"avx10"}) == "skylake-avx512"
    assert pocl.like(pocl.AVX2) == "haswell"
    assert pocl.like(set()) == "x86-64"
