"""What the shading kernels take, grouped; numba understands named tuples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Numbers = NDArray[np.int32]
Bytes = NDArray[np.uint8]


class Balls(NamedTuple):
    """Particles on the screen."""

    x: Singles  # [px]
    y: Singles
    z: Singles  # depth [m]
    reach: Singles  # [px]
    radius: Singles  # [m]
    color: Singles  # (n, 3) linear rgb


class Solids(NamedTuple):
    """Obstacles."""

    rows: Floats  # as solids.py packs them
    color: Floats  # (n, 3) linear rgb


class Buffers(NamedTuple):
    """What is seen."""

    depth: Singles  # per sample; inf where nothing is
    who: Numbers  # per sample; see screen.BACKGROUND
    openness: Singles  # per pixel
    soft: Singles  # normals of the smoothed surface, per 2 x 2 pixels


class Shadow(NamedTuple):
    """The key light's view of the scene."""

    on: bool
    camera: Floats
    depth: Singles
    bias: float  # [m]
    spread: float  # softness on things [map pixels]
    floor_spread: float  # softness on the floor


class Ground(NamedTuple):
    """The floor."""

    on: bool
    axis: int  # that points up
    height: float  # [m]
    center: Floats  # of the lit patch: (2,) in floor coordinates
    radius: float  # of the lit patch [m]
    window: Floats  # extent of the contact map: low, high of the first axis, of the second
    contact: Singles  # soft shadow of what lies above, 0..1


class Look(NamedTuple):
    """Lights and backdrop; colours are linear rgb."""

    key_direction: Floats
    key: Floats
    fill_direction: Floats
    fill: Floats
    sky: Floats
    ground: Floats
    rim: Floats
    gloss: float
    sharpness: float
    up: Floats
    top: Floats  # backdrop
    bottom: Floats
    floor: Floats
    smooth: float
