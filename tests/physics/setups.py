"""Small scenes and measurements that the physics tests share.

Scenes are plain dicts as in scene files, so a test can add to them before it runs them:

    scene = tank(size=(1, 1), depth=0.5, spacing=0.02)      # 2D; three sizes make it 3D
    for sim in run(scene, seconds=2.0):
        ... look at sim.particles after each frame ...
    state = settle(scene, seconds=3.0)                      # to start others from
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import runnel

Floats = NDArray[np.float64]
State = tuple[dict[str, NDArray[Any]], dict[str, Any]]

G = 9.81  # [m/s^2]
FPS = 100.0  # of the scenes here: how often tests look


# --- scenes --------------------------------------------------------------------------------------


def box(low: Sequence[float], high: Sequence[float]) -> dict[str, Any]:
    """A box shape; of two coordinates x, z the slice of a 2D scene."""
    return {"box": {"min": _xyz(low, -1.0), "max": _xyz(high, 1.0)}}


def _xyz(corner: Sequence[float], y: float) -> list[float]:
    return [corner[0], y, corner[1]] if len(corner) == 2 else list(corner)


def fluid(name: str = "water", **keys: Any) -> dict[str, Any]:
    """A fluid of density 1000 kg/m^3, inviscid and without tension but for `keys`."""
    return {"name": name, **keys}


def volume(
    low: Sequence[float], high: Sequence[float], spacing: float, **keys: Any
) -> dict[str, Any]:
    """A box filled with water, or with the fluid that `keys` name."""
    return {"fluid": "water", "shape": box(low, high), "spacing": spacing, **keys}


def container(size: Sequence[float], **keys: Any) -> dict[str, Any]:
    """A tank from the origin to `size` (x, z in 2D); walls slip unless `keys` say so."""
    return {"name": "tank", "mode": "inside", "shape": box([0.0] * len(size), size), **keys}


def scene(
    dimensions: int = 3,
    *,
    source: Sequence[dict[str, Any]],
    solver: Mapping[str, Any] | None = None,
    fluids: Sequence[dict[str, Any]] | None = None,
    **keys: Any,
) -> dict[str, Any]:
    """A scene of water; `keys` are its other keys: collider, force, sink, domain, fps, ..."""
    return {
        "fps": FPS,
        "frames": [0, 100_000],
        "dimensions": dimensions,
        "solver": dict(solver or {}),
        "fluid": list(fluids or [fluid()]),
        "source": list(source),
        **keys,
    }


def tank(
    size: Sequence[float],
    depth: float,
    spacing: float,
    *,
    walls: Mapping[str, Any] | None = None,
    **keys: Any,
) -> dict[str, Any]:
    """Water `depth` deep over the whole floor of a tank; `keys` as of `scene`."""
    return column(size, [*size[:-1], depth], spacing, walls=walls, **keys)


def column(
    size: Sequence[float],
    corner: Sequence[float],
    spacing: float,
    *,
    walls: Mapping[str, Any] | None = None,
    **keys: Any,
) -> dict[str, Any]:
    """Water from the origin to `corner` in a tank from the origin to `size`: a dam break."""
    return scene(
        len(size),
        source=[volume([0.0] * len(size), corner, spacing)],
        collider=[container(size, **(walls or {}))],
        **keys,
    )


# --- running -------------------------------------------------------------------------------------


def run(
    scene: Mapping[str, Any], seconds: float, device: str = "auto", *, start: State | None = None
) -> Iterator[runnel.Simulation]:
    """The simulation at its start (or at `start`, from `settle`) and after each of its frames.

    Open until the loop over it ends.
    """
    with runnel.Simulation(runnel.Scene.from_dict(scene), device, timed=False) as sim:
        if start is not None:
            sim.restore(*start)
        yield sim
        last = sim.frame + round(seconds * sim.scene.fps)
        while sim.frame < last:
            sim.advance(sim.frame + 1)
            yield sim


def settle(scene: Mapping[str, Any], seconds: float, device: str = "auto") -> State:
    """The state after some time, for `run(..., start=...)`; its clock goes on."""
    with runnel.Simulation(runnel.Scene.from_dict(scene), device, timed=False) as sim:
        sim.advance(sim.frame + round(seconds * sim.scene.fps))
        return sim.state()


# --- measuring -----------------------------------------------------------------------------------


def position(sim: runnel.Simulation) -> Floats:
    """(n, 3) [m], double: sums of many squares need it."""
    return sim.particles["position"].astype(np.float64)


def velocity(sim: runnel.Simulation) -> Floats:
    """(n, 3) [m/s]"""
    return sim.particles["velocity"].astype(np.float64)


def mass(sim: runnel.Simulation) -> Floats:
    """(n,) [kg], in 2D [kg/m]"""
    return sim.particles["mass"].astype(np.float64)


def center_of_mass(sim: runnel.Simulation) -> Floats:
    """(3,) [m]"""
    return np.average(position(sim), axis=0, weights=mass(sim))


def kinetic_energy(sim: runnel.Simulation) -> float:
    """[J], in 2D [J/m]"""
    return float(0.5 * mass(sim) @ (velocity(sim) ** 2).sum(axis=1))


def potential_energy(sim: runnel.Simulation) -> float:
    """Of gravity, from the origin [J], in 2D [J/m]"""
    return float(-mass(sim) @ position(sim) @ np.array(sim.scene.solver.gravity))


def rms_speed(sim: runnel.Simulation) -> float:
    """[m/s]"""
    return float(np.sqrt((velocity(sim) ** 2).sum(axis=1).mean()))


def fill(sim: runnel.Simulation) -> Floats:
    """rho / rho0 of each particle, as its own fluid measures it."""
    rest = np.array([fluid.density for fluid in sim.scene.fluids])
    return sim.particles["density"].astype(np.float64) / rest[sim.particles["phase"]]
