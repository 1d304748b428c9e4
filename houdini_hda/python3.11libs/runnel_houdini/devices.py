"""The device to compute on: the node's parameter, and Houdini's own OpenCL variables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from runnel.backends import devices
from runnel.backends.devices import DeviceInfo

TYPE, VENDOR, NUMBER = "HOUDINI_OCL_DEVICETYPE", "HOUDINI_OCL_VENDOR", "HOUDINI_OCL_DEVICENUMBER"


def pick(word: str, environment: Mapping[str, str] = os.environ) -> DeviceInfo:
    """The device that the parameter means; "auto" goes by Houdini's variables if they are set."""
    if word.strip().casefold() not in ("", "auto") or environment.get("RUNNEL_DEVICE"):
        return devices.choose(word)
    chosen = by_variables(devices.list_devices(), environment)
    return devices.choose("auto") if chosen is None else chosen


def by_variables(found: Sequence[DeviceInfo], environment: Mapping[str, str]) -> DeviceInfo | None:
    """The device that Houdini's variables name: type, vendor, number among those that are left.

    None: they are not set, or name nothing that works here; then the best of all is taken.
    """
    kind = environment.get(TYPE, "").strip().casefold()
    vendor = environment.get(VENDOR, "").strip().casefold()
    number = environment.get(NUMBER, "").strip()
    if not (kind or vendor or number):
        return None
    left = [info for info in found if info.works and info.kind in ("gpu", "cpu")]
    if kind in ("gpu", "cpu"):
        left = [info for info in left if info.kind == kind]
    if vendor:
        left = [info for info in left if vendor in f"{info.platform} {info.name}".casefold()]
    place = int(number) if number.isdecimal() else 0
    if not left:
        return None
    return left[place] if place < len(left) else left[0]


def known() -> list[DeviceInfo]:
    """All devices that were found here."""
    return devices.list_devices()


def menu() -> list[str]:
    """Tokens and labels in turn, for the menu of the parameter."""
    found = ["auto", "Automatic", "gpu", "Best GPU", "cpu", "CPU"]
    for number, info in enumerate(devices.list_devices()):
        if info.works:
            found += [str(number), f"{number}: {info.name} ({info.platform})"]
    return [*found, "reference", "Reference (no OpenCL, slow)"]
