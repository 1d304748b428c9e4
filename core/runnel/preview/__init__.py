"""Pictures of a cache: PNG frames, a contact sheet, a movie; by a splatter of our own.

numba and Pillow are loaded when the first picture is made, not before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .options import PreviewOptions

__all__ = ["PreviewOptions", "preview", "render_frame"]


def render_frame(
    arrays: Mapping[str, NDArray[Any]],
    scene: Mapping[str, Any],
    options: PreviewOptions | None = None,
    *,
    frame: float = 0,
    text: str = "",
) -> NDArray[np.uint8]:
    """Picture (height, width, 3), sRGB bytes, of the channels of one frame.

    `arrays` needs position (n, 3); radius, phase and the channel to colour by are used if there.
    `scene` is Scene.to_dict(): fluids' colours, colliders, up axis. `frame` places what moves.
    """
    from .coloring import particle_colors
    from .overlay import annotate
    from .render import checked_positions, render, set_stage

    chosen = options or PreviewOptions()
    checked_positions(arrays)
    color, legend = particle_colors(arrays, scene, chosen)
    image = render(set_stage(arrays, scene, chosen, color, frame))
    return annotate(image, text, legend, chosen.background) if chosen.labels else image


def preview(
    cache_dir: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    options: PreviewOptions | None = None,
    *,
    frames: Iterable[int] | None = None,
    on_frame: Callable[[int, int], None] | None = None,
) -> list[Path]:
    """Write frame_000001.png ..., contact_sheet.png and a movie into `out` (DIR/preview).

    `on_frame(done, total)` is called after each frame. Returns the files, the frames first.
    """
    from .movie import write_pictures

    return write_pictures(Path(cache_dir), out, options or PreviewOptions(), frames, on_frame)
