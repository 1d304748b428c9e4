"""Runnel: multiphase position-based fluids for visual effects.

    scene = runnel.Scene.load("dam_break.toml")
    with runnel.Simulation(scene) as sim:
        report = sim.advance(24)
        sim.particles["position"]

Names are loaded when they are first used: importing this package is quick and loads neither OpenCL
nor numba.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backends.devices import DeviceInfo
    from .cache import Cache
    from .errors import (
        CacheError,
        DeviceError,
        MeshError,
        RunnelError,
        SceneError,
        SimulationError,
    )
    from .scene import Scene, example, example_names
    from .simulation import Report, Simulation

__all__ = [
    "Cache",
    "CacheError",
    "DeviceError",
    "DeviceInfo",
    "MeshError",
    "Report",
    "RunnelError",
    "Scene",
    "SceneError",
    "Simulation",
    "SimulationError",
    "__version__",
    "devices",
    "example",
    "example_names",
]

_HOMES = {
    "Cache": "cache",
    "CacheError": "errors",
    "DeviceError": "errors",
    "DeviceInfo": "backends.devices",
    "MeshError": "errors",
    "Report": "simulation",
    "RunnelError": "errors",
    "Scene": "scene",
    "SceneError": "errors",
    "Simulation": "simulation",
    "SimulationError": "errors",
    "example": "scene",
    "example_names": "scene",
}


def devices() -> list[DeviceInfo]:
    """The OpenCL devices here, those that fail included."""
    from .backends.devices import list_devices

    return list_devices()


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "__version__":
        return _version()
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("runnel")
    except PackageNotFoundError:
        return _source_version()


def _source_version() -> str:
    """Of a source tree that was not installed."""
    import tomllib
    from pathlib import Path

    try:
        text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
        return str(tomllib.loads(text)["project"]["version"])
    except (OSError, ValueError, KeyError):
        return "unknown"
