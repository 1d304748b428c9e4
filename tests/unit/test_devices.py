"""Devices are found, tried safely and chosen as people expect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from runnel.backends import devices, linker
from runnel.backends.devices import REFERENCE, DeviceInfo, choose
from runnel.errors import DeviceError

ROOT = Path(__file__).resolve().parents[2]

CPU = DeviceInfo(name="Slow CPU", platform="Vendor A", kind="cpu", memory=64, shares_memory=True)
GPU = DeviceInfo(name="Big GPU", platform="Vendor B", kind="gpu", memory=16)
SMALL_GPU = replace(GPU, name="Small GPU", memory=8)
INSIDE_GPU = replace(GPU, name="Inside GPU", memory=64, shares_memory=True)
BROKEN = replace(GPU, name="Broken GPU", memory=99, problems=("the driver died of SIGSEGV",))
CHECKER = DeviceInfo(name="Oclgrind Simulator", platform="Oclgrind", kind="simulator")


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test inherits what an earlier one found, nor the settings of whoever runs the tests."""
    monkeypatch.setattr(devices, "_known", {})
    for name in ("RUNNEL_DEVICE", "RUNNEL_THREADS", "RUNNEL_REPROBE"):
        monkeypatch.delenv(name, raising=False)
    for name in (
        "PATH",
        "POCL_AFFINITY",
        "POCL_CACHE_DIR",
        "POCL_MAX_PTHREAD_COUNT",
        "NUMBA_NUM_THREADS",
    ):
        monkeypatch.setenv(name, os.environ.get(name, ""))  # put back afterwards
        if not os.environ[name]:
            monkeypatch.delenv(name)


def pretend(monkeypatch: pytest.MonkeyPatch, *found: DeviceInfo) -> None:
    monkeypatch.setattr(devices, "list_devices", lambda: list(found))


class TestChoose:
    def test_auto_prefers_the_gpu_with_most_memory_of_its_own(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pretend(monkeypatch, CHECKER, BROKEN, INSIDE_GPU, CPU, SMALL_GPU, GPU)
        assert choose() == GPU

    def test_auto_takes_a_cpu_rather_than_a_checker(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pretend(monkeypatch, CHECKER, CPU)
        assert choose("auto") == CPU

    def test_auto_falls_back_to_the_reference_and_says_why(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pretend(monkeypatch, CHECKER, BROKEN)
        info = choose()
        assert (info.kind, info.name) == ("reference", "reference")
        assert "Broken GPU" in info.note
        assert "SIGSEGV" in info.note

    def test_environment_says_what_auto_means(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pretend(monkeypatch, CPU, GPU)
        monkeypatch.setenv("RUNNEL_DEVICE", "slow")
        assert choose() == CPU
        assert choose("gpu") == GPU

    @pytest.mark.parametrize(
        ("word", "expected"),
        [
            ("cpu", CPU),
            ("GPU", GPU),
            ("small", SMALL_GPU),
            ("vendor b", GPU),
            ("oclgrind", CHECKER),
            (2, SMALL_GPU),
            ("0", CHECKER),
        ],
    )
    def test_by_kind_part_of_a_name_or_number(
        self, monkeypatch: pytest.MonkeyPatch, word: str | int, expected: DeviceInfo
    ) -> None:
        pretend(monkeypatch, CHECKER, CPU, SMALL_GPU, GPU)
        assert choose(word) == expected

    @pytest.mark.parametrize("word", ["nvidia", "gpu", 7, "-1"])
    def test_unknown_names_list_what_exists(
        self, monkeypatch: pytest.MonkeyPatch, word: str | int
    ) -> None:
        pretend(monkeypatch, CPU)
        with pytest.raises(DeviceError, match="No device matches") as caught:
            choose(word)
        assert "0: Slow CPU" in str(caught.value)
        assert '"reference"' in str(caught.value)

    def test_a_broken_device_is_refused_with_its_reason(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pretend(monkeypatch, CPU, BROKEN)
        with pytest.raises(DeviceError, match="SIGSEGV"):
            choose("broken")

    def test_the_reference_needs_no_probe(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(devices, "list_devices", lambda: pytest.fail("probed"))
        assert choose("reference") is REFERENCE


class TestProbe:
    """Drivers that misbehave, played by a stand-in for the probing process."""

    def play(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str) -> None:
        script = tmp_path / "python"
        script.write_text(f"#!{sys.executable}\nimport sys, os, json, time\n{code}\n")
        script.chmod(0o755)
        monkeypatch.setattr(devices, "interpreter", lambda: str(script))
        monkeypatch.setenv("RUNNEL_CACHE_DIR", str(tmp_path / "cache"))

    def test_a_crash_on_loading_is_reported(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        self.play(monkeypatch, tmp_path, "sys.stderr.write('fatal error: no way\\n'); os.abort()")
        (info,) = devices.list_devices()
        assert info.problems == ("the driver died of SIGABRT: fatal error: no way",)
        assert choose().kind == "reference"

    def test_one_bad_device_leaves_the_others_alone(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        answers = [
            {"name": "good", "kind": "gpu", "platform_index": 0, "device_index": 0},
            {"name": "hangs", "kind": "gpu", "platform_index": 0, "device_index": 1},
            {"name": "wrong", "kind": "gpu", "platform_index": 1, "device_index": 0},
        ]
        code = (
            f"if 'list' in sys.argv: print('noise'); print(json.dumps({answers}))\n"
            "elif sys.argv[-2:] == ['0', '1']: time.sleep(60)\n"
            "elif sys.argv[-2:] == ['1', '0']: print('{\"error\": \"it gave 1\"}')\n"
            "else: print(json.dumps({'subgroup_size': 32, 'preferred_multiple': 32}))"
        )
        self.play(monkeypatch, tmp_path, code)
        monkeypatch.setattr(devices, "TIME_LIMIT", 2.0)
        good, hangs, wrong = devices.list_devices()
        assert (good.works, good.subgroup_size) == (True, 32)
        assert hangs.problems == ("no answer within 2 s",)
        assert wrong.problems == ("it gave 1",)
        assert choose() == good

    def test_no_driver_at_all(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.play(monkeypatch, tmp_path, "print('[]')")
        (info,) = devices.list_devices()
        assert "no device" in info.problems[0]

    @pytest.mark.skipif(sys.platform != "linux", reason="PoCL links this way on Linux")
    def test_a_linker_that_fails_is_replaced(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        answer = [{"name": "PoCL", "kind": "cpu", "platform_index": 0, "device_index": 0}]
        code = (
            f"if 'list' in sys.argv: print(json.dumps({answer}))\n"
            "elif '/cache/bin' in os.environ['PATH']: print('{}')\n"
            "else: os.abort()"
        )
        monkeypatch.setattr(linker, "missing", lambda *_: "")
        self.play(monkeypatch, tmp_path, code)
        (info,) = devices.list_devices()
        assert info.works
        assert info.own_linker


class TestMemory:
    """What a probe found is kept until something changes."""

    @pytest.fixture(autouse=True)
    def probes(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[float]:
        calls: list[float] = []

        def probe_all() -> list[DeviceInfo]:
            calls.append(time.time())
            return list(self.found)

        self.found = [CPU, GPU]
        monkeypatch.setattr(devices, "_probe_all", probe_all)
        monkeypatch.setenv("RUNNEL_CACHE_DIR", str(tmp_path))
        return calls

    def restart(self, monkeypatch: pytest.MonkeyPatch) -> list[DeviceInfo]:
        monkeypatch.setattr(devices, "_known", {})
        return devices.list_devices()

    def test_a_second_process_does_not_probe(
        self, monkeypatch: pytest.MonkeyPatch, probes: list[float]
    ) -> None:
        assert devices.list_devices() == self.restart(monkeypatch) == [CPU, GPU]
        assert len(probes) == 1

    def test_a_changed_driver_is_probed_again(
        self, monkeypatch: pytest.MonkeyPatch, probes: list[float], tmp_path: Path
    ) -> None:
        vendors = tmp_path / "vendors"
        vendors.mkdir()
        driver = tmp_path / "libdriver.so"
        (vendors / "new.icd").write_text(f"{driver}\n")
        monkeypatch.setattr(devices, "VENDORS", vendors)
        devices.list_devices()
        driver.write_text("version 1")
        self.restart(monkeypatch)
        self.restart(monkeypatch)
        assert len(probes) == 2

    def test_settings_have_records_of_their_own(
        self, monkeypatch: pytest.MonkeyPatch, probes: list[float]
    ) -> None:
        for threads in ("1", "2", "1", "2"):
            monkeypatch.setenv("POCL_MAX_PTHREAD_COUNT", threads)
            self.restart(monkeypatch)
        assert len(probes) == 2

    def test_reprobe_on_demand(self, monkeypatch: pytest.MonkeyPatch, probes: list[float]) -> None:
        devices.list_devices()
        devices.list_devices(reprobe=True)
        monkeypatch.setenv("RUNNEL_REPROBE", "1")
        self.restart(monkeypatch)
        assert len(probes) == 3

    def test_failures_are_believed_for_a_while_only(
        self, monkeypatch: pytest.MonkeyPatch, probes: list[float]
    ) -> None:
        self.found = [CPU, BROKEN]
        devices.list_devices()
        assert self.restart(monkeypatch)[1].problems == BROKEN.problems
        assert len(probes) == 1
        monkeypatch.setattr(devices, "TRUST_FAILURE", 0.0)
        self.restart(monkeypatch)
        assert len(probes) == 2

    @pytest.mark.parametrize("content", ["", "{", "[]", '{"devices": [{"name": 1}]}', "null"])
    def test_a_damaged_record_is_ignored(
        self, monkeypatch: pytest.MonkeyPatch, probes: list[float], tmp_path: Path, content: str
    ) -> None:
        devices.list_devices()
        (record,) = tmp_path.glob("devices-*.json")
        assert json.loads(record.read_text())["devices"][0]["name"] == "Slow CPU"
        record.write_text(content)
        assert self.restart(monkeypatch) == [CPU, GPU]
        assert len(probes) == 2


class TestEnvironment:
    def test_threads_reach_opencl_and_numba(self) -> None:
        code = (
            "import os\n"
            "from runnel.backends import devices\n"
            "devices.prepare_environment()\n"
            "print(os.environ['POCL_MAX_PTHREAD_COUNT'], os.environ['NUMBA_NUM_THREADS'])"
        )
        assert self.answer(code, RUNNEL_THREADS="3") == "3 3"

    @pytest.mark.skipif(sys.platform != "linux", reason="PoCL pins threads on Linux only")
    def test_pocls_threads_are_pinned_if_they_may_go_everywhere(self) -> None:
        """One to a processor; else they would pile up on the first, or leave where they may be."""
        code = (
            "import os\n"
            "from runnel.backends import devices\n"
            "devices.prepare_environment()\n"
            "print(os.environ.get('POCL_AFFINITY', 'free'))"
        )
        everywhere = os.sched_getaffinity(0) == set(range(os.cpu_count() or 0))
        assert self.answer(code, POCL_AFFINITY="") == ("1" if everywhere else "free")
        assert self.answer(code, POCL_AFFINITY="0") == "0"
        assert self.answer(code, POCL_AFFINITY="", RUNNEL_THREADS="1") == "free"
        if (os.cpu_count() or 1) > 1:
            confined = code.replace("import os", "import os; os.sched_setaffinity(0, {0})")
            assert self.answer(confined, POCL_AFFINITY="") == "free"

    @pytest.mark.skipif(sys.platform != "linux", reason="PoCL pins threads on Linux only")
    def test_pinned_threads_have_a_processor_each(self) -> None:
        """As the system tells it, of a real device."""
        code = (
            "import os\n"
            "from runnel.backends import devices\n"
            "opened = devices.open_context(devices.choose('cpu'))\n"
            "places = [os.sched_getaffinity(int(t)) for t in os.listdir('/proc/self/task')]\n"
            "print(sorted(cpu for cpus in places if len(cpus) == 1 for cpu in cpus))"
        )
        count = os.cpu_count() or 1
        if count == 1 or os.sched_getaffinity(0) != set(range(count)):
            pytest.skip("needs leave to run on all of several processors")
        assert self.answer(code, POCL_AFFINITY="") == str(list(range(count)))
        assert self.answer(code, POCL_AFFINITY="0") == "[]"

    def test_threads_of_numba_that_run_already(self) -> None:
        code = (
            "import numba\n"
            "from runnel.backends import devices\n"
            "numba.get_num_threads()  # launches them: two\n"
            "devices.prepare_environment()\n"
            "numba.njit(lambda: 1)()  # reads the environment anew\n"
            "print(numba.get_num_threads())"
        )
        assert self.answer(code, RUNNEL_THREADS="1", NUMBA_NUM_THREADS="2") == "1"

    @staticmethod
    def answer(code: str, **settings: str) -> str:
        """What a new interpreter prints."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "core"), **settings}
        environment = {name: text for name, text in environment.items() if text}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    @pytest.mark.parametrize("threads", ["0", "-2", "many", "1.5"])
    def test_a_bad_thread_count_is_named(
        self, monkeypatch: pytest.MonkeyPatch, threads: str
    ) -> None:
        monkeypatch.setenv("RUNNEL_THREADS", threads)
        with pytest.raises(DeviceError, match=f"RUNNEL_THREADS is '{threads}'"):
            devices.prepare_environment()

    def test_the_users_kernel_cache_stays(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("POCL_CACHE_DIR", "mine")
        devices.prepare_environment()
        assert os.environ["POCL_CACHE_DIR"] == "mine"

    def test_a_home_that_cannot_be_written(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / "file").touch()
        monkeypatch.setenv("RUNNEL_CACHE_DIR", str(tmp_path / "file" / "below"))
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        assert devices.cache_folder().parent == tmp_path
        assert os.access(devices.cache_folder(), os.W_OK)

    @pytest.mark.skipif(sys.platform != "linux", reason="Intel's runtime is announced on Linux")
    def test_intels_runtime_is_added_beside_the_systems_drivers(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / "lib").mkdir()
        (tmp_path / "lib" / "libintelocl.so").touch()
        vendors = tmp_path / "vendors"
        vendors.mkdir()
        (vendors / "system.icd").write_text("libsystem.so\n")
        monkeypatch.setattr(devices, "VENDORS", vendors)
        monkeypatch.setattr(sys, "prefix", str(tmp_path))
        monkeypatch.setenv("RUNNEL_CACHE_DIR", str(tmp_path / "cache"))
        monkeypatch.setenv("OCL_ICD_VENDORS", "")
        devices.prepare_environment()
        folder = Path(os.environ["OCL_ICD_VENDORS"])
        assert {f.name: f.read_text().strip() for f in folder.iterdir()} == {
            "system.icd": "libsystem.so",
            "runnel-intel.icd": str(tmp_path / "lib" / "libintelocl.so"),
        }
        monkeypatch.setenv("OCL_ICD_VENDORS", "mine")
        devices.prepare_environment()
        assert os.environ["OCL_ICD_VENDORS"] == "mine"


class TestHere:
    """On the machine as it is."""

    def test_a_device_works(self) -> None:
        """The install brings one on Linux x86_64."""
        if sys.platform != "linux" or os.uname().machine != "x86_64":
            pytest.skip("no CPU runtime is published for this system")
        info = choose()
        assert info.kind in ("cpu", "gpu"), info.note
        assert info.memory > 1 << 30
        assert info.preferred_multiple > 0

    def test_open_context(self, opencl_device: DeviceInfo) -> None:
        import pyopencl as cl

        context, queue = devices.open_context(opencl_device, profile=True)
        assert queue.context == context
        assert queue.properties & cl.command_queue_properties.PROFILING_ENABLE
        assert queue.device.name.strip() == opencl_device.name

    def test_the_reference_has_no_context(self) -> None:
        with pytest.raises(DeviceError, match="without OpenCL"):
            devices.open_context(REFERENCE)

    def test_devices_that_changed_are_noticed(self, opencl_device: DeviceInfo) -> None:
        with pytest.raises(DeviceError, match="RUNNEL_REPROBE"):
            devices.open_context(replace(opencl_device, name="another"))
        with pytest.raises(DeviceError, match="cannot be opened"):
            devices.open_context(replace(opencl_device, device_index=99))

    def test_thread_count_of_the_cpu_device(self, opencl_device: DeviceInfo) -> None:
        if opencl_device.kind != "cpu" or "Portable" not in opencl_device.platform:
            pytest.skip("counts PoCL's threads")
        code = (
            "from runnel.backends import devices\n"
            f"context, queue = devices.open_context(devices.choose({opencl_device.name!r}))\n"
            "print(queue.device.max_compute_units)"
        )
        for threads in ("1", "2"):
            environment = {
                **os.environ, "RUNNEL_THREADS": threads, "PYTHONPATH": str(ROOT / "core")
            }  # fmt: skip
            command = [sys.executable, "-c", code]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            assert done.stdout.strip() == threads, done.stderr
