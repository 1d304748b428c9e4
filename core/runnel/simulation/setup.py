"""From a scene to the model of its fluids and a backend on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..backends import devices
from ..backends.base import Backend
from ..backends.devices import DeviceInfo
from ..colliders import Solids
from ..particles import Allocator
from ..scene import Scene
from ..scene_checks import spacings
from ..solver.calibration import calibrate
from ..solver.model import Model, attraction_limit, tensile_stiffness

if TYPE_CHECKING:
    from ..bodies.rigid import RigidBodies
    from ..bodies.soft import SoftBodies
    from ..solver.coarse import CoarseLevel


def make_model(scene: Scene) -> Model:
    """What the passes need to know of a scene's fluids."""
    fluids, solver = scene.fluids, scene.solver
    return Model(
        calibration=calibrate(solver.kernel, scene.dimensions, solver.support),
        ignored_axis=scene.ignored_axis,
        exact=solver.multiplier == "exact",
        rest_density=_column([f.density for f in fluids]),
        viscosity=_column([f.viscosity for f in fluids]),
        attraction=_column([attraction_limit(f.surface_tension) for f in fluids]),
        tensile=_column([tensile_stiffness(f.surface_tension) for f in fluids]),
        vorticity=_column([f.vorticity for f in fluids]),
    )


def coarse_level(scene: Scene, model: Model) -> CoarseLevel | None:
    """What takes long waves of compression, where that is wanted.

    It takes solids for unmoved, so bodies would be thrown: not with them.
    """
    moved = any(part.body in ("rigid", "deformable") for part in scene.colliders)
    if moved or not scene.solver.long_waves:
        return None
    from ..solver.coarse import CoarseLevel

    return CoarseLevel(model, scene.solver.tolerance)


def bodies_of(scene: Scene, solids: Solids) -> RigidBodies | None:
    """The bodies that the fluid moves; None where a scene has none."""
    if all(part.body != "rigid" for part in scene.colliders):
        return None
    from ..bodies.rigid import RigidBodies

    return RigidBodies(scene, solids)


def deformables_of(scene: Scene, solids: Solids, rigid: RigidBodies | None) -> SoftBodies | None:
    """The bodies that the fluid deforms; None where a scene has none."""
    if all(part.body != "deformable" for part in scene.colliders):
        return None
    from ..bodies.soft import SoftBodies

    return SoftBodies(scene, solids, rigid)


def _column(values: list[float]) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def kernel_radii(scene: Scene) -> tuple[float, ...]:
    """All there can be [m], rounded as particles hold them."""
    sizes = {size for source in scene.sources for size in spacings(scene, source)}
    radii = {float(np.float32(scene.solver.support / 2 * size)) for size in sizes}
    return tuple(sorted(radii))


def open_backend(
    scene: Scene, model: Model, device: str | int | DeviceInfo
) -> tuple[Backend, DeviceInfo, Allocator | None]:
    """A backend on a device, and memory the device reaches directly (None: ordinary memory)."""
    info = device if isinstance(device, DeviceInfo) else devices.choose(device)
    if info.kind == "reference":
        devices.prepare_environment()
        from ..backends.reference import ReferenceBackend

        return ReferenceBackend(model), info, None
    from ..backends.opencl import OpenCLBackend
    from .pinned import PinnedAllocator

    _, queue = devices.open_context(info)
    backend = OpenCLBackend(
        model,
        queue,
        kernel_radii=kernel_radii(scene),
        reorder_interval=scene.solver.reorder_interval,
    )
    return backend, info, PinnedAllocator(queue)
