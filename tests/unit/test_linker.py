"""The stand-in for ld: what it makes must load and run, what it cannot do it must say."""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from runnel.backends import devices, linker

linux = pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine != "x86_64", reason="links x86-64 ELF only"
)
with_compiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

SOURCE = """
#include <math.h>
#include <string.h>
extern int shared_with_other;                 // defined by the second object
static const char *const names[] = {"none", "one", "two"};   // needs absolute addresses
static int counter = 5;                       // writable data
static double zeros[1000];                    // .bss
int common[4];                                // common or .bss
__attribute__((weak)) int nowhere(void);      // weak, never defined
const char *name(int i) { return names[i]; }
int count(void) { return ++counter + (int)zeros[999] + common[3] + shared_with_other; }
double wave(double x) { return cos(x) + pow(x, 1.5); }
int has_nowhere(void) { return nowhere != 0; }
int compare(const char *a, const char *b) { return strcmp(a, b); }
__attribute__((visibility("hidden"))) int hidden(void) { return 9; }
int through(void) { return hidden(); }
"""
OTHER = "int shared_with_other = 100; int (*pointer)(void); int through(void);"


def compile_c(folder: Path, source: str, *options: str) -> bytes:
    (folder / "source.c").write_text(source)
    command = ["gcc", "-c", "-O1", "-fPIC", *options, "-o", "source.o", "source.c"]
    subprocess.run(command, cwd=folder, check=True)
    return (folder / "source.o").read_bytes()


@pytest.fixture
def library(tmp_path: Path) -> ctypes.CDLL:
    objects = [compile_c(tmp_path, SOURCE), compile_c(tmp_path, OTHER, "-fcommon")]
    (tmp_path / "lib.so").write_bytes(linker.link(objects))
    return ctypes.CDLL(str(tmp_path / "lib.so"), mode=os.RTLD_NOW | os.RTLD_LOCAL)


@linux
@with_compiler
class TestLinkedCode:
    def test_reads_constants_by_absolute_address(self, library: ctypes.CDLL) -> None:
        library.name.restype = ctypes.c_char_p
        assert [library.name(i) for i in range(3)] == [b"none", b"one", b"two"]

    def test_writes_data_and_finds_zeroed_memory(self, library: ctypes.CDLL) -> None:
        assert [library.count(), library.count()] == [106, 107]

    def test_calls_libm_and_libc(self, library: ctypes.CDLL) -> None:
        library.wave.restype, library.wave.argtypes = ctypes.c_double, [ctypes.c_double]
        assert library.wave(2.0) == pytest.approx(-0.4161468365 + 2.8284271247)
        assert library.compare(b"same", b"same") == 0

    def test_a_weak_name_that_nobody_defines_is_null(self, library: ctypes.CDLL) -> None:
        assert library.has_nowhere() == 0

    def test_hidden_names_are_used_but_not_exported(self, library: ctypes.CDLL) -> None:
        assert library.through() == 9
        assert not hasattr(library, "hidden")


@linux
@with_compiler
class TestRefusals:
    def test_a_name_defined_twice(self, tmp_path: Path) -> None:
        data = compile_c(tmp_path, "int f(void) { return 1; }")
        with pytest.raises(linker.LinkError, match="f is defined twice"):
            linker.link([data, data])

    def test_thread_local_storage(self, tmp_path: Path) -> None:
        data = compile_c(tmp_path, "__thread int x = 3; int f(void) { return x; }")
        with pytest.raises(linker.LinkError, match="thread-local"):
            linker.link([data])

    def test_constructors(self, tmp_path: Path) -> None:
        data = compile_c(tmp_path, "__attribute__((constructor)) void f(void) {}")
        with pytest.raises(linker.LinkError, match="constructors"):
            linker.link([data])

    def test_code_for_fixed_addresses(self, tmp_path: Path) -> None:
        source = "int table[9]; int f(int i) { return table[i]; }"
        data = compile_c(tmp_path, source, "-fno-pic", "-mcmodel=small", "-fno-pie")
        with pytest.raises(linker.LinkError, match="relocation"):
            linker.link([data])


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"!<arch>\n" * 20])
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(linker.LinkError, match="not a 64-bit"):
        linker.read_object(data)


def test_the_command_says_what_is_wrong(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.o").write_bytes(b"nothing")
    assert linker.main(["-shared", "-o", str(tmp_path / "a.so"), str(tmp_path / "a.o")]) == 1
    assert "not a 64-bit" in capfd.readouterr().err
    assert linker.main(["-o", "a.out"]) == 1
    assert "only -shared" in capfd.readouterr().err
    assert not (tmp_path / "a.so").exists()


class TestMissing:
    """Which part of a tool chain PoCL would miss."""

    @pytest.fixture
    def machine(self, tmp_path: Path) -> Path:
        for name in ("bin/ld", "usr/lib64/libc.so", "usr/lib/gcc/x86_64-linux-gnu/12/libgcc.a"):
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch(mode=0o755)
        return tmp_path

    def missing(self, machine: Path) -> str:
        return linker.missing(str(machine / "bin"), machine)

    def test_nothing(self, machine: Path) -> None:
        assert self.missing(machine) == ""

    @pytest.mark.parametrize("name", ["ld", "libc.so", "libgcc.a"])
    def test_one_file(self, machine: Path, name: str) -> None:
        (file,) = machine.rglob(name)
        file.unlink()
        assert self.missing(machine).startswith(name)


def test_install_writes_a_launcher_that_survives_odd_paths(tmp_path: Path) -> None:
    folder = tmp_path / "a folder's bin"
    launcher = linker.install(folder)
    assert launcher.stat().st_mode & stat.S_IXUSR
    done = subprocess.run([launcher, "-o", "x"], capture_output=True, text=True, check=False)
    assert (done.returncode, "only -shared" in done.stderr) == (1, True)
    before = launcher.stat().st_mtime_ns
    assert linker.install(folder).stat().st_mtime_ns == before
    assert [file.name for file in folder.iterdir()] == ["ld"]


# Runs on a machine whose $PATH holds nothing: every kernel is linked by our stand-in.
WITHOUT_LD = """
import sys
from pathlib import Path
import numpy as np, pyopencl as cl
from runnel.backends import devices

info = devices.choose("Portable Computing Language")
assert info.works
context, queue = devices.open_context(info)
source = '''
__constant float table[4] = {1.0f, 2.0f, 3.0f, 4.0f};
__kernel void mixed(__global const float *x_in, __global float *y_out, __local float *tile)
{
    const uint i = get_global_id(0), l = get_local_id(0), n = get_local_size(0);
    tile[l] = x_in[i];
    for (uint step = n / 2; step > 0; step /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (l < step) tile[l] += tile[l + step];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const float8 v = (float8)(x_in[i]);
    const double d = exp((double)x_in[i]) + erf(x_in[i]);
    y_out[i] = tile[0] + sqrt(x_in[i]) + cos(x_in[i]) + pow(x_in[i], 2.5f) + table[i & 3]
        + dot(v.lo, v.hi) + (float)d + (float)((ulong)(x_in[i] * 1e6f) / 7ul) * 1e-9f;
}
'''
x = np.linspace(0.1, 2.0, 64, dtype=np.float32)
y = np.zeros_like(x)
flags = cl.mem_flags
x_in = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=x)
y_out = cl.Buffer(context, flags.WRITE_ONLY, y.nbytes)
cl.Program(context, source).build().mixed(queue, (64,), (16,), x_in, y_out, cl.LocalMemory(64))
cl.enqueue_copy(queue, y, y_out)
from math import erf
sums = np.repeat(x.reshape(4, 16).sum(1), 16)
expected = (sums + np.sqrt(x) + np.cos(x) + x**2.5 + np.arange(64) % 4 + 1 + 4 * x * x + np.exp(x)
            + [erf(v) for v in x] + np.floor(x * 1e6 / 7) * 1e-9)
np.testing.assert_allclose(y, expected, rtol=2e-5)
print("linked", len(list(Path(sys.argv[1]).rglob("*.so"))))
"""


def run_without_linker(code: str, folder: Path, *arguments: str) -> str:
    """Runs the code where no program is found but ours; returns what it printed."""
    if not any("Portable" in info.platform for info in devices.list_devices()):
        pytest.skip("PoCL is not installed")
    root = Path(__file__).resolve().parents[2]
    environment = {
        "PATH": str(folder / "nothing"),
        "HOME": str(folder),
        "RUNNEL_CACHE_DIR": str(folder / "cache"),
        "POCL_CACHE_DIR": str(folder / "pocl"),
        "PYTHONPATH": str(root / "core"),
        "PYTHONPYCACHEPREFIX": str(folder / "pyc"),
    }
    (folder / "pocl").mkdir()
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "cache" / "bin" / "ld").exists()
    return done.stdout


@linux
def test_pocl_works_without_any_linker(tmp_path: Path) -> None:
    """PoCL aborts here without the stand-in; with it a kernel of every kind of import runs."""
    words = run_without_linker(WITHOUT_LD, tmp_path, str(tmp_path / "pocl")).split()
    assert words[0] == "linked"
    assert int(words[1]) > 0


STEP_WITHOUT_LD = """
import runnel
scene = runnel.example("dam_break")
with runnel.Simulation(scene, device="Portable Computing Language") as sim:
    sim.step()
    print(sim.particles.count)
"""


@linux
def test_the_solver_works_without_any_linker(tmp_path: Path) -> None:
    assert int(run_without_linker(STEP_WITHOUT_LD, tmp_path)) > 0
