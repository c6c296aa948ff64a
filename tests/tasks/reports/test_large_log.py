"""A log that is too large to be held is searched in its file, and judged as a small one is."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.explain.reading import Kind, ReadOptions
from checks.model import Level
from checks.probes.kernel import log_search
from tasks.reports import explain
from tasks.reports.exit_codes import exit_code
from tasks.reports.explain import Explanation, explain_input, explain_text
from tasks.reports.large_log import PACKED
from tests.benchmarks.kernel_log import write_log

RECORDINGS = Path(__file__).parents[2] / "recordings"
DAY = 'Apr  9 01:00:00 h kernel: x\nApr 10 02:00:00 h kernel: "y"\n'
XID = "Apr 10 02:00:00 h kernel: NVRM: Xid (PCI:0000:b9:00): 79, pid=1, GPU has fallen off the bus.\n"
CRON = "Apr  9 01:00:00 h cron[1]: job\n"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a few hundred bytes are too large."""
    monkeypatch.setattr(explain, "INPUT_BYTES", 100)
    monkeypatch.setattr(log_search, "LEAST_BYTES", 1)


def large(tmp_path: Path, data: str | bytes, kind: Kind | None = None) -> Explanation:
    """The answer on a file that holds this."""
    path = tmp_path / "messages"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return explain_input(str(path), kind, None, ReadOptions())


@pytest.mark.parametrize(
    "name", ["kmsg_nvlink5.txt", "dmesg_healthy.txt", "dmesg_off_bus.txt", "journal_memory.txt", "messages_sxid.txt"]
)  # fmt: skip
def test_size_changes_no_answer(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The findings of a large log are those of the same log when it is small, but for its digest."""
    data = (RECORDINGS / "kernel" / name).read_bytes()
    found = large(tmp_path, data)
    monkeypatch.setattr(explain, "INPUT_BYTES", 1 << 20)
    expected = explain_text("-", "-", data, None, None, ReadOptions())

    assert (expected.kind, expected.title, expected.held) == (found.kind, found.title, found.held)
    assert expected.verdict.level is found.verdict.level
    assert [f.message for f in expected.verdict.findings] == [f.message for f in found.verdict.findings]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (DAY, 0),
        (DAY + XID, 1),
        (CRON * 20_000 + DAY + XID, 1),
        (DAY + CRON * 20_000, 0),
        (CRON * 50, 3),
        (DAY[:-1] + " " * 100, 3),
        (DAY + "| Diagnostic                | Result |\n", 3),
        (DAY + "x" * 50 + "\0\n", 3),
        ("{" + " " * 200, 3),
        ("\n" * 200, 3),
    ],
    ids=["a day", "a fault", "kernel late", "kernel early", "cron alone", "cut", "dcgmi in it", "zero", "JSON", "blank"],
)  # fmt: skip
def test_a_large_log_is_judged(text: str, code: int, tmp_path: Path) -> None:
    """Go, no-go, and whatever hides something is cannot-tell."""
    assert code == int(exit_code(large(tmp_path, text).verdict))


def test_the_digest_tells_large_logs_apart(tmp_path: Path) -> None:
    """It is of the size and of what was looked at."""
    one, other = (large(tmp_path, DAY + fault) for fault in (XID, XID.replace("b9", "b8")))

    assert one.verdict.digests != other.verdict.digests
    assert one.verdict.digests == large(tmp_path, DAY + XID).verdict.digests


def test_large_output_of_another_tool_is_not_read(tmp_path: Path) -> None:
    """Nobody can tell, and the answer says why."""
    found = large(tmp_path, (RECORDINGS / "dcgm/diag_33_r2.txt").read_bytes())

    assert found.verdict.level is Level.FAIL
    assert "only a kernel log may be that large" in found.verdict.findings[0].message


def test_a_kind_that_is_not_the_kernels_is_not_forced_upon_a_log(tmp_path: Path) -> None:
    """--kind dcgmi on a large log."""
    assert 3 == int(exit_code(large(tmp_path, DAY, Kind.DCGMI).verdict))


def test_the_benchmarks_log_is_explained(tmp_path: Path) -> None:
    """Every fault that its generator planted is found, with the lines."""
    lines = write_log(tmp_path / "log", 1 << 20)
    found = explain_input(str(tmp_path / "log"), None, None, ReadOptions())

    assert {"kernel.xid", "kernel.hardware"} <= {finding.check for finding in found.verdict.findings}
    assert f"{lines}: " in found.verdict.findings[0].evidence


@pytest.mark.parametrize("size", [50, 50_000], ids=["small", "large"])
@pytest.mark.parametrize("begins", list(PACKED))
def test_what_is_packed_is_named(begins: bytes, size: int, tmp_path: Path) -> None:
    """Lines that are compressed hold no fault that anybody could find; what to do is said at once."""
    found = large(tmp_path, begins + b"x\n" * size)

    assert 3 == exit_code(found.verdict)
    assert "explain what comes out" in found.verdict.findings[0].message


def test_what_is_no_text_is_not_searched(tmp_path: Path) -> None:
    """A disk image or a core dump: gigabytes of it would be read line by line."""
    found = large(tmp_path, bytes(range(256)) * 4000)

    assert 3 == exit_code(found.verdict)
    assert "the file is not text" in found.verdict.findings[0].message
