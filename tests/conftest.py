"""Fixtures of all tests. The environment is prepared before anything imports pyopencl or numba."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from runnel.backends import devices

ROOT = Path(__file__).resolve().parents[1]

devices.prepare_environment()


@cache
def backends() -> tuple[str, ...]:
    """The reference, and every OpenCL device that works here (as words for `devices.choose`)."""
    found = enumerate(devices.list_devices())
    real = [str(k) for k, info in found if info.works and info.kind in ("cpu", "gpu")]
    return ("reference", *real)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `backend_name` runs once on each backend."""
    if "backend_name" in metafunc.fixturenames:
        names = backends()
        labels = [devices.choose(name).name.replace(" ", "_") for name in names]
        metafunc.parametrize("backend_name", names, ids=labels, scope="session")


def pytest_report_header() -> list[str]:
    return [f"device {k}: {info}" for k, info in enumerate(devices.list_devices())]


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not _has_gpu():
        pytest.skip("needs a GPU")


def _has_gpu() -> bool:
    return any(info.works and info.kind == "gpu" for info in devices.list_devices())


@pytest.fixture(scope="session")
def opencl_device() -> devices.DeviceInfo:
    """The OpenCL device that "auto" picks."""
    info = devices.choose("auto")
    if info.kind == "reference":
        pytest.skip(info.note)
    return info


@pytest.fixture(scope="session")
def shared() -> Path:
    """Reference data and peers, a folder beside the repository; not part of it."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("no folder `shared` with reference data beside the repository")
    return folder
