"""Tells PoCL's compiler which CPU it builds for, where it does not know.

The LLVM inside PoCL 3.0 is of 2022. On processors it has never heard of (AMD's Zen 5) it answers
"generic", a name that its own clang then refuses: no kernel builds. PoCL has no setting for it, so
the name is put right in the device's record, before the first build. Kernels are cached under the
name that PoCL knows, so those built for another one are told apart by a flag.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from pathlib import Path
from typing import Any

PLATFORM = "Portable Computing Language"
UNKNOWN = "generic"
RECORD = 1024  # bytes at the start of PoCL's record of a device that are looked through

# Names that LLVM 14 knows, the most able first, and what Linux must say of a processor to pass for
# it: of its instructions those that compilers use of themselves.
AVX2 = {"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe", "abm", "popcnt"}
KNOWN: dict[str, set[str]] = {
    "skylake-avx512": AVX2 | {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"},
    "haswell": AVX2,
    "sandybridge": {"avx", "popcnt", "sse4_2"},
    "x86-64": set(),
}

_named: dict[int, str] = {}  # by device


def help_device(device: Any) -> list[str]:
    """Names the CPU of an OpenCL device of PoCL where it has to. Returns flags for builds on it.

    $RUNNEL_CPU goes before what PoCL or we think.
    """
    if sys.platform != "linux" or device.platform.name.strip() != PLATFORM:
        return []
    if device.int_ptr not in _named:
        place, name = _cpu_of(device.int_ptr)
        wanted = os.environ.get("RUNNEL_CPU") or (like(cpu_flags()) if name == UNKNOWN else "")
        if not name or not wanted:
            return []
        ctypes.c_uint64.from_address(place).value = _for_good(wanted)
        _named[device.int_ptr] = wanted
    return [f"-DBUILT_FOR_{_named[device.int_ptr].upper().replace('-', '_')}"]


def _for_good(text: str) -> int:
    """Address of a copy that nobody frees: PoCL reads it for as long as it lives, which is longer
    than this module does."""
    copy = ctypes.CDLL(None).strdup
    copy.argtypes, copy.restype = [ctypes.c_char_p], ctypes.c_void_p
    return int(copy(text.encode()))


def like(flags: set[str]) -> str:
    """The most able CPU that LLVM knows and that can do no more than one with these flags."""
    return next(name for name, needed in KNOWN.items() if needed <= flags)


def cpu_flags() -> set[str]:
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    line = next((x for x in text.splitlines() if x.startswith("flags")), "")
    return set(line.partition(":")[2].split())


def _cpu_of(address: int) -> tuple[int, str]:
    """Where the record points to the CPU's name, right behind the target's triple, and the name.

    (0, "") if that is not to be found. Read through the kernel, which answers with an error where
    reading a wild pointer would end the process.
    """
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        record = os.pread(memory, RECORD, address)
        texts = [_text_at(memory, pointer) for (pointer,) in struct.iter_unpack("<Q", record)]
    except OSError:
        return 0, ""
    finally:
        os.close(memory)
    for k in range(1, len(texts)):
        if texts[k - 1].startswith("x86_64-") and texts[k]:
            return address + 8 * k, texts[k]
    return 0, ""


def _text_at(memory: int, pointer: int) -> str:
    if not 0x10000 <= pointer < 1 << 47:
        return ""
    try:
        return os.pread(memory, 64, pointer).split(b"\0")[0].decode("ascii")
    except (OSError, UnicodeDecodeError):
        return ""
