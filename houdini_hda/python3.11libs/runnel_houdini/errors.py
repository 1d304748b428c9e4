"""Errors of ours as messages on a node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import hou

from runnel import RunnelError


@contextmanager
def plain_errors(geo: hou.Geometry) -> Iterator[None]:
    """A node that fails shows nothing, rather than something old, and says why."""
    try:
        yield
    except RunnelError as error:
        geo.clear()
        raise hou.NodeError(str(error)) from error
    except MemoryError as error:
        geo.clear()
        raise hou.NodeError(
            "Out of memory. Raise Particle Separation, or lower Cache Memory."
        ) from error
    except hou.OperationInterrupted:
        geo.clear()
        raise
