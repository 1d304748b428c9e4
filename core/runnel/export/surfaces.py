"""Surfaces that `runnel mesh` left beside a cache, read to go along with the particles."""

from __future__ import annotations

from ..cache import Cache
from ..errors import RunnelError
from ..surface import Mesh


def find_surfaces(cache: Cache, number: int) -> dict[str, Mesh]:
    """Surfaces of a frame by name: "surface", or "surface_water" and so on."""
    raise RunnelError(f"{cache.directory}: surfaces of frame {number} cannot be read yet.")
