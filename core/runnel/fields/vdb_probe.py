"""Distrust of .vdb files. OpenVDB trusts what it reads: a damaged file can end the process, take
all memory or never come to an end, so that it is tried in a process of its own. And it does not
look whether what it writes arrives: on a full disk files are cut short, and no word is said.
"""

from __future__ import annotations

import errno
import os
import struct
import subprocess
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

from ..errors import MeshError
from ..interpreter import find_interpreter

_SECONDS, _SECONDS_PER_BYTE = 10.0, 1e-7
_MEMORY, _MEMORY_PER_BYTE = 3 << 30, 40

_CODE = """
import importlib, sys
name, folder, path, memory = sys.argv[1:]
sys.path.append(folder)
try:
    module = importlib.import_module(name)
except ImportError:  # works only inside of its host
    print("sound")
    sys.exit()
try:
    import resource
    with open("/proc/self/statm") as facts:  # what a host's own libraries take does not count
        taken = int(facts.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + int(memory),) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except (ImportError, OSError):
    pass
module.readAll(path)
print("sound")
"""


def probe(module: ModuleType, path: Path) -> None:
    """Refuse a file that OpenVDB does not survive. Where no process can be started, trust it."""
    size = path.stat().st_size
    memory = _MEMORY + _MEMORY_PER_BYTE * size
    folder = str(Path(module.__file__ or ".").parent)
    if (Path(folder) / "__init__.py").exists():  # a package
        folder = str(Path(folder).parent)
    python = find_interpreter()
    if python is None:
        return
    try:
        done = subprocess.run(
            [python, "-c", _CODE, module.__name__, folder, str(path), str(memory)],
            capture_output=True,
            timeout=_SECONDS + _SECONDS_PER_BYTE * size,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise MeshError("is damaged: reading it does not come to an end", file=path) from None
    except OSError:
        return
    if done.stdout.strip() != b"sound":
        said = done.stderr.decode(errors="replace").strip().splitlines()
        reason = said[-1] if said and done.returncode > 0 else f"OpenVDB ended ({done.returncode})"
        raise MeshError(f"is not a .vdb file that OpenVDB can read: {reason}", file=path)


def check_written(path: Path) -> None:
    """OSError unless a file that OpenVDB wrote is as long as its grids say."""
    try:
        with open(path, "rb") as file:
            whole = _end_of_grids(file) == path.stat().st_size
    except (struct.error, ValueError, MemoryError):
        whole = False
    if not whole:
        raise OSError(errno.ENOSPC, "it was cut short, as on a full disk")


def _end_of_grids(file: BinaryIO) -> int:
    """Where the last grid ends, by the descriptions of all (OpenVDB's Archive, GridDescriptor)."""

    def number(kind: str) -> int:
        return int(struct.unpack(f"<{kind}", file.read(struct.calcsize(kind)))[0])

    def skip_text() -> None:
        file.seek(number("I"), os.SEEK_CUR)

    # Magic, version of the file, of the library (two numbers), whether it has offsets, its name.
    file.seek(8 + 4 + 8 + 1 + 36)
    for _ in range(number("I")):  # metadata: name, type, value
        for _ in range(3):
            skip_text()
    end = file.tell() + 4
    for _ in range(number("I")):
        for _ in range(3):  # name, type, name of the grid whose tree it shares
            skip_text()
        number("q"), number("q")  # where the grid begins, and its values
        end = number("q")
        file.seek(end)
    return end
