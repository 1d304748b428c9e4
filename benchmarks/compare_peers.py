"""Times Runnel beside SPlisHSPlasH's PBF on one scene, one after the other, and prints the ratio.

The scene: a tank of 2.5 x 1.25 x 1.25 m with 1 m^3 of water in a corner, kernel radius twice the
spacing, a fixed number of iterations. The peer gets a virtual environment of its own and is run by
`peers/run_splish.py` from the folder `shared` beside the repository; without it only Runnel runs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PARTICLES = {"a": 29_791, "b": 125_000, "c": 512_000}
PEER_STEPS = 60  # the script times steps 10 to 40 as "early"

# The peer's wheel bundles copies of these that crash on import beside the system's drivers.
GL_LIBRARIES = ("libGLX", "libGLdispatch", "libOpenGL")
LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib")


class Skipped(Exception):
    """The peer cannot run here; the message says what to do."""


def prepare_peer(folder: Path) -> Path:
    """Makes the peer's environment if need be; returns its Python."""
    python = folder / "bin" / "python"
    if sys.platform != "linux":
        raise Skipped("the peer's environment is only made on Linux")
    if not (folder / ".ready").exists():
        say(f"Installing SPlisHSPlasH into {folder} ...")
        venv.create(folder, with_pip=True, clear=True)
        install = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        if subprocess.run([*install, "pysplishsplash", "numpy", "scipy"], check=False).returncode:
            raise Skipped("pysplishsplash could not be installed")
        mend_libraries(folder)
        (folder / ".ready").touch()
    if subprocess.run([python, "-c", "import pysplishsplash"], check=False).returncode:
        raise Skipped(f"pysplishsplash cannot be imported; delete {folder} to install it anew")
    return python


def mend_libraries(folder: Path) -> None:
    """Puts links to the system's libraries in the place of the bundled copies."""
    for stem in GL_LIBRARIES:
        candidates = [Path(place, f"{stem}.so.0") for place in LIBRARY_FOLDERS]
        system = next((file for file in candidates if file.exists()), None)
        if system is None:
            raise Skipped(f"{stem} is missing: sudo apt-get install libglvnd0 libglx0 libopengl0")
        for bundled in folder.glob(f"lib/python*/site-packages/pysplishsplash.libs/{stem}-*"):
            bundled.unlink()
            bundled.symlink_to(system)


def run_peer(python: Path, script: Path, size: str, iterations: int, work: Path) -> dict[str, Any]:
    """One run of the peer: ms per step (median) and the compression that it leaves."""
    work.mkdir(parents=True, exist_ok=True)
    command = [python, script.resolve(), "--method", "PBF", "--size", size]
    command += ["--iters", str(iterations), "--maxsteps", str(PEER_STEPS)]
    environment = {**os.environ, "PEERS_WORK": str(work.resolve())}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    results = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode or not results:
        raise Skipped(f"the peer failed:\n{done.stdout[-500:]}{done.stderr[-1500:]}")
    result = json.loads(results[-1].removeprefix("RESULT "))
    snapshot = result["snaps"].get("early", {})
    return {
        "name": result["peer"],
        "particles": result["N"],
        "iterations": result["early"]["iters"],
        "steps": result["steps"],
        "ms_per_step": result["early"]["ms"],
        "density_error_avg": snapshot.get("comp_avg_pct", float("nan")) / 100,
        "threads": result["threads"],
    }


def run_runnel(size: str, iterations: int, steps: int, device: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "runnel", "bench", "--particles", str(PARTICLES[size])]
    command += ["--iterations", str(iterations), "--steps", str(steps), "--device", device]
    done = subprocess.run([*command, "--json"], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return {"name": "Runnel", **json.loads(done.stdout)}


def table(rows: list[dict[str, Any]]) -> str:
    """Rows beside the first; times as long as it takes."""
    ours = rows[0]["ms_per_step"]
    head = f"{'':34}{'particles':>10}{'iterations':>12}{'ms/step':>10}{'error':>9}{'x Runnel':>10}"
    lines = [head]
    for row in rows:
        error = f"{100 * row['density_error_avg']:.2f} %"
        cells = f"{row['particles']:>10}{row['iterations']:>12g}{row['ms_per_step']:>10.2f}"
        lines.append(f"{row['name']:34}{cells}{error:>9}{row['ms_per_step'] / ours:>10.2f}")
    return "\n".join(lines)


def machine() -> dict[str, Any]:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return {"cores": os.cpu_count(), "cpu": cpu_name(), "commit": commit.stdout.strip()}


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((li.split(":", 1)[1].strip() for li in lines if li.startswith("model name")), "")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=PARTICLES, default="b", help=str(PARTICLES))
    parser.add_argument("--iterations", type=int, default=4)
    parser.add_argument("--steps", type=int, default=50, help="of Runnel; the peer takes 60")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--peer-venv", type=Path, default=ROOT / ".venv-peers")
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "bench")
    return parser.parse_args()


def main() -> int:
    args = parse()
    say(f"Runnel, {PARTICLES[args.size]} particles, {args.iterations} iterations ...")
    rows = [run_runnel(args.size, args.iterations, args.steps, args.device)]
    try:
        script = args.shared / "peers" / "run_splish.py"
        if not script.exists():
            raise Skipped("there is no folder `shared` with peers/run_splish.py")
        python = prepare_peer(args.peer_venv.resolve())
        say("SPlisHSPlasH, the same ...")
        rows.append(run_peer(python, script, args.size, args.iterations, args.out / "peers"))
    except Skipped as reason:
        say(f"Peer left out: {reason}")
    report = {"machine": machine(), "size": args.size, "rows": rows}
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "compare.json").write_text(json.dumps(report, indent=1) + "\n")
    print(table(rows))
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
