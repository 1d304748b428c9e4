"""Every OpenCL device that works here, in both layouts of lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numba
import pytest

from runnel.backends import devices
from runnel.backends.opencl import OpenCLBackend
from runnel.solver.model import Model

Make = Callable[..., OpenCLBackend]


@cache
def _queue(number: int) -> Any:
    return devices.open_context(devices.choose(str(number)))[1]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "make_backend" not in metafunc.fixturenames:
        return
    found = enumerate(devices.list_devices())
    real = [(k, info) for k, info in found if info.works and info.kind in ("cpu", "gpu")]
    choices = [(k, lanes) for k, _ in real for lanes in (True, False)]
    labels = [
        f"{info.name.replace(' ', '_')}-{'vector' if lanes else 'scalar'}"
        for _, info in real
        for lanes in (True, False)
    ]
    metafunc.parametrize("make_backend", choices, ids=labels, indirect=True)


@pytest.fixture
def make_backend(request: pytest.FixtureRequest) -> Iterator[Make]:
    """Makes backends on one device in one layout; closes them."""
    number, lanes = request.param
    made: list[OpenCLBackend] = []

    def make(model: Model, **options: Any) -> OpenCLBackend:
        made.append(OpenCLBackend(model, _queue(number), vector_lanes=lanes, **options))
        return made[-1]

    yield make
    for backend in made:
        backend.close()


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """For the reference: threads cost such small passes more than they give."""
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    yield
    numba.set_num_threads(before)
