"""The commands of `runnel`. Exit status: 0 done, 1 failed, 2 wrong input, 130 interrupted."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from .. import __version__
from ..errors import RunnelError
from . import bench, check, pictures, run, show
from .console import complain

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit status."""
    parser = make_parser()
    try:
        args = parser.parse_args(argv)
        status: int = args.command(args)
        sys.stdout.flush()
        return status
    except SystemExit as end:  # argparse: wrong usage, --help, --version
        return end.code if isinstance(end.code, int) else 2
    except RunnelError as error:
        complain(str(error))
        return error.exit_status
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError:
        complain("out of memory; use a larger spacing, or --memory-limit to stop in good time")
        return 1
    except OSError as error:
        complain(f"{error.filename or ''}: {error.strerror or error}".lstrip(": "))
        return 1


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="runnel",
        description="Multiphase position-based fluids. SI units throughout.",
        epilog="Exit status: 0 done, 1 the work failed, 2 the input is wrong, 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"runnel {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    run.add_parser(commands)
    check.add_parser(commands)
    show.add_parsers(commands)
    pictures.add_parsers(commands)
    bench.add_parser(commands)
    return parser
