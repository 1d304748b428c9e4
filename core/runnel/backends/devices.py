"""Finding OpenCL devices, trying them safely, choosing one.

    info = choose("auto")               # or "reference", "cpu", "gpu", part of a name, a number
    if info.kind != "reference":
        context, queue = open_context(info)

Drivers abort, hang and lie, so each device is tried in a process of its own before it is used; the
outcome is kept on disk until drivers or settings change. Only `open_context` imports pyopencl.

Environment:
    RUNNEL_DEVICE      what "auto" means
    RUNNEL_THREADS     threads of CPU devices and of numba
    RUNNEL_CACHE_DIR   where probe results and compiled kernels are kept
    RUNNEL_REPROBE     set to 1: try all devices anew
    RUNNEL_CPU         what PoCL builds for, as LLVM names it ("haswell": no AVX-512)
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DeviceError
from ..interpreter import find_interpreter
from . import linker, pocl

if TYPE_CHECKING:
    import pyopencl as cl

TIME_LIMIT = 60.0  # [s] for trying one device; a cold compiler on a busy machine takes ten
TRUST_FAILURE = 600.0  # [s] a failed try is believed; a success until something changes

# Settings that change what the loader shows or how devices behave.
SETTINGS = (
    "OCL_ICD_VENDORS",
    "OCL_ICD_FILENAMES",
    "OPENCL_VENDOR_PATH",
    "POCL_DEVICES",
    "POCL_MAX_PTHREAD_COUNT",
    "RUNNEL_CPU",
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
)
VENDORS = Path("/etc/OpenCL/vendors")


@dataclass(frozen=True, kw_only=True)
class DeviceInfo:
    """What is known of a device. `problems` is empty if it passed its try."""

    name: str
    platform: str = ""
    version: str = ""
    driver: str = ""
    kind: str = "other"  # cpu, gpu, other, simulator (a checker such as Oclgrind), reference
    compute_units: int = 0
    memory: int = 0  # [bytes]
    largest_buffer: int = 0  # [bytes]
    local_memory: int = 0  # [bytes] per work-group
    shares_memory: bool = False  # with the host: transfers can be spared
    int64_atomics: bool = False
    subgroup_size: int = 0  # 0: no subgroups
    preferred_multiple: int = 0  # of work-group sizes
    own_linker: bool = False  # works only with ours, see linker.py
    platform_index: int = -1
    device_index: int = -1
    problems: tuple[str, ...] = ()
    note: str = ""  # why it was chosen, where that needs saying

    @property
    def works(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        if self.kind == "reference":
            return self.name
        text = f"{self.name} ({self.platform}, {self.kind}, {self.compute_units} units, "
        text += f"{self.memory / 1e9:.1f} GB)"
        return text if self.works else f"{text}: {'; '.join(self.problems)}"


REFERENCE = DeviceInfo(name="reference", platform="numba", kind="reference", shares_memory=True)

_known: dict[str, list[DeviceInfo]] = {}  # by fingerprint: at most one look at the disk a process
# By device: simulations share programs (opencl/program.py), which belong to a context.
_contexts: dict[cl.Device, cl.Context] = {}
atexit.register(_contexts.clear)  # ahead of the driver's own end


# --- environment ----------------------------------------------------------------------------------


def cache_folder() -> Path:
    """A writable folder that outlives the process if there is one."""
    if folder := os.environ.get("RUNNEL_CACHE_DIR"):
        candidates = [Path(folder)]
    elif sys.platform == "win32":
        candidates = [Path(os.environ.get("LOCALAPPDATA", Path.home())) / "runnel" / "cache"]
    elif sys.platform == "darwin":
        candidates = [Path.home() / "Library" / "Caches" / "runnel"]
    else:
        candidates = [Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "runnel"]
    user = os.getuid() if hasattr(os, "getuid") else 0
    candidates.append(Path(tempfile.gettempdir()) / f"runnel-{user}")
    for candidate in candidates:
        try:
            candidate.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            continue
        # A program is kept there: a folder that someone else made is not to be trusted.
        if os.access(candidate, os.W_OK | os.X_OK) and candidate.stat().st_uid in (user, 0):
            return candidate
    return Path(tempfile.mkdtemp(prefix="runnel-"))


def prepare_environment() -> None:
    """Sets what drivers read when they load. Call it before pyopencl and numba are imported.

    Settings that the user made stay, except that RUNNEL_THREADS is obeyed.
    """
    if threads := os.environ.get("RUNNEL_THREADS"):
        if not threads.isdecimal() or int(threads) < 1:
            raise DeviceError(f"RUNNEL_THREADS is {threads!r}, must be a whole number above 0.")
        os.environ["POCL_MAX_PTHREAD_COUNT"] = threads
        os.environ["CL_CONFIG_CPU_TBB_NUM_WORKERS"] = threads  # Intel's runtime
        _limit_numba(int(threads))
    if "POCL_MAX_PTHREAD_COUNT" not in os.environ and _has_all_processors():
        # Woken for a tenth of a millisecond at a time, PoCL's threads may end up on one processor
        # and stay there for seconds. Fewer of them would all go to the first ones.
        os.environ.setdefault("POCL_AFFINITY", "1")
    if "POCL_CACHE_DIR" not in os.environ:
        # PoCL hides its device if the default folder cannot be written.
        folder = cache_folder() / "pocl"
        folder.mkdir(exist_ok=True)
        os.environ["POCL_CACHE_DIR"] = str(folder)
    _announce_intel()
    os.environ.setdefault("PATH", os.defpath)  # what the C library assumes; clang does not
    if linker.needed(_system_path()):
        _use_own_linker()


def _has_all_processors() -> bool:
    """Whether this process may run on all of them: PoCL counts from 0, and asks for no leave."""
    if sys.platform != "linux":
        return False
    return os.sched_getaffinity(0) == set(range(os.cpu_count() or 0))


def _limit_numba(threads: int) -> None:
    """Once its threads run, numba refuses another number of them: then not all of them work."""
    parallel = sys.modules.get("numba.np.ufunc.parallel")
    if parallel is None or not parallel._is_initialized:
        os.environ["NUMBA_NUM_THREADS"] = str(threads)
    else:
        parallel.set_num_threads(min(threads, parallel.get_thread_count()))


def _own_bin() -> Path:
    return cache_folder() / "bin"


def _system_path() -> str:
    """$PATH without our linker."""
    folders = os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if folder != str(_own_bin()))


def _use_own_linker() -> None:
    linker.install(_own_bin(), interpreter())
    os.environ["PATH"] = os.pathsep.join([str(_own_bin()), _system_path()])


def interpreter() -> str:
    """A Python to start processes with."""
    return find_interpreter() or sys.executable


def _announce_intel() -> None:
    """Makes Intel's runtime from PyPI known: its own .icd file points nowhere.

    The loader takes one folder of .icd files, so the system's are copied beside it; those that ship
    with pyopencl are found in any case.
    """
    library = Path(sys.prefix) / "lib" / "libintelocl.so"
    if sys.platform != "linux" or not library.exists():
        return
    # numba takes the system's TBB if there is one. Where that is older and loaded first, Intel's
    # runtime does not load, and its device is gone: so load the one that came with it.
    if (threads := library.with_name("libtbb.so.12")).exists():
        with suppress(OSError):
            ctypes.CDLL(str(threads))
    if any(os.environ.get(name) for name in ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES")):
        return  # chosen by the user, or by us in the process that started this one
    name = hashlib.sha256(sys.prefix.encode()).hexdigest()[:12]
    folder = cache_folder() / f"vendors-{name}"
    folder.mkdir(exist_ok=True)
    wanted = {f.name: f.read_text() for f in VENDORS.glob("*.icd")} if VENDORS.is_dir() else {}
    wanted["runnel-intel.icd"] = f"{library}\n"
    for old in folder.glob("*.icd"):
        if old.name not in wanted:
            old.unlink(missing_ok=True)
    for file, text in wanted.items():
        if not (folder / file).exists() or (folder / file).read_text() != text:
            _write_aside(folder / file, text)
    os.environ["OCL_ICD_VENDORS"] = str(folder)


def _write_aside(path: Path, text: str) -> None:
    """Readers see the old text or the new one, never half of it."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


# --- probing --------------------------------------------------------------------------------------


def list_devices(*, reprobe: bool = False) -> list[DeviceInfo]:
    """All OpenCL devices, those that fail included, in the order of the loader.

    If OpenCL itself cannot be used there is one entry that says why.
    """
    prepare_environment()
    mark = _fingerprint()
    if mark in _known and not reprobe:
        return list(_known[mark])
    fresh = reprobe or os.environ.get("RUNNEL_REPROBE", "") not in ("", "0")
    name = hashlib.sha256(_settings().encode()).hexdigest()[:12]
    record = cache_folder() / f"devices-{name}.json"
    found = None if fresh else _recall(record, mark)
    if found is None:
        found = _probe_all()
        _remember(record, mark, found)
    _known[mark] = found
    return list(found)


def _probe_all() -> list[DeviceInfo]:
    listed = _run_probe("list")
    if isinstance(listed, str):
        return [DeviceInfo(name="OpenCL", problems=(listed,))]
    infos = [DeviceInfo(**fields) for fields in listed]
    if not infos:
        return [DeviceInfo(name="OpenCL", problems=("no device is announced by any driver",))]
    from concurrent.futures import ThreadPoolExecutor  # slow to import, seldom needed

    with ThreadPoolExecutor(4) as pool:
        tried = list(pool.map(_try_device, infos))
    suspects = sys.platform == "linux" and any(i.kind == "cpu" and not i.works for i in tried)
    if not suspects or str(_own_bin()) in os.environ["PATH"].split(os.pathsep):
        return tried
    # There is a linker, yet it may not do what PoCL needs: perhaps ours does.
    _use_own_linker()
    again = [
        info if info.works else _try_device(replace(info, problems=(), own_linker=True))
        for info in tried
    ]
    return [info if info.works else first for info, first in zip(again, tried, strict=True)]


def _try_device(info: DeviceInfo) -> DeviceInfo:
    if info.kind == "cpu":
        # PoCL's own figure swings from run to run and is far below what it can use.
        info = replace(info, memory=_host_memory() or info.memory)
    outcome = _run_probe("try", str(info.platform_index), str(info.device_index))
    if isinstance(outcome, str):
        return replace(info, problems=(outcome,))
    return replace(info, **outcome)


def _run_probe(*arguments: str) -> Any:
    """What probe.py answers; a string says what went wrong."""
    path = json.dumps([entry or os.getcwd() for entry in sys.path])
    # -P: the folder of the script is not a place to import from
    command = [interpreter(), "-P", str(Path(__file__).with_name("probe.py")), path, *arguments]
    # A kernel from a cache would tell nothing about the compiler and the linker.
    environment = {**os.environ, "POCL_KERNEL_CACHE": "0", "PYOPENCL_NO_CACHE": "1"}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, timeout=TIME_LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {TIME_LIMIT:g} s"
    except OSError as error:
        return f"cannot start a process to try it: {error}"
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    if done.returncode != 0 or not lines:
        return _cause_of_death(done.returncode, done.stderr.decode(errors="replace"))
    answer = json.loads(lines[-1])
    if isinstance(answer, dict) and "error" in answer:
        return " ".join(str(answer["error"]).split())[:400]
    return answer


def _cause_of_death(status: int, stderr: str) -> str:
    try:
        how = f"the driver died of {signal.Signals(-status).name}"
    except ValueError:
        how = f"the driver ended the process with status {status}"
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower()] or lines[-1:]
    return f"{how}: {telling[0]}"[:400] if telling else how


def _host_memory() -> int:
    """Memory that this process may use [bytes], 0 if unknown."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
    except (OSError, ValueError):  # no such group, or "max"
        return total
    return min(total, limit)


# --- keeping results ------------------------------------------------------------------------------


def _settings() -> str:
    return json.dumps([sys.prefix, *(os.environ.get(name) for name in SETTINGS)])


def _fingerprint() -> str:
    """Changes when drivers, settings, the linker or the machine do."""
    path = _system_path()
    parts = [_settings(), sys.version, linker.missing(path), str(shutil.which("ld", path=path))]
    files = [Path(__file__), Path(__file__).with_name("probe.py"), Path(linker.__file__)]
    files.append(Path(pocl.__file__))
    spec = importlib.util.find_spec("pyopencl")
    home = Path(spec.origin).parent if spec and spec.origin else None
    parts.append(str(home))
    if home:
        files += [home, *home.glob("_cl*"), *home.glob(".libs/*")]
        files += home.parent.glob("pyopencl.libs/*")
    for folder in (VENDORS, Path(os.environ.get("OCL_ICD_VENDORS") or VENDORS)):
        for icd in sorted(folder.glob("*.icd")) if folder.is_dir() else ():
            files += [icd, *_driver_files(icd)]
    files += [Path("/dev/dri"), Path("/dev/nvidia0"), Path("/dev/kfd")]
    for file in files:
        try:
            status = file.stat()
            parts.append(f"{file} {status.st_mtime_ns} {status.st_size}")
        except OSError:
            parts.append(f"{file} missing")
    try:  # a driver may fail after a restart; file times do not tell
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
    except OSError:
        pass
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _driver_files(icd: Path) -> list[Path]:
    try:
        name = icd.read_text(errors="replace").strip().splitlines()[0]
    except (OSError, IndexError):
        return []
    if os.path.isabs(name):
        return [Path(name)]
    return [found for folder in linker.LIBRARY_FOLDERS if (found := Path(folder, name)).exists()]


def _recall(record: Path, mark: str) -> list[DeviceInfo] | None:
    try:
        stored = json.loads(record.read_text(encoding="utf-8"))
        found = [
            DeviceInfo(**{**fields, "problems": tuple(fields["problems"])})
            for fields in stored["devices"]
        ]
        age = time.time() - float(stored["time"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # never written, or by another version
    if stored.get("fingerprint") != mark:
        return None
    if not 0 <= age < TRUST_FAILURE and not all(info.works for info in found):
        return None
    return found


def _remember(record: Path, mark: str, found: list[DeviceInfo]) -> None:
    content = {"fingerprint": mark, "time": time.time(), "devices": [asdict(i) for i in found]}
    try:
        _write_aside(record, json.dumps(content, indent=1))
    except OSError:
        pass  # the next start probes again


# --- choosing -------------------------------------------------------------------------------------


def choose(device: str | int = "auto") -> DeviceInfo:
    """The device that a word means; see `runnel devices`.

    "auto" ($RUNNEL_DEVICE, else the best GPU, else a CPU, else the reference), "reference", "cpu",
    "gpu", a number in the list, or part of a name.
    """
    word = str(device).strip().casefold()
    if word in ("auto", ""):
        word = os.environ.get("RUNNEL_DEVICE", "").strip().casefold() or "auto"
    if word == "reference":
        return REFERENCE
    found = list_devices()
    usable = sorted((i for i in found if i.works), key=_rank)
    if word == "auto":
        return _automatic(found, usable)
    if word.isdecimal():
        matches = found[int(word) : int(word) + 1]
    elif word in ("cpu", "gpu"):
        matches = [i for i in usable if i.kind == word]
    else:
        matches = [i for i in [*usable, *found] if word in f"{i.platform} {i.name}".casefold()]
    if not matches:
        raise DeviceError(f"No device matches {device!r}. {_listing(found)}")
    if not matches[0].works:
        raise DeviceError(f"The device {matches[0]}. {_listing(found)}")
    return matches[0]


def _automatic(found: list[DeviceInfo], usable: list[DeviceInfo]) -> DeviceInfo:
    for info in usable:
        if info.kind in ("gpu", "cpu"):
            return info
    reasons = "; ".join(str(info) for info in found if info.kind != "simulator")
    note = f"No OpenCL device works here, so the slower reference runs on the CPU. {reasons}"
    return replace(REFERENCE, note=note.strip())


def _rank(info: DeviceInfo) -> tuple[int, bool, int]:
    """Lower is better: GPUs, those with memory of their own, those with most of it; CPUs."""
    order = {"gpu": 0, "cpu": 1, "other": 2, "simulator": 3}
    return order.get(info.kind, 3), info.shares_memory, -info.memory


def _listing(found: list[DeviceInfo]) -> str:
    lines = [f"  {k}: {info}" for k, info in enumerate(found)]
    return "\n".join(['There are "auto", "reference", "cpu", "gpu" and', *lines])


def open_context(info: DeviceInfo, *, profile: bool = False) -> tuple[cl.Context, cl.CommandQueue]:
    """The process's OpenCL context on the device, and a new queue; `profile` times its commands."""
    if info.kind == "reference":
        raise DeviceError("The reference runs without OpenCL: it has no context.")
    prepare_environment()
    if info.own_linker:
        _use_own_linker()
    import pyopencl as cl

    try:
        device = cl.get_platforms()[info.platform_index].get_devices()[info.device_index]
        pocl.help_device(device)
        if device.name.strip() != info.name:
            raise DeviceError(
                f"The devices have changed: {info.name!r} is now {device.name.strip()!r}. "
                "Set RUNNEL_REPROBE=1 once."
            )
        timed = {"properties": cl.command_queue_properties.PROFILING_ENABLE} if profile else {}
        return _queue_on(device, **timed)
    except (cl.Error, IndexError) as error:
        raise DeviceError(f"The device {info} cannot be opened: {error}") from error


def _queue_on(device: cl.Device, **options: Any) -> tuple[cl.Context, cl.CommandQueue]:
    import pyopencl as cl

    context = _contexts.get(device) or _contexts.setdefault(device, cl.Context([device]))
    try:
        queue = cl.CommandQueue(context, **options)
        queue.finish()
    except cl.Error:
        _contexts.pop(device, None)  # the next simulation shall not get a broken one
        raise
    return context, queue
