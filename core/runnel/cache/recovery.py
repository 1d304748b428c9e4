"""A manifest made anew from the frames, for when the old one is lost or damaged."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CacheError
from .manifest import Channel, FrameEntry, Manifest, read_channel, text
from .pack import Damaged, Layout, Pack, explained


def numbered(folder: Path, stem: str) -> list[int]:
    """Numbers of the files `stem_000001.npz` in a folder; foreign names are left alone."""
    found = (re.fullmatch(rf"{stem}_(-?\d{{5,8}})\.npz", path.name) for path in folder.glob("*"))
    return sorted(int(match[1]) for match in found if match)


def frame_path(folder: Path, frame: int) -> Path:
    return folder / "frames" / f"frame_{frame:06d}.npz"


def take_frames(folder: Path, manifest: Manifest, digests: set[str]) -> Path | None:
    """List all sound frames of scenes with these digests; returns a file of another scene."""
    foreign = None
    for number in numbered(folder / "frames", "frame"):
        path = frame_path(folder, number)
        with suppress(CacheError), explained(path), Pack(path) as pack:
            header = pack.header()
            if header["format"] != "runnel-frame" or header["scene_digest"] not in digests:
                foreign = foreign or path
                continue
            entry, channels = _entry(pack, header)
            if entry.frame == number:
                manifest.channels.update(channels)
                manifest.frames[number] = entry
    return foreign


def make_anew(folder: Path, manifest: Manifest) -> None:
    """Fill an empty manifest with the frames up to the first gap; none may be of another scene."""
    foreign = take_frames(folder, manifest, {manifest.digest})
    if foreign is not None:
        raise CacheError(
            f"{folder}: manifest.json is lost or damaged, and {foreign.name} is of another scene, "
            "of this one with another last frame, or shared with the cache that this one branched "
            "from. Restore manifest.json from a copy, or simulate into another folder."
        )
    numbers = sorted(manifest.frames)
    for place, number in enumerate(numbers):
        if number != numbers[0] + place:
            del manifest.frames[number]


def _entry(pack: Pack, header: dict[str, Any]) -> tuple[FrameEntry, dict[str, Channel]]:
    """Entry of a frame file that proves sound, from what it says about itself."""
    channels, sums = {}, {}
    for name, item in header["arrays"].items():
        layout = layout_of(item)
        pack.array(name, layout)
        width = layout.shape[1] if len(layout.shape) == 2 else 1
        item = {"dtype": layout.dtype.name, "width": width, "unit": header["units"][name]}
        channels[name] = read_channel(name, item)
        sums[name] = f"{pack.checksum(name, layout.dtype):08x}"
    data = {**header, "bytes": pack.path.stat().st_size, "checksums": sums}
    return FrameEntry.from_json(data, channels), channels


def layout_of(item: Any) -> Layout:
    """What a header says of an array."""
    dtype = np.dtype(text(item, "dtype")).newbyteorder("<")
    shape = tuple(item["shape"])
    if dtype.kind not in "biuf" or not all(type(n) is int and n >= 0 for n in shape):
        raise Damaged(f"declares an array of {dtype} {shape}")
    return Layout(dtype, shape)
