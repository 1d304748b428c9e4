"""Trying a .vdb file in a process of its own: OpenVDB trusts what it reads, and a damaged file can
end the process, take all memory or never come to an end."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import ModuleType

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
