"""Runs the tests in every supported Blender, each in an environment of its own.

    python -m tests.tools.blender_versions [VERSION ...] [-- PYTEST ARGUMENTS]

Needs python3.11 and python3.13 on the PATH; says which is missing. Environments are kept.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# bpy, the Python it is made for, and what it wants of numpy
VERSIONS = {
    "4.5.15": ("3.11", "numpy<2"),
    "5.0.1": ("3.11", "numpy<2"),
    "5.2.3": ("3.13", "numpy>=2.2"),
}
NEEDED = ("numba", "llvmlite", "pyopencl", "pocl-binary-distribution", "zstandard", "pillow",
          "pytest", "pytest-xdist", "usd-core")  # fmt: skip


def main(arguments: list[str]) -> int:
    chosen = arguments[: arguments.index("--")] if "--" in arguments else arguments
    extra = arguments[arguments.index("--") + 1 :] if "--" in arguments else []
    results = {}
    jobs = os.environ.get("TEST_JOBS", "2")
    for version in chosen or VERSIONS:
        python = environment(version)
        if python is None:
            results[version] = f"not run: no python{VERSIONS[version][0]} on the PATH"
            continue
        print(f"--- Blender {version}", flush=True)
        command = [python, "-m", "pytest", "-q", "-n", jobs, "--dist", "loadfile", "tests/blender"]
        done = subprocess.run([*command, *extra], cwd=ROOT, check=False)
        results[version] = "passed" if done.returncode == 0 else f"FAILED ({done.returncode})"
    print()
    for version, result in results.items():
        print(f"Blender {version}: {result}")
    return 0 if all(result == "passed" for result in results.values()) else 1


def environment(version: str) -> Path | None:
    """Python of the environment of a version, made where it is absent."""
    wanted, numpy = VERSIONS[version]
    folder = ROOT / f".venv-blender-{version.rpartition('.')[0]}"
    python, stamp = folder / "bin" / "python", folder / ".installed"
    packages = [f"bpy=={version}", numpy, *map(pinned, NEEDED)]
    if stamp.exists() and stamp.read_text() == "\n".join(packages):
        return python
    host = interpreter(wanted)
    if host is None:
        return None
    print(f"Installing Blender {version} into {folder.name} ...", flush=True)
    if not python.exists():
        subprocess.run([host, "-m", "venv", str(folder)], check=True)
    pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    subprocess.run([*pip, *packages], check=True)
    stamp.write_text("\n".join(packages))
    return python


def pinned(package: str) -> str:
    """A package in the version of the constraints."""
    for line in (ROOT / "tests" / "constraints.txt").read_text().splitlines():
        if line.partition("==")[0].strip() == package:
            return line.partition(";")[0].strip()
    return package


def interpreter(version: str) -> str | None:
    """A Python of a version by its usual name, also where pyenv has it and another is chosen."""
    name = f"python{version}"
    found = shutil.which(name)
    if found is None:
        return None
    if subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
        return found
    known = subprocess.run(["pyenv", "prefix", version], capture_output=True, text=True)
    inside = os.path.join(known.stdout.strip(), "bin", name)
    return inside if known.returncode == 0 and os.path.exists(inside) else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
