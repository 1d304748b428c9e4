"""What the guide to unattended runs says is done here, word for word."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import runnel
from runnel.cache import Cache
from runnel.cli import main, make_parser

GUIDE = Path(runnel.__file__).parents[2] / "docs" / "guide" / "cache.md"


def blocks(language: str) -> list[str]:
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", GUIDE.read_text("utf-8"), re.M | re.S)
    return [code for word, code in fences if word == language]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """out/shot and out/packed, as the guide has them."""
    here = tmp_path_factory.mktemp("guide")
    box = {"box": {"min": [0, 0, 0], "max": [0.25, 0.25, 0.25]}}
    source = {"name": "dam", "fluid": "water", "shape": box, "spacing": 0.0147}
    scene = {"name": "shot", "frames": [1, 3], "fluid": [{"name": "water"}], "source": [source]}
    (here / "shot.json").write_text(json.dumps(scene))
    for name, method in (("shot", "zlib"), ("packed", "zstd")):
        out = str(here / "out" / name)
        words = ["run", str(here / "shot.json"), "--out", out, "--compression", method, "--quiet"]
        assert main(words) == 0
    return here


@pytest.mark.parametrize("number", [0, 1])
def test_frames_open_without_runnel(folder: Path, number: int) -> None:
    if number == 1:
        pytest.importorskip("zstandard")
    code = blocks("python")[number]
    told = (
        'print("position", position.sum(dtype="f8"))\n'
        'import sys\nassert "runnel" not in sys.modules\n'
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{told}"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    total = float(done.stdout.split("position")[1])
    file = folder / "out" / ("shot", "packed")[number] / "frames" / "frame_000002.npz"
    with zipfile.ZipFile(file) as pack:
        assert "position.npy" not in pack.namelist()  # it is split: the lines were needed
    kept = Cache.open(folder / "out" / "shot").read(2)["position"]
    assert total == pytest.approx(float(kept.sum(dtype=np.float64)), rel=1e-9)


def test_scripts_read_frames(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    exec(compile(blocks("python")[2], "guide", "exec"), {})
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()] == [
        [str(n), "4913"] for n in (1, 2, 3)
    ]


def test_commands_of_the_guide_are_real() -> None:
    lines = [line for block in blocks("") for line in block.splitlines() if line]
    assert len(lines) >= 6
    for line in lines:
        words = line.split("#")[0].split()
        assert words[0] == "runnel"
        assert make_parser().parse_args(words[1:]).command


def test_files_of_the_guide_are_there(folder: Path) -> None:
    out = folder / "out" / "shot"
    for name in ("manifest.json", "frames/frame_000001.npz", "run.log"):
        assert f"`{name}`" in GUIDE.read_text("utf-8")
        assert (out / name).exists()
    assert list((out / "checkpoints").glob("checkpoint_*.npz"))
