"""Values of a surface per voxel, from vertices or from an image: P004 section 5.2, figure 11.

    field_from(field, mesh, values)                   an attribute of the vertices
    field_from(field, mesh, Texture(image, uvs))      an image through texture coordinates

Each voxel takes the value at the nearest point of its nearest triangle.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import MeshError, RunnelError, SceneError
from ..mesh_formats import obj_uvs, ply_values
from ..meshes import Mesh
from .grid import SparseField
from .velocity import attribute_field, corner_field

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

MOST_PIXELS = 1 << 26  # of an image
_PLAIN = ("1", "L", "I", "F", "I;16", "I;16L", "I;16B", "RGB", "RGBA")  # Pillow's: brightness
_PLY_UVS = (("s", "t"), ("u", "v"), ("texture_u", "texture_v"))


@dataclass(frozen=True)
class Texture:
    """An image (rows, columns), its first row at the top, and uvs (triangles, 3, 2) of a mesh."""

    image: Singles
    uvs: Floats


def field_from(field: SparseField, mesh: Mesh, source: Texture | Floats) -> Singles:
    """(leaves, 729) of what a mesh carries, for the field made of it; 0 beyond the band."""
    if not isinstance(source, Texture):
        return attribute_field(field, mesh, source)[..., 0]
    places = corner_field(field, mesh, source.uvs)
    values = sample_image(source.image, places.reshape(-1, 2)).reshape(places.shape[:2])
    assert field.index is not None
    return np.where(field.index >= 0, values, 0.0).astype(np.float32)


def sample_image(image: Singles, uv: NDArray[Any]) -> Floats:
    """Bilinear values (n,) at texture coordinates (n, 2); v points up, images repeat."""
    rows, columns = image.shape
    inside = np.where((uv >= 0.0) & (uv <= 1.0), uv, np.mod(uv, 1.0))  # 1 is not 0: edges stay
    x, y = inside[:, 0] * columns - 0.5, (1.0 - inside[:, 1]) * rows - 0.5
    i, j = np.floor(x).astype(np.int64), np.floor(y).astype(np.int64)
    fx, fy = x - i, y - j
    left, right = np.clip(i, 0, columns - 1), np.clip(i + 1, 0, columns - 1)
    top, low = np.clip(j, 0, rows - 1), np.clip(j + 1, 0, rows - 1)
    upper = image[top, left] * (1 - fx) + image[top, right] * fx
    lower = image[low, left] * (1 - fx) + image[low, right] * fx
    result: Floats = upper * (1 - fy) + lower * fy
    return result


def read_uvs(path: Path) -> Floats:
    """Texture coordinates (triangles, 3, 2) of an OBJ or PLY file."""
    from ..meshes import read_mesh

    uvs: Floats | None = None
    if path.suffix.lower() == ".obj":
        uvs = obj_uvs(path.read_bytes())
    elif path.suffix.lower() == ".ply":
        values = ply_values(path.read_bytes())
        pair = next((p for p in _PLY_UVS if p[0] in values and p[1] in values), None)
        if pair is not None:
            uvs = np.stack([values[name] for name in pair], axis=1)[read_mesh(path).triangles]
    if uvs is None or not np.isfinite(uvs).all():
        raise MeshError(
            "has no texture coordinates, which maps need. Unwrap it and export them: OBJ with vt, "
            "or PLY with s and t of each vertex",
            file=path,
        )
    return uvs


def read_attribute(path: Path, name: str) -> Floats:
    """An attribute of the vertices (n,) of a PLY file."""
    known = ply_values(path.read_bytes()) if path.suffix.lower() == ".ply" else {}
    if name not in known:
        have = f"It has: {', '.join(known)}" if known else "Only PLY files have some"
        raise SceneError(
            f"{path.name} has no vertex attribute of this name. {have}. An image ends in .png, "
            ".jpg or .tif",
            value=name,
        )
    if not np.isfinite(known[name]).all():
        raise SceneError(f"of {path.name} holds what is not a number", value=name)
    return known[name]


def _grey(mode: str) -> str:
    """What to make of an image that holds ink, a palette or transparency."""
    return "L" if mode in ("LA", "La") else "RGB"


def read_image(path: Path) -> Singles:
    """An image as numbers 0..1 (rows, columns); of colours the mean. Not as light: as data."""
    try:
        from PIL import Image
    except ImportError as error:
        raise RunnelError(
            f"{path}: reading images needs Pillow: pip install runnel[preview]"
        ) from error
    try:
        with Image.open(path) as file:
            if file.width * file.height > MOST_PIXELS:
                raise SceneError(
                    f"has {file.width} x {file.height} pixels, at most {MOST_PIXELS} are read",
                    file=path,
                )
            pixels = np.asarray(file if file.mode in _PLAIN else file.convert(_grey(file.mode)))
    except SceneError:
        raise
    except Exception as error:  # Pillow raises many kinds
        raise SceneError(f"cannot be read as an image: {error}", file=path) from error
    top = 65535.0 if pixels.dtype.itemsize > 1 else 255.0
    top = 1.0 if pixels.dtype.kind in "bf" else top
    # Colour by colour: a small file may hold many pixels, and copies of all would be large.
    colours = [pixels] if pixels.ndim == 2 else [pixels[..., k] for k in range(pixels.shape[2])][:3]
    grey = np.zeros(pixels.shape[:2], np.float32)
    for colour in colours:
        grey += colour.astype(np.float32) / np.float32(top * len(colours))
    return np.nan_to_num(grey)
