"""Builds the zip that is unpacked into Houdini's packages folder.

    python houdini_hda/package.py --out dist [--light]

Holds runnel.json, the assets, and python3.11libs with Runnel, the adapter and the libraries they
need: those of the environment that runs this, the versions that the tests ran with. numpy stays
out, Houdini has its own. For another system run it there.
"""

from __future__ import annotations

import argparse
import platform
import re
import sys
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBS = "runnel/python3.11libs"
HOSTS_OWN = {"numpy"}  # a second one would shadow Houdini's
OPTIONAL = ("zstandard", "pillow")
LIGHT = {"pocl-binary-distribution"}  # a CPU device, for machines without a GPU
# Dates in a zip make it differ from build to build.
EPOCH = (2026, 1, 1, 0, 0, 0)


class PackageError(Exception):
    """Why no package can be built here."""


def own_files() -> Iterator[tuple[str, Path]]:
    """Name in the zip and file, of what is in this repository."""
    yield "runnel.json", HERE / "runnel.json"
    yield "runnel/INSTALL.md", HERE.parent / "docs/houdini/install.md"
    yield "runnel/LICENSE", HERE.parent / "LICENSE"
    for name in ("verify_in_houdini.py", "verify_inputs.py", "verify_tools.py"):
        yield f"runnel/{name}", HERE / name
    yield from _tree(HERE / "otls", "runnel/otls")
    yield from _tree(HERE / "python3.11libs", LIBS)
    yield from _tree(HERE.parent / "core/runnel", f"{LIBS}/runnel")
    yield f"{LIBS}/runnel-{version()}.dist-info/METADATA", Path()


def _tree(folder: Path, name: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield f"{name}/{path.relative_to(folder).as_posix()}", path


def version() -> str:
    text = (HERE.parent / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r'^version = "(.+)"$', text, flags=re.MULTILINE)
    if found is None:
        raise PackageError("pyproject.toml names no version")
    return found[1]


def libraries(light: bool) -> list[str]:
    """Distributions to take along: what Runnel requires, and what those require."""
    text = (HERE.parent / "pyproject.toml").read_text(encoding="utf-8")
    block = text.split("\ndependencies = [", 1)[1].split("\n]", 1)[0]
    wanted = [*re.findall(r'^\s*"([A-Za-z0-9_.-]+)', block, flags=re.MULTILINE), *OPTIONAL]
    left_out = HOSTS_OWN | (LIGHT if light else set())
    found: list[str] = []
    while wanted:
        name = wanted.pop(0).lower().replace("_", "-")
        if name in left_out or name in found:
            continue
        try:
            requires = metadata.distribution(name).requires or []
        except metadata.PackageNotFoundError:
            if name in LIGHT or name in OPTIONAL:  # not made for this system, or not wanted
                continue
            raise PackageError(f"{name} is not installed here; `make houdini-package`") from None
        found.append(name)
        plain = (r for r in requires if ";" not in r)
        wanted += [re.split(r"[ <>=!~(\[]", r, maxsplit=1)[0] for r in plain]
    return sorted(found)


def library_files(name: str) -> Iterator[tuple[str, Path]]:
    for file in metadata.distribution(name).files or []:
        path = Path(str(file.locate()))
        if ".." in file.parts or "__pycache__" in file.parts or not path.is_file():
            continue  # commands, and what is made anew
        yield f"{LIBS}/{file.as_posix()}", path


def build(
    out: Path, light: bool, only_own: bool = False
) -> tuple[Path, dict[str, tuple[int, int]]]:
    """The zip, and (files, bytes) of each part in it."""
    if sys.version_info[:2] != (3, 11) and not only_own:
        raise PackageError(
            f"Houdini runs Python 3.11, this is {platform.python_version()}: "
            "make houdini-package VENV=.venv-3.11 PYTHON=python3.11"
        )
    parts = {"Runnel": list(own_files())}
    if not only_own:
        for name in libraries(light):
            parts[f"{name} {metadata.version(name)}"] = list(library_files(name))
    system = f"{platform.system()}-{platform.machine()}".lower()
    path = out / f"runnel-houdini-{version()}-{system}{'-light' if light else ''}.zip"
    out.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".part")
    sizes = {}
    with zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as zipped:
        for part, files in parts.items():
            sizes[part] = (len(files), sum(_add(zipped, name, file) for name, file in files))
    aside.replace(path)
    return path, sizes


def _add(zipped: zipfile.ZipFile, name: str, file: Path) -> int:
    data = file.read_bytes() if file != Path() else _metadata()
    info = zipfile.ZipInfo(name, EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    zipped.writestr(info, data)
    return len(data)


def _metadata() -> bytes:
    """So that `runnel.__version__` is known there."""
    return f"Metadata-Version: 2.1\nName: runnel\nVersion: {version()}\n".encode()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=Path("dist"), help="folder to write to")
    parser.add_argument("--light", action="store_true", help="without PoCL, the CPU device")
    args = parser.parse_args()
    try:
        path, sizes = build(args.out, args.light)
    except PackageError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{'part':<32}{'files':>7}{'MB':>9}")
    for part, (count, size) in sizes.items():
        print(f"{part:<32}{count:>7}{size / 1e6:>9.1f}")
    total = sum(size for _, size in sizes.values())
    print(
        f"{path}: {path.stat().st_size / 1e6:.1f} MB, {total / 1e6:.1f} MB unpacked, without numpy"
    )
    print("Unpack it into Houdini's packages folder; runnel/INSTALL.md says which.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
