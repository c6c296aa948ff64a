"""What else used the CPUs: from the kernel's counters, and beside processes that really do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from checks.documents.host_load import Contention
from checks.process import cpu_usage
from checks.process.cgroup import read_throttling
from checks.process.cpu_usage import MARKS, Sample, Watch, between, parse_stat
from tests.checks.proc_trees import tree, v1, v2

# Two CPUs of a host of four: user nice system idle iowait irq softirq steal guest guest_nice, in ticks of 10 ms.
STAT = """cpu  4000 0 400 4000 0 0 0 400 0 0
cpu0 1000 10 100 1000 20 3 7 100 500 0
cpu1 1000 0 100 1000 0 0 0 100 0 0
cpu2 1000 0 100 1000 0 0 0 100 0 0
cpu3 1000 0 100 1000 0 0 0 100 0 0
intr 1 2 3
"""
FIRST = Sample(
    100.0, busy=50.0, idle=50.0, stolen=1.0, cpus=2, own=10.0, waited=5.0, periods=100, throttled=10
)


def test_only_the_cpus_that_this_process_may_use_count() -> None:
    """A host's other CPUs take nothing from it; guest time is in user time already."""
    assert (2, 22.2, 20.2, 2.0) == parse_stat(STAT, {0, 1})
    with pytest.raises(ValueError, match="none of the CPUs"):
        parse_stat("", {0})


def test_others_are_what_was_busy_less_our_own() -> None:
    """Of 20 s of two CPUs 16 were busy, 6 with our own, 2 were stolen and 2 idle."""
    last = replace(
        FIRST, at=110.0, busy=66.0, idle=52.0, stolen=3.0, own=16.0, waited=10.0, periods=200, throttled=40
    )
    seen = between(FIRST, last, 25.0, 3000.0)

    assert Contention(2, 25.0, 0.6, 0.1, 0.1, 0.3, 0.5, 3000.0) == seen


@pytest.mark.parametrize(
    "last", [None, FIRST, replace(FIRST, at=110.0), replace(FIRST, at=110.0, busy=60.0, cpus=4)]
)
def test_cpu_usage_is_none_without_usable_kernel_counters(last: Sample | None) -> None:
    """No time between the samples, counters that stand still, CPUs that came or went."""
    assert between(FIRST, last, 1.0, None) is None


def test_our_own_time_is_never_less_than_none() -> None:
    """Ticks are sampled: our own may be more than all that was busy."""
    seen = between(FIRST, replace(FIRST, at=110.0, busy=51.0, idle=69.0, own=13.0), 0.1, None)

    assert seen is not None and (0.0, 0.0) == (seen.used, seen.stolen)


def test_the_nearest_quota_counts_its_periods(tmp_path: Path) -> None:
    """cgroup v2's and v1's cpu.stat; a root without a quota counts none."""
    held = "usage_usec 5\nnr_periods 120\nnr_throttled 90\nthrottled_usec 7\n"
    free = "usage_usec 5\nnr_periods 0\nnr_throttled 0\n"

    assert (120, 90) == read_throttling(tree(tmp_path / "v2", v2("/", {"cpu.stat": held})))
    assert (120, 90) == read_throttling(tree(tmp_path / "v1", v1({"cpu,cpuacct/cpu.stat": held})))
    assert (None, None) == read_throttling(tree(tmp_path / "free", v2("/", {"cpu.stat": free})))


SPIN = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass"


@contextmanager
def _spinning(environment: Mapping[str, str]) -> Iterator[list[int]]:
    """As many busy processes as this one has CPUs."""
    argv = (sys.executable, "-S", "-c", SPIN)
    started = [
        subprocess.Popen(argv, env={**os.environ, **environment}, start_new_session=True)
        for _ in os.sched_getaffinity(0)
    ]
    try:
        yield [one.pid for one in started]
    finally:
        for one in started:
            one.kill()
            one.wait()


def test_other_processes_take_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real ones, with another run's mark or none."""
    monkeypatch.setenv(MARKS[0], uuid.uuid4().hex)
    with _spinning({MARKS[0]: uuid.uuid4().hex}):
        watch = Watch()
        time.sleep(0.7)
        seen = watch.contention()

    assert seen is not None and seen.load >= 0 and seen.idle < 0.1
    assert seen.used > 0.6  # what is left is that of tests that run beside this one


def test_our_own_processes_are_those_with_our_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever they hang in the tree: the ranks of all nodes on this host. What they used is not others'."""
    mark = uuid.uuid4().hex
    for name in MARKS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(MARKS[0], mark)
    ours = cpu_usage._Own(Path("/"))
    # A mark of its own: the test above may spin in another worker at the same moment.
    monkeypatch.setenv(MARKS[0], uuid.uuid4().hex)
    theirs = cpu_usage._Own(Path("/"))
    with _spinning({MARKS[0]: mark}) as pids:
        here, before = -sum(os.times()[:4]), (ours.seconds(), theirs.seconds())
        # Within the time that both look at: reading all of /proc may take long.
        spent = -_spent(pids)
        time.sleep(0.7)
        spent += _spent(pids)
        after = ours.seconds(), theirs.seconds()
        here += sum(os.times()[:4])
    mine, another = (last - first for first, last in zip(before, after, strict=True))

    assert spent > 0.05
    assert mine >= 0.9 * spent - 0.02  # ticks of 10 ms
    # This process is everybody's, and threads of earlier tests may still compute in it.
    assert another < 0.5 * spent + here


# No process has such a number (pid_max is at most 2**22), so this one has not either.
NEW, OLD = 5_000_007, 5_000_008


def test_a_process_that_has_only_begun_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until a new process runs its program, it shows no environment, or that of its parent: its mark is not to be seen yet."""
    monkeypatch.setenv(MARKS[0], "a-run")
    ticks = os.sysconf("SC_CLK_TCK")

    def process(pid: int, environment: str, started_s: float) -> dict[str, str]:
        rest = ["0"] * 9 + ["100"] + ["0"] * 7 + [str(int(started_s * ticks))]
        return {f"proc/{pid}/environ": environment, f"proc/{pid}/stat": f"{pid} (x) S 1 {' '.join(rest)}"}

    tree(tmp_path, {"proc/uptime": "1000.0 1.0", **process(NEW, "", 999.9), **process(OLD, "", 10.0)})
    own = cpu_usage._Own(tmp_path)
    first = own.seconds()
    marked = f"{MARKS[0]}=a-run\0"
    tree(tmp_path, {f"proc/{NEW}/environ": marked, f"proc/{OLD}/environ": marked})

    assert first == 0.0
    assert own.seconds() == 100 / ticks  # an old one is looked at once: hundreds of them run on a host


def _spent(pids: Sequence[int]) -> float:
    """The CPU seconds of these processes."""
    texts = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids)
    return sum(int(fields[11]) + int(fields[12]) for fields in texts) / os.sysconf("SC_CLK_TCK")


def test_a_run_that_no_launcher_marked_marks_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what it starts meanwhile; a launcher's mark stays."""
    monkeypatch.delenv(MARKS[0], raising=False)
    with cpu_usage.marked("mine"):
        assert "mine" == os.environ[MARKS[0]]
        with cpu_usage.marked("inner"):
            assert "mine" == os.environ[MARKS[0]]
    assert MARKS[0] not in os.environ


def test_a_machine_without_proc_has_no_record(tmp_path: Path) -> None:
    """And nothing is raised: the measurement counts, without an excuse."""
    assert Watch(tmp_path).contention() is None
