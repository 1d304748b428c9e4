"""Pages that are generated from the code: writes them, or with --check tells which are stale."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def reference() -> str:
    from runnel.schema import reference_markdown

    return reference_markdown()


def houdini_parameters() -> str:
    from houdini_hda.generate import parameters_markdown

    return parameters_markdown()


def panels() -> str:
    from tests.tools.blender_panels import page

    return page()


PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/scene.md": reference,
    "docs/houdini/parameters.md": houdini_parameters,
    "docs/blender/panels.md": panels,
}


def stale_pages() -> list[str]:
    """Names of the files that differ from what the code says, or are missing."""
    from houdini_hda import generate

    stale = [name for name, make in PAGES.items() if _read(ROOT / name) != make()]
    return stale + [f"houdini_hda/{name}" for name in generate.stale()]


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if stale")
    if parser.parse_args().check:
        stale = stale_pages()
        for name in stale:
            print(f"{name} is stale: run `make docs` and commit it", file=sys.stderr)
        return 1 if stale else 0
    for name, make in PAGES.items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(make(), encoding="utf-8")
        print(f"wrote {name}")
    from houdini_hda import generate

    generate.write()
    print("wrote houdini_hda/otls")
    return 0


if __name__ == "__main__":
    sys.exit(main())
