"""Branches: going on from a frame of a cache with changed settings.

The state at that frame comes from a checkpoint, or from an earlier one by simulating the old scene
again, which gives the same bits. Then the new scene takes it over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .backends.devices import DeviceInfo
from .cache import Cache
from .errors import CacheError, RunnelError, SceneError
from .scene import Scene
from .simulation import Simulation

State = tuple[dict[str, NDArray[Any]], dict[str, Any]]

_NO_PARTICLES = ("body_", "soft_", "wet.", "wet_fed.")  # arrays of what has a length of its own
_FIXED = ("fps", "dimensions", "up")  # what the frames that are shared rest on


def parent_scene(parent: Cache, scene: Scene) -> Scene:
    """The scene that a cache was made of; its meshes lie where those of the new scene do."""
    return Scene.from_dict(parent.scene, scene.directory, allow_outside=scene.allow_outside)


def check_change(old: Scene, new: Scene) -> None:
    """Refuse what cannot change in the middle of a shot."""
    for name in _FIXED:
        _same(name, getattr(old, name), getattr(new, name))
    _same("frames[0]", old.frames[0], new.frames[0])
    _same("solver.support", old.solver.support, new.solver.support)
    _same("fluid names", [f.name for f in old.fluids], [f.name for f in new.fluids])
    _same("bodies", _bodies(old), _bodies(new))
    was = {source.name: source for source in old.sources}
    now = {source.name: source for source in new.sources}
    for name in was.keys() | now.keys():
        a, b = was.get(name), now.get(name)
        if "volume" in {source.kind for source in (a, b) if source}:
            _same(f"source.{name}", a, b)
        elif a and b:
            _same(f"source.{name}.spacing", a.spacing, b.spacing)


def _bodies(scene: Scene) -> list[tuple[str, str]]:
    return [(c.name, c.body) for c in scene.colliders if c.body in ("rigid", "deformable")]


def _same(key: str, old: Any, new: Any) -> None:
    if old != new:
        raise SceneError(
            "cannot change in a branch, because particles that are there depend on it. Keep it, "
            "or simulate from the start without --branch",
            key=key,
            value=new if isinstance(new, int | float | str | list) else repr(new),
        )


def state_at(
    parent: Cache,
    scene: Scene,
    frame: int,
    device: DeviceInfo,
    memory_limit: int | None = None,
    say: Callable[[str], None] = lambda text: None,
    on_step: Callable[..., None] | None = None,
) -> State:
    """State of a cache's own scene at a frame."""
    start: State | None = None
    first = scene.frames[0]
    for number, arrays, meta in parent.sound_checkpoints():
        if number < frame or (number == frame and not meta["clock"]["done"]):
            start, first = (arrays, meta), number
            break
    if start is not None and first == frame:
        return start
    say(f"{parent.directory}: frame {frame} has no checkpoint, simulating from frame {first}")
    with Simulation(scene, device, memory_limit=memory_limit, timed=False) as sim:
        if start is not None:
            restore(sim, start, str(parent.checkpoint_path(first)))
        sim.advance(frame, on_step=on_step)
        if not _agrees(sim, parent, frame):
            raise RunnelError(
                f"{parent.directory}: simulating frame {frame} again gave other particles than the "
                f"cache holds; it was made on {parent.manifest.device}. Choose that with --device, "
                "or branch from a frame with a checkpoint."
            )
        return sim.state()


def _agrees(sim: Simulation, parent: Cache, frame: int) -> bool:
    known = [n for n in ("id", "position", "velocity") if n in parent.entry(frame).checksums]
    kept = parent.read(frame, known)
    return all(np.array_equal(kept[name], sim.particles[name]) for name in known)


def restore(sim: Simulation, state: State, place: str) -> None:
    """Give a simulation a stored state; what does not fit the scene is refused, `place` blamed."""
    try:
        _check_state(sim.scene, *state)
        sim.restore(*state)
    except (
        RunnelError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
    ) as error:
        reason = f"{type(error).__name__}: {error}"
        raise CacheError(
            f"{place}: holds no state of this scene ({reason}). Delete it; --resume goes on from "
            "an earlier one, or from the start."
        ) from error


def _check_state(scene: Scene, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
    """Nothing reaches a device that is of another length, no number, or of a fluid there is not."""
    count = len(arrays["id"])
    for name, array in arrays.items():
        held = name.startswith("nozzle.")
        own = name.startswith(_NO_PARTICLES)
        if not own and len(array) != (len(arrays["nozzle.id"]) if held else count):
            raise ValueError(f"{name!r} has {len(array)} rows for {count} particles")
        if array.dtype.kind == "f" and name not in ("expiry", "birth"):
            if not np.isfinite(array).all():
                raise ValueError(f"{name!r} is not finite")
    if arrays["phase"].max(initial=0) >= len(scene.fluids):
        raise ValueError("a particle is of a fluid that the scene does not have")
    if not (arrays["kernel_radius"] > 0).all() or not (arrays["volume"] > 0).all():
        raise ValueError("a particle has no size")
    if len(np.unique(arrays["id"])) != count or int(meta["next_id"]) <= arrays["id"].max(initial=0):
        if count:
            raise ValueError("two particles have the same id")


def taken_over(state: State, old: Scene, new: Scene) -> State:
    """The state of the old scene as one of the new.

    Emitters that changed begin anew at this moment; books go on with the new densities.
    """
    arrays, meta = state
    was = {source.name: source for source in old.sources}
    emitters = {
        source.name: dict(meta["emitters"][source.name])
        if source == was.get(source.name) and old.fps == new.fps
        else {"next_layer": 0}  # none is born twice: it looks at the time, too
        for source in new.sources
        if source.kind == "emitter"
    }
    return arrays, {**meta, "emitters": emitters, "ledger": _books(arrays, meta, old, new)}


def _books(
    arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any], old: Scene, new: Scene
) -> dict[str, Any]:
    """Masses with the new densities; what was removed is what is missing."""
    ledger = meta["ledger"]
    density = {fluid.name: fluid.density for fluid in new.fluids}
    before = {fluid.name: fluid.density for fluid in old.fluids}
    if density == before:
        return dict(ledger)
    fluid = {source.name: source.fluid for source in old.sources}
    emitted = {
        name: [count, mass * density[fluid[name]] / before[fluid[name]]]
        for name, (count, mass) in ledger["emitted"].items()
    }
    column = np.array([f.density for f in new.fluids])
    there = float(column[arrays["phase"]] @ arrays["volume"].astype(np.float64))
    gone = sum(mass for _, mass in emitted.values()) - there
    return {"emitted": emitted, "removed": [ledger["removed"][0], gone]}
