"""Files that are either whole or absent, and values that fit into JSON."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..errors import CacheError


@contextmanager
def write_aside(path: Path) -> Iterator[BinaryIO]:
    """Binary file that takes the place of `path` when the block ends; on error nothing changes."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(aside, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _replace(aside, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise CacheError(
            f"{path}: cannot be written ({error.strerror or error}). Free some space or choose a "
            "folder you may write to; everything written before is intact."
        ) from error
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)


@contextmanager
def path_aside(path: Path) -> Iterator[Path]:
    """Like write_aside for libraries that want a path; it keeps the ending of `path`."""
    aside = path.with_name(f".{path.stem}.{os.getpid()}.tmp{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield aside
        with open(aside, "rb+") as file:
            os.fsync(file.fileno())
        _replace(aside, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise CacheError(
            f"{path}: cannot be written ({error.strerror or error}). Free some space or choose a "
            "folder you may write to; everything written before is intact."
        ) from error
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)


def _replace(source: Path, target: Path) -> None:
    """os.replace, patient where an open reader blocks it (Windows)."""
    for wait in (0.05, 0.2, 1.0):
        try:
            os.replace(source, target)
            return
        except PermissionError:
            if os.name != "nt":
                raise
            time.sleep(wait)
    os.replace(source, target)


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut; not every system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def share(source: Path, target: Path) -> bool:
    """Give a file a second name: nothing is copied, and it lasts as long as either name does.

    Safe because files are replaced and never changed. False: the file system has no hard links
    between the two, and it was copied.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
        return True
    except FileNotFoundError:
        raise
    except OSError:
        with write_aside(target) as file, open(source, "rb") as original:
            shutil.copyfileobj(original, file, 1 << 20)
        return False


def remove(path: Path) -> None:
    """Delete a file if that is possible; leftovers do no harm."""
    with suppress(OSError):
        path.unlink()


def plain(value: Any) -> Any:
    """JSON-ready copy: numpy and dataclasses become lists and dicts, nan and inf become None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    raise CacheError(f"{value!r} of type {type(value).__name__} cannot be stored as JSON.")


def canonical(value: Any) -> str:
    """JSON text that is the same for equal values, whatever the order of their keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def sha256(value: Any) -> str:
    """Identity of a JSON value."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()
