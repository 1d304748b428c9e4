"""What buttons, menus and events of the nodes call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import hou

from runnel import RunnelError
from runnel.presets import PRESETS
from runnel.preview.colors import to_linear

from . import devices, farm, sessions

_PRESET_KEYS = {
    "density": "density", "viscosity": "viscosity", "surfacetension": "surface_tension",
    "vorticity": "vorticity",
}  # fmt: skip


def resimulate(node: hou.OpNode) -> None:
    """Forget all frames and cook anew."""
    session = sessions.existing(node)
    if session is not None:
        session.reset()
    _cook(node)


def reload_cache(node: hou.OpNode) -> None:
    """Look at the cache folder anew."""
    session = sessions.existing(node)
    if session is not None:
        session.disk = None
    _cook(node)


def deleted(node: hou.OpNode) -> None:
    """The node goes: so does all it kept, and what it had started."""
    farm.stop(node)
    sessions.drop(node)


def edit_preset(node: hou.OpNode, row: int) -> None:
    """Copy a preset's values into the row and turn it to Custom."""
    preset = PRESETS.get(str(node.evalParm(f"preset{row}")))
    if preset is None:
        return
    for name, key in _PRESET_KEYS.items():
        _set(node, f"{name}{row}", float(getattr(preset, key)))
    _set(node, f"usecolor{row}", 1)
    for axis, value in zip("rgb", to_linear(preset.color), strict=True):
        _set(node, f"color{row}{axis}", float(value))
    _set(node, f"preset{row}", "custom")


def write_scene(node: hou.OpNode) -> None:
    """Write the scene for the command line."""
    with _told():
        order = farm.write_scene(_sop(node))
        _say(" ".join([f"Wrote {order.scene}", *order.notes]))


def simulate_to_disk(node: hou.OpNode) -> None:
    """Write the scene and simulate it in a process of its own."""
    with _told():
        order = farm.start(_sop(node))
        _say(" ".join([f"Simulating into {order.cache}", *order.notes]))


def stop_simulation(node: hou.OpNode) -> None:
    """Stop that process."""
    _say("Stopped. Frames on disk stay valid." if farm.stop(node) else "Nothing is running.")


def show_command(node: hou.OpNode) -> None:
    """Write the scene and show the command that simulates it."""
    with _told():
        command = farm.write_scene(_sop(node)).command
        if hou.isUIAvailable():
            hou.ui.copyTextToClipboard(command)
            hou.ui.displayMessage(f"{command}\n\nIt is in the clipboard.", title="Runnel")
        else:
            _say(command)


def device_menu(node: hou.OpNode) -> list[str]:
    """Tokens and labels in turn."""
    return devices.menu()


# --------------------------------------------------------------------------------------------------


def _sop(node: hou.OpNode) -> hou.SopNode:
    return cast(hou.SopNode, node)


def _set(node: hou.OpNode, name: str, value: float | str) -> None:
    parm = node.parm(name)
    if parm is not None:
        parm.set(value)


def _cook(node: hou.OpNode) -> None:
    try:
        node.cook(force=True)
    except hou.Error:
        pass  # the node shows what is wrong


def _say(text: str) -> None:
    if hou.isUIAvailable():
        hou.ui.setStatusMessage(text)
    else:
        print(text)


@contextmanager
def _told() -> Iterator[None]:
    """Errors in plain words; Esc is no error."""
    try:
        yield
    except hou.OperationInterrupted:
        _say("Interrupted.")
    except (RunnelError, OSError) as error:
        if not hou.isUIAvailable():
            raise
        hou.ui.displayMessage(str(error), severity=hou.severityType.Error, title="Runnel")
