"""Frames on disk: a folder that stays valid whatever happens to the process writing it.

    manifest.json             scene, device, channel table, and one entry per finished frame
    frames/frame_000001.npz   an npz: channels as arrays, or by bytes (planes.py)
    checkpoints/checkpoint_000001.npz   full solver state, the last two
    solids/solid_000.npz      meshes of colliders and bodies; their poses are in the frames' reports

Every file is written aside, flushed to disk and renamed; the manifest follows the frame. So a frame
that the manifest lists is complete, and one that it does not list never happened. Checksums of
every channel are kept twice, in the zip and in the manifest: damage is reported, never returned.
File names come from frame numbers, never from the manifest. docs/decisions/0003-cache-format.md
"""

from .background import Background
from .files import path_aside, plain, write_aside
from .manifest import COMPRESSIONS, Branch, Channel, FrameEntry, Manifest
from .store import CHECKPOINTS_KEPT, Cache

__all__ = [
    "CHECKPOINTS_KEPT",
    "COMPRESSIONS",
    "Background",
    "Branch",
    "Cache",
    "Channel",
    "FrameEntry",
    "Manifest",
    "path_aside",
    "plain",
    "write_aside",
]
