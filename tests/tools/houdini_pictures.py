"""Pictures of docs/houdini: the first shot, from the scene that its solver node writes.

    PYTHONPATH=core python -m tests.tools.houdini_pictures [--out FOLDER] [--frames 1-60]

The network is the code of first_shot.md, built with the assets on disk and a stand-in for Houdini;
`runnel run` simulates what Write Scene wrote, `runnel preview` draws it.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def write_scene(folder: Path) -> Path:
    """The scene of the first shot."""
    sys.path[:0] = [str(ROOT / "tests/houdini"), str(ROOT / "houdini_hda/python3.11libs")]
    import hou_standin

    sys.modules["hou"] = hou_standin
    import installed

    from houdini_hda import verify_in_houdini as verify

    with pytest.MonkeyPatch.context() as patch:
        installed.enter(patch)
        verify.install()
        page = (ROOT / "docs/houdini/first_shot.md").read_text(encoding="utf-8")
        (code,) = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
        scope: dict[str, Any] = {}
        exec(code, scope)
        solver = scope["solver"]
        verify.put(solver, cachedir=str(folder), endframe=60)
        verify.parm(solver, "writescene").pressButton()
    return folder / "scene/scene.json"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/first_shot"))
    parser.add_argument("--frames", default="1-60")
    args = parser.parse_args()
    scene = write_scene(args.out.resolve())
    for words in (
        ["run", str(scene), "--out", str(args.out), "--overwrite", "--frames", args.frames],
        ["preview", str(args.out), "--glass", "tank"],
    ):
        subprocess.run([sys.executable, "-m", "runnel", *words], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
