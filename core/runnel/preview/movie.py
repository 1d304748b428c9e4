"""Pictures of a whole cache: frames, contact sheet, movie; one frame in memory at a time."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cache import Cache, write_aside
from ..errors import RunnelError
from ..meshes import Mesh
from .coloring import Legend, channels_needed, particle_colors, value_range, values_of
from .options import PreviewOptions
from .overlay import annotate, pillow
from .render import checked_positions, radii, render, set_stage
from .solids import with_bodies

Image = NDArray[np.uint8]
OnFrame = Callable[[int, int], None] | None

_SAMPLES = 9  # frames looked at to choose the view and the range of colours
_SHEET_WIDTH = 1920  # px
_LOOP_WIDTH, _LOOP_FRAMES = 640, 240  # most of a gif, webp or apng
_USED = ("radius", "phase", "id")


def write_pictures(
    folder: Path,
    out: str | os.PathLike[str] | None,
    options: PreviewOptions,
    frames: Iterable[int] | None,
    on_frame: OnFrame,
) -> list[Path]:
    """See preview() in the package."""
    pillow()
    cache = Cache.open(folder)
    numbers = cache.frames() if frames is None else sorted(set(frames))
    if not numbers:
        raise RunnelError(f"{folder}: the cache holds no frames yet; there is nothing to draw.")
    target = folder / "preview" if out is None else Path(out)
    if out is None and frames is None:
        _remove_stale(target, numbers)
    options = settle(cache, numbers, options)
    on_sheet = set(spread(numbers, options.sheet))
    thumbnails: list[tuple[int, Image]] = []
    pictures, legend = [], Legend()
    for done, frame in enumerate(numbers, 1):
        image, legend = draw(cache, frame, options)
        if frame in on_sheet:
            thumbnails.append((frame, image))
        if options.labels:
            image = annotate(image, caption(cache, frame), legend, options.background)
        pictures.append(target / f"frame_{frame:06d}.png")
        save(pictures[-1], image)
        if on_frame is not None:
            on_frame(done, len(numbers))
    written = list(pictures)
    if thumbnails:
        written.append(target / "contact_sheet.png")
        save(written[-1], sheet(cache, thumbnails, legend, options))
    if options.movie != "none" and len(pictures) > 1:
        written.append(write_movie(target, pictures, cache.fps, options))
    return written


def _remove_stale(target: Path, numbers: list[int]) -> None:
    """Pictures of frames the cache no longer has."""
    keep = {f"frame_{number:06d}.png" for number in numbers}
    for path in target.glob("frame_*.png"):
        if re.fullmatch(r"frame_-?\d{5,8}\.png", path.name) and path.name not in keep:
            path.unlink(missing_ok=True)


def spread(numbers: list[int], count: int) -> list[int]:
    """Up to `count` of the numbers, evenly, with the first and the last."""
    if len(numbers) <= count or count == 0:
        return numbers[: count or 0]
    index = np.unique(np.rint(np.linspace(0, len(numbers) - 1, count)).astype(int))
    return [numbers[i] for i in index]


def read(cache: Cache, frame: int, options: PreviewOptions) -> dict[str, NDArray[Any]]:
    """The channels a picture needs and the frame has."""
    have = cache.entry(frame).checksums
    wanted = ("position", *_USED, *channels_needed(options))
    arrays = cache.read(frame, [name for name in dict.fromkeys(wanted) if name in have])
    if options.color not in ("phase", *arrays):
        values_of({**arrays, **dict.fromkeys(have, np.empty(0))}, options.color)
    return arrays


def settle(cache: Cache, numbers: list[int], options: PreviewOptions) -> PreviewOptions:
    """Options with one view and one range of colours for all frames."""
    corners, samples = [], []
    for frame in spread(numbers, _SAMPLES):
        arrays = read(cache, frame, options)
        position = checked_positions(arrays)
        if options.color != "phase":
            samples.append(values_of(arrays, options.color)[:: max(len(position) // 20000, 1)])
        if len(position):
            reach = 2 * radii(arrays, len(position), cache.scene).max()
            # Nearly all particles: one that flies off must not shrink the rest.
            low, high = np.percentile(position, [0.2, 99.8], axis=0)
            spare = 0.08 * (high - low) + reach
            corners.append(np.maximum(low - spare, position.min(axis=0) - reach))
            corners.append(np.minimum(high + spare, position.max(axis=0) + reach))
    changes: dict[str, Any] = {}
    if options.bounds is None and corners:
        low, high = np.min(corners, axis=0), np.max(corners, axis=0)
        changes["bounds"] = (tuple(low.tolist()), tuple(high.tolist()))
    if options.range is None and samples:
        changes["range"] = value_range(samples)
    return options.replace(**changes)


def draw(cache: Cache, frame: int, options: PreviewOptions) -> tuple[Image, Legend]:
    """Picture without words, and its legend."""
    arrays = read(cache, frame, options)
    try:
        checked_positions(arrays)
    except RunnelError as error:
        raise RunnelError(f"{cache.directory}: frame {frame}: {error}") from error
    color, legend = particle_colors(arrays, cache.scene, options)
    scene = scene_at(cache, frame)
    return render(set_stage(arrays, scene, options, color, frame)), legend


def scene_at(cache: Cache, frame: int) -> Mapping[str, Any]:
    """The scene with its colliders as the cache keeps them: files of the scene are not needed."""
    meshes, report = {}, cache.entry(frame).report
    names = [
        c.get("name") or f"collider_{i}" for i, c in enumerate(cache.scene.get("collider", ()))
    ]
    for index in cache.solids(frame):
        name, vertices, triangles, deforms = cache.read_solid(index, frame)
        if index >= len(names) or name != names[index]:
            continue  # was another one ahead of a branch
        mesh, pose = Mesh(vertices.astype(np.float64), triangles), report.get("poses", {}).get(name)
        if pose is not None:  # where it was, wherever a branch has it now
            turn = np.array(pose, np.float64).reshape(3, 4)
            mesh, deforms = Mesh(mesh.vertices @ turn[:, :3].T + turn[:, 3], triangles), True
        meshes[index] = mesh, deforms
    return with_bodies(cache.scene, report, meshes)


def caption(cache: Cache, frame: int) -> str:
    """One line about a frame."""
    start = cache.scene.get("frames") or [1]
    first = start[0] if isinstance(start, list | tuple) else start
    seconds = (frame - int(first)) / cache.fps
    count = f"{cache.entry(frame).count:,}".replace(",", " ")
    name = str(cache.scene.get("name", ""))
    parts = (name, f"frame {frame}", f"{seconds:.2f} s", f"{count} particles")
    return "   ".join(part for part in parts if part)


def save(path: Path, image: Image) -> None:
    """PNG, aside and renamed."""
    images, _, _ = pillow()
    with write_aside(path) as file:
        images.fromarray(image).save(file, format="PNG")


def sheet(
    cache: Cache, thumbnails: list[tuple[int, Image]], legend: Legend, options: PreviewOptions
) -> Image:
    """Grid of pictures with their frame numbers, the legend below."""
    images, _, _ = pillow()
    columns = max(min(4, len(thumbnails)), 1)
    rows = -(-len(thumbnails) // columns)
    gap = 6
    width = (_SHEET_WIDTH - gap * (columns - 1)) // columns
    height = round(width * options.height / options.width)
    strip = 44 + (26 * len(legend.names[:12]) if legend.names else 40 if legend.colormap else 0)
    paper = 16 if options.background == "dark" else 255
    total = (rows * (height + gap) + strip, columns * (width + gap) - gap, 3)
    canvas = np.full(total, paper, np.uint8)
    for k, (frame, image) in enumerate(thumbnails):
        small = images.fromarray(image).resize((width, height), images.Resampling.LANCZOS)
        labelled = annotate(np.asarray(small), f"{frame}", Legend(), options.background)
        top, left = k // columns * (height + gap), k % columns * (width + gap)
        canvas[top : top + height, left : left + width] = labelled
    words = f"{cache.scene.get('name', '')}   {cache.fps:g} frames per second"
    canvas[-strip:] = annotate(canvas[-strip:], words, legend, options.background, size=18)
    return canvas


def write_movie(target: Path, pictures: list[Path], fps: float, options: PreviewOptions) -> Path:
    """Movie of the pictures in the chosen kind."""
    kind = options.movie
    if kind == "auto":
        kind = "mp4" if _ffmpeg() is not None else "gif"
    path = target / f"preview.{'png' if kind == 'apng' else kind}"
    if kind == "mp4":
        _write_mp4(path, pictures, fps, options)
    else:
        _write_loop(path, kind, pictures, fps)
    return path


def _ffmpeg() -> Any:
    try:
        return import_module("imageio_ffmpeg")
    except ImportError:
        return None


def _write_mp4(path: Path, pictures: list[Path], fps: float, options: PreviewOptions) -> None:
    ffmpeg = _ffmpeg()
    if ffmpeg is None:
        raise RunnelError(
            "mp4 needs imageio-ffmpeg, which is not installed. Install it with: "
            "pip install imageio-ffmpeg, or choose another kind of movie (gif, webp, apng)."
        )
    images, _, _ = pillow()
    size = (options.width // 2 * 2, options.height // 2 * 2)  # the codec wants even numbers
    aside = path.with_name(f".{path.stem}.{os.getpid()}.tmp.mp4")
    try:
        writer = ffmpeg.write_frames(str(aside), size, fps=fps, quality=8, macro_block_size=2)
        writer.send(None)
        for picture in pictures:
            with images.open(picture) as image:
                writer.send(image.convert("RGB").crop((0, 0, *size)).tobytes())
        writer.close()
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def _write_loop(path: Path, kind: str, pictures: list[Path], fps: float) -> None:
    """gif, webp or apng: smaller pictures, and not too many of them."""
    images, _, _ = pillow()
    step = -(-len(pictures) // _LOOP_FRAMES)
    chosen = pictures[::step]

    def small() -> Iterator[Any]:
        for picture in chosen:
            with images.open(picture) as image:
                width = min(_LOOP_WIDTH, image.width)
                height = round(image.height * width / image.width)
                yield image.convert("RGB").resize((width, height), images.Resampling.LANCZOS)

    milliseconds = round(1000 * step / fps)
    settings: dict[str, Any] = {"save_all": True, "duration": milliseconds, "loop": 0}
    if kind == "gif":
        sequence = _with_palette(chosen, small())
        settings |= {"duration": max(milliseconds, 20), "optimize": False}
    else:
        sequence = list(small())
        settings |= {"quality": 85, "method": 4} if kind == "webp" else {}
    with write_aside(path) as file:
        sequence[0].save(
            file, format="PNG" if kind == "apng" else kind.upper(), append_images=sequence[1:],
            **settings,
        )  # fmt: skip


def _with_palette(pictures: list[Path], frames: Iterator[Any]) -> list[Any]:
    """Frames in 256 colours chosen once for all, so that nothing flickers."""
    images, _, _ = pillow()
    probe = images.new("RGB", (320, 180 * 6))
    for k, index in enumerate(np.linspace(0, len(pictures) - 1, 6).astype(int)):
        with images.open(pictures[index]) as image:
            probe.paste(image.convert("RGB").resize((320, 180)), (0, 180 * k))
    palette = probe.quantize(256, method=images.Quantize.MEDIANCUT)
    dither = images.Dither.FLOYDSTEINBERG
    return [frame.quantize(palette=palette, dither=dither) for frame in frames]
