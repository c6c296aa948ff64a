"""cpu.stress and memory.stress: what a run of stress-ng says, and a real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.check import CheckError
from checks.probes.host import stress
from checks.probes.host.stress import parse
from tests.corpus.case import context, recordings_of, whole
from tests.fakes.tools import Reply, install, on_path

recorded = recordings_of("host")
MEMINFO = "MemTotal: 16000000 kB\nMemAvailable: {} kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"


def test_a_good_run_is_read() -> None:
    """Workers, operations, and the seconds of all workers together."""
    ran = parse(recorded("stress_cpu.txt"), "cpu", 0)

    assert (ran.workers, ran.operations, ran.operations_per_s, ran.failures) == (2, 7004, 3500.79, ())
    assert ran.cpu_s == pytest.approx(3.98)


def test_an_unsuccessful_run_is_not_a_successful_one() -> None:
    """The one word contains the other."""
    with pytest.raises(CheckError):
        parse(recorded("stress_cpu.txt").replace("successful", "unsuccessful"), "cpu", 0)


def tree(root: Path, available_kb: int, room: int | None = None) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(MEMINFO.format(available_kb))
    (root / "proc/self/cgroup").write_text("0::/\n")
    (root / "proc/self/mountinfo").write_text("30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
    folder = root / "sys/fs/cgroup"
    folder.mkdir(parents=True)
    if room is not None:
        (folder / "memory.max").write_text(f"{room + 100}\n")
        (folder / "memory.current").write_text("100\n")
        (folder / "memory.stat").write_text("inactive_file 0\n")
    return root


def test_a_share_of_the_free_memory_is_tested(tmp_path: Path) -> None:
    """Whole pages, and never more than the deepest share, whatever a policy asks for."""
    root = tree(tmp_path, 10_000_000)

    assert stress.size_to_test(root, 0.1, 1 << 50) == 1_024_000_000 // 4096 * 4096
    assert stress.size_to_test(root, 0.1, 100 << 20) == 100 << 20
    assert stress.size_to_test(root, 5.0, 1 << 50) == 4_096_000_000


def test_the_cgroups_room_binds(tmp_path: Path) -> None:
    """A container with 1 GB left is not asked for a tenth of the host's memory."""
    root = tree(tmp_path, 100_000_000, room=1_000_000_000)

    assert stress.size_to_test(root, 0.1, 1 << 50) == 100_000_000 // 4096 * 4096


def test_too_little_memory_is_no_measurement(tmp_path: Path) -> None:
    """What fits into a cache tests no memory."""
    with pytest.raises(CheckError, match="too little"):
        stress.size_to_test(tree(tmp_path, 100_000), 0.1, 1 << 50)


def test_memory_that_cannot_be_read_is_no_measurement(tmp_path: Path) -> None:
    """Nobody guesses how much is free."""
    with pytest.raises(CheckError, match="free memory is unknown"):
        stress.size_to_test(tmp_path, 0.1, 1 << 50)


@pytest.mark.needs("stress-ng")
def test_a_real_run_of_the_cpus(tmp_path: Path) -> None:
    """stress-ng itself, for one second: no failure, all workers, and it got some of the CPUs."""
    result = whole(stress.cpu_stress, context(stress.cpu_stress, tmp_path, options={"seconds": 1}))

    assert (result.metrics["failures"], result.metrics["workers_missing"]) == (0, 0)
    assert 0 < float(str(result.metrics["cpu_share"])) <= 1.5


@pytest.mark.needs("stress-ng")
def test_a_real_run_of_the_memory(tmp_path: Path) -> None:
    """stress-ng itself over 64 MiB."""
    options = {"seconds": 1, "share": 0.4, "max_bytes": 64 << 20}
    result = whole(stress.memory_stress, context(stress.memory_stress, tmp_path, options=options))

    assert result.metrics["failures"] == 0
    assert int(str(result.metrics["rounds"])) > 0


def test_a_busy_host_gets_more_time_for_its_round(tmp_path: Path) -> None:
    """No round within the time is a slow host, not a measurement: it is run again, for longer, while time is left."""
    none = (
        "stress-ng: info: [7] dispatching hogs: 2 vm\nstress-ng: metrc: [7] vm 0 1.00 1.9 0.1 0.0 0.0 0.0\n"
        "stress-ng: info: [7] successful run completed in 1.00s\n"
    )
    one = none.replace("vm 0 1.00", "vm 2 3.00")
    install(tmp_path, "stress-ng", [Reply(none, asked="--timeout 1s"), Reply(one, asked="--timeout 3s")])
    with on_path(tmp_path):
        ran, _ = stress.run_a_round(("--vm", "2"), 1.0, 60.0)
        short, _ = stress.run_a_round(("--vm", "2"), 1.0, 10.0)

    assert (ran.operations, short.operations) == (2, 0)
