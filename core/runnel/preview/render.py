"""One picture: particles as shaded balls on a floor, colliders hinted."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import RunnelError
from . import lines, screen, shading
from .camera import Camera, directions, look_at_box
from .colors import hex_color, to_srgb
from .options import PreviewOptions
from .parts import Balls, Buffers, Ground, Look, Shadow, Solids
from .solids import SOLID_COLUMNS, TRIANGLE, Props, corners, gather

Image = NDArray[np.uint8]
Floats = NDArray[np.float64]
Channels = Mapping[str, NDArray[Any]]

SHADOW_PIXELS = 1024
CONTACT_PIXELS = 192
_SOLID_COLOR = "#b9b4ab"
_THEMES = {  # backdrop top, bottom, floor, lines
    "dark": ("#20262e", "#0c0f13", "#59626c", "#dfe8f0"),
    "light": ("#dfe5ea", "#f3f5f6", "#eceff1", "#3b4650"),
}


def share_rows(work: Callable[..., Any], count: int, *arguments: Any) -> None:
    """Call work(first, last, *arguments) for pieces of range(count) on all cores."""
    workers = min(os.cpu_count() or 1, 16)
    pieces = np.linspace(0, count, min(count, 8 * workers) + 1).astype(int).tolist()
    with ThreadPoolExecutor(workers) as pool:
        tasks = [pool.submit(work, first, last, *arguments) for first, last in pairwise(pieces)]
        for task in tasks:
            task.result()


def checked_positions(arrays: Channels) -> Floats:
    """Positions (n, 3); refuses what cannot be drawn and names the particle."""
    if "position" not in arrays:
        raise RunnelError("The frame has no channel 'position'; there is nothing to draw.")
    position = np.asarray(arrays["position"], dtype=np.float64)
    if position.ndim != 2 or position.shape[1] != 3:
        raise RunnelError(f"'position' has shape {position.shape}, expected (n, 3).")
    bad = np.flatnonzero(~np.isfinite(position).all(axis=1))
    if bad.size:
        first = int(bad[0])
        name = f" (id {int(arrays['id'][first])})" if "id" in arrays else ""
        raise RunnelError(
            f"Position of particle {first}{name} is {position[first].tolist()}, not finite; "
            f"{bad.size} particles in all. The simulation went bad before this frame: lower "
            "time_step or raise iterations."
        )
    return position


def radii(arrays: Channels, count: int, scene: Mapping[str, Any]) -> Floats:
    """Radius of each particle [m], from the channel or else from the sources' spacing."""
    if "radius" in arrays:
        radius = np.asarray(arrays["radius"], dtype=np.float64).reshape(-1)
        if len(radius) != count or not (np.isfinite(radius).all() and (radius > 0).all()):
            raise RunnelError("'radius' must hold one positive number per particle.")
        return radius
    spacings = [
        float(source["spacing"]) for source in scene.get("source", ()) if "spacing" in source
    ]
    return np.full(count, min(spacings, default=0.02) / 2)


@dataclass
class Stage:
    """Everything of one picture in world coordinates."""

    position: Floats
    radius: Floats
    color: Floats  # linear rgb
    props: Props
    options: PreviewOptions
    up: int
    flat: bool
    low: Floats  # of what fills the picture
    high: Floats

    @property
    def grain(self) -> float:
        """Radius of a typical particle [m]."""
        if len(self.radius):
            return float(np.median(self.radius))
        return 0.01 * float(np.linalg.norm(self.high - self.low))

    @property
    def floor(self) -> float:
        """Height of the floor [m]."""
        if self.props.floor is not None:
            return self.props.floor
        return float(self.low[self.up])


def set_stage(
    arrays: Channels,
    scene: Mapping[str, Any],
    options: PreviewOptions,
    color: Floats,
    frame: float,
) -> Stage:
    """Gather particles and colliders, and what fills the picture."""
    position = checked_positions(arrays)
    radius = radii(arrays, len(position), scene) * options.radius_scale
    if options.bounds is not None:
        low, high = (np.asarray(corner, dtype=np.float64) for corner in options.bounds)
    elif len(position):
        reach = radius.max()
        low, high = position.min(axis=0) - reach, position.max(axis=0) + reach
    else:
        low, high = np.full(3, np.inf), np.full(3, -np.inf)
    empty = not (low <= high).all()
    limits = (np.zeros(3), np.ones(3)) if empty else (low, high)
    props = gather(scene, frame, limits, options.glass) if options.colliders else Props()
    if empty:
        low = np.min(props.low, axis=0) if props.low else limits[0]
        high = np.max(props.high, axis=0) if props.high else limits[1]
    up = 1 if scene.get("up") == "y" else 2
    flat = scene.get("dimensions") == 2
    if flat:  # no layer behind would fill the gaps
        radius = radius * 1.25
    return Stage(position, radius, color, props, options, up, flat, low, high)


def place_camera(stage: Stage) -> Camera:
    """Camera of the options, at the resolution of the samples; 2D scenes are seen head-on."""
    options = stage.options
    size = (options.width * options.quality, options.height * options.quality)
    azimuth, elevation = (0.0, 0.0) if stage.flat else (options.azimuth, options.elevation)
    axes = directions(azimuth, elevation, "y" if stage.up == 1 else "z")
    return look_at_box(
        stage.low,
        stage.high,
        axes,
        size,
        fov=options.fov,
        ortho=options.ortho or stage.flat,
        zoom=options.zoom,
    )


def splat(camera: Camera, stage: Stage) -> tuple[Balls, NDArray[np.float32], NDArray[np.int32]]:
    """Balls on the screen, nearest first, with depth and who of each sample; solids included."""
    x, y, depth = camera.project(stage.position)
    reach = np.maximum(stage.radius * camera.factor(depth), 0.7)
    seen = depth > stage.radius * 1.5
    seen &= (x > -reach) & (x < camera.width + reach) & (y > -reach) & (y < camera.height + reach)
    index = np.flatnonzero(seen)
    index = index[np.argsort(depth[index], kind="stable")]
    values = (x, y, depth, reach, stage.radius, stage.color)
    balls = Balls(*(np.ascontiguousarray(value[index], dtype=np.float32) for value in values))
    shape = (camera.height, camera.width)
    nearest = np.full(shape, np.inf, np.float32)
    who = np.full(shape, screen.BACKGROUND, np.int32)
    across, down = -(-camera.width // screen.TILE), -(-camera.height // screen.TILE)
    starts, items = screen.bin_discs(balls.x, balls.y, balls.reach, across, down)
    share_rows(screen.splat_tiles, across * down, starts, items, balls, across, nearest, who)
    if stage.props.solids:
        rows, windows = np.array(stage.props.solids), _windows(camera, stage.props.solids)
        share_rows(shading.trace_rows, camera.height, camera.packed(), rows, windows, nearest, who)
    return balls, nearest, who


def _windows(camera: Camera, solids: list[Floats]) -> NDArray[np.int64]:
    """Pixels each solid can cover: left, right, top, bottom."""
    windows = np.zeros((len(solids), 4), np.int64)
    rows = np.array(solids)
    flat = rows[:, 0] == TRIANGLE
    points = [corners(row) for row in rows[~flat]]
    for some, places in ((~flat, np.array(points).reshape(-1, 8, 3)),
                         (flat, rows[flat, 1:10].reshape(-1, 3, 3))):  # fmt: skip
        x, y, depth = (a.reshape(places.shape[:2]) for a in camera.project(places.reshape(-1, 3)))
        if not len(places):
            continue
        low, high = np.minimum.reduce, np.maximum.reduce
        ends = [low(x, axis=1) - 1, high(x, axis=1) + 2, low(y, axis=1) - 1, high(y, axis=1) + 2]
        limits = np.array([camera.width, camera.width, camera.height, camera.height])
        window = np.clip(np.stack(ends, axis=1), 0, limits)
        if not camera.ortho:
            window[(depth <= 0).any(axis=1)] = [0, camera.width, 0, camera.height]
        windows[some] = window
    return windows


def key_direction(camera: Camera, up: int) -> Floats:
    """From the scene towards the key light: above, to the left, a little to the front."""
    level = camera.forward.copy()
    level[up] = 0.0
    if np.linalg.norm(level) > 1e-9:
        level /= np.linalg.norm(level)
    direction = 1.25 * np.eye(3)[up] - 0.85 * camera.right - 0.35 * level
    return np.asarray(direction / np.linalg.norm(direction))


def shadow_map(stage: Stage, direction: Floats) -> Shadow:
    """What the key light sees, from a camera without perspective."""
    right = np.cross(np.eye(3)[stage.up], direction)
    right /= np.linalg.norm(right)
    axes = (right, np.cross(direction, right), -direction)
    if len(stage.position):
        low = stage.position.min(axis=0) - stage.grain
        high = stage.position.max(axis=0) + stage.grain
        # A few strays must not cost the others their resolution.
        span = stage.high - stage.low
        low, high = np.maximum(low, stage.low - span), np.minimum(high, stage.high + span)
    else:
        low, high = stage.low, stage.high
    if stage.props.low:
        span = stage.high - stage.low
        low = np.minimum(low, np.maximum(np.min(stage.props.low, axis=0), stage.low - span))
        high = np.maximum(high, np.minimum(np.max(stage.props.high, axis=0), stage.high + span))
    camera = look_at_box(low, high, axes, (SHADOW_PIXELS, SHADOW_PIXELS), ortho=True, margin=0.02)
    _, depth, _ = splat(camera, stage)
    bias = 1.2 * stage.grain + 2.0 / camera.scale
    size = float(np.linalg.norm(stage.high - stage.low))
    soft = max(min(1.5 * stage.grain, 0.01 * size) * camera.scale, 2.0)
    wide = max(0.015 * size * camera.scale, soft)
    return Shadow(True, camera.packed(), depth, bias, soft, wide)


def no_shadow() -> Shadow:
    return Shadow(False, np.zeros(16), np.zeros((1, 1), np.float32), 0.0, 0.0, 0.0)


def lay_floor(stage: Stage) -> Ground:
    """Floor under the scene, with the soft shadow of what is close above it."""
    first, second = 0, 3 - stage.up
    center = (stage.low + stage.high)[[first, second]] / 2
    radius = 0.5 * float(np.linalg.norm((stage.high - stage.low)[[first, second]])) + 1e-9
    contact = np.zeros((CONTACT_PIXELS, CONTACT_PIXELS))
    window = np.array(
        [center[0] - 1.6 * radius, center[0] + 1.6 * radius,
         center[1] - 1.6 * radius, center[1] + 1.6 * radius]
    )  # fmt: skip
    if len(stage.position):
        above = (stage.position[:, stage.up] - stage.floor) / (0.12 * radius)
        weight = np.exp(-np.maximum(above, 0.0)) * (4 * stage.radius**2)
        edges = [window[2:], window[:2]]
        where = stage.position[:, [second, first]]
        contact, _, _ = np.histogram2d(
            where[:, 0], where[:, 1], bins=CONTACT_PIXELS, range=edges, weights=weight
        )
        contact = _blur(contact / (3.2 * radius / CONTACT_PIXELS) ** 2, CONTACT_PIXELS // 48)
        contact = 1.0 - np.exp(-1.5 * contact)
    on = stage.options.floor and not stage.flat
    return Ground(on, stage.up, stage.floor, center, radius, window, contact.astype(np.float32))


def _blur(image: Floats, reach: int) -> Floats:
    """Three box filters along both axes: nearly a Gaussian."""
    box = np.ones(2 * reach + 1) / (2 * reach + 1)
    for _ in range(3):
        for axis in (0, 1):
            image = np.apply_along_axis(np.convolve, axis, image, box, mode="same")
    return image


def make_look(stage: Stage, camera: Camera, direction: Floats) -> Look:
    """Lights that move with the camera."""
    up = np.eye(3)[stage.up]
    fill = 0.9 * camera.right + 0.35 * up - 0.7 * camera.forward
    top, bottom, floor, _ = (hex_color(code) for code in _THEMES[stage.options.background])
    # The last pass maps light x to 1 - exp(-x); the backdrop must come out as given.
    undo = [-np.log1p(-np.minimum(color, 0.999)) for color in (top, bottom, floor)]
    return Look(
        key_direction=direction,
        key=np.array([1.0, 0.96, 0.9]) * 2.0,
        fill_direction=fill / np.linalg.norm(fill),
        fill=np.array([0.6, 0.75, 1.0]) * 0.35,
        sky=np.array([0.8, 0.9, 1.0]) * 0.75,
        ground=np.array([0.9, 0.85, 0.8]) * 0.25,
        rim=np.array([0.7, 0.85, 1.0]) * 0.35,
        gloss=0.2,
        sharpness=18.0,
        up=up,
        top=undo[0],
        bottom=undo[1],
        floor=undo[2],
        smooth=stage.options.smooth,
    )


def surroundings(camera: Camera, stage: Stage, depth: NDArray[np.float32]) -> tuple[Any, Any]:
    """Openness per pixel, and normals of the smoothed surface per 2 x 2 pixels."""
    quality = stage.options.quality
    pixels = np.ascontiguousarray(depth[::quality, ::quality])
    openness = np.empty_like(pixels)
    scale = camera.scale / quality
    if stage.flat:
        return np.ones_like(pixels), np.zeros((1, 1, 3), np.float32)
    share_rows(
        screen.occlusion_rows, len(pixels), pixels, 9 * stage.grain, camera.ortho, scale, openness
    )
    even = np.empty_like(openness)
    share_rows(screen.even_rows, len(pixels), openness, pixels, 2 * stage.grain, even)
    half = np.ascontiguousarray(pixels[::2, ::2])
    aside, soft = np.empty_like(half), np.zeros((*half.shape, 3), np.float32)
    if stage.options.smooth > 0:
        span, limit = 4 * stage.grain * scale / 2, 4 * stage.grain
        for _ in range(2):
            for across, source, target in ((True, half, aside), (False, aside, half)):
                share_rows(
                    screen.blur_depth_rows, len(half), source, across, span, limit, camera.ortho,
                    target,
                )  # fmt: skip
        share_rows(screen.normal_rows, len(half), half, limit, camera.ortho, scale / 2, soft)
    return even, soft


def draw_lines(
    camera: Camera, stage: Stage, depth: NDArray[np.float32], image: NDArray[np.float32]
) -> None:
    """Containers as thin edges."""
    quality = stage.options.quality
    color = hex_color(_THEMES[stage.options.background][3])
    near = 1e-3 * float(np.linalg.norm(stage.high - stage.low))
    for segments in stage.props.lines:
        for segment in segments:
            ahead = (segment - camera.eye) @ camera.forward
            if (ahead < near).all():
                continue
            if (ahead < near).any():  # cut what lies behind the camera
                t = (near - ahead[0]) / (ahead[1] - ahead[0])
                segment = segment.copy()
                segment[int(np.argmin(ahead))] = segment[0] + t * (segment[1] - segment[0])
            x, y, z = camera.project(segment)
            ends = np.stack([x / quality, y / quality, z], axis=1)
            thick = max(1.0, stage.options.height / 600)
            lines.draw_line(ends, thick, color, 0.45, 0.12, depth, quality, image)


def render(stage: Stage) -> Image:
    """Picture (height, width, 3) of a stage."""
    options = stage.options
    camera = place_camera(stage)
    balls, depth, who = splat(camera, stage)
    openness, soft = surroundings(camera, stage, depth)
    direction = key_direction(camera, stage.up)
    shadow = shadow_map(stage, direction) if options.shadows and not stage.flat else no_shadow()
    rows = np.array(stage.props.solids) if stage.props.solids else np.zeros((0, SOLID_COLUMNS))
    solids = Solids(rows, np.tile(hex_color(_SOLID_COLOR), (len(rows), 1)))
    image = np.empty((options.height, options.width, 3), np.float32)
    share_rows(
        shading.shade_rows, options.height, options.quality, camera.packed(),
        make_look(stage, camera, direction), balls, solids,
        Buffers(depth, who, openness, soft), shadow, lay_floor(stage), image,
    )  # fmt: skip
    draw_lines(camera, stage, depth, image)
    result = np.empty(image.shape, np.uint8)
    share_rows(screen.encode_rows, options.height, image, _byte_table(), result)
    return result


def _byte_table() -> Image:
    """sRGB bytes of linear light in steps of 1/16384, below a fifth of a byte everywhere."""
    return np.rint(to_srgb(np.linspace(0.0, 1.0, 1 << 14)) * 255).astype(np.uint8)
