"""`prelaunch explain --as`: answers to Xids side by side; the first one decides."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checks.documents.report import dump
from checks.model import Observation, Outcome, Planned, Scope
from checks.probes.kernel.xid import measured
from flows.cli.main import main
from tests.checks.probes.kernel.world import log_of
from tests.sample_reports import healthy

GPU = "NVRM: Xid (PCI:0000:b9:00): "
LINK = (
    f"{GPU}74, pid=<unknown>, NVLink: fatal error detected on link 6(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"
)


@pytest.fixture
def keep_signals() -> Iterator[None]:
    """The command sets its own answer to SIGTERM."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


pytestmark = pytest.mark.usefixtures("keep_signals")


def log(folder: Path, *said: str) -> str:
    """A kernel's log from its start to an hour later, with these messages."""
    lines = [
        "[    0.000000] Linux version 6.1.119 (x)",
        *(f"[ {900 + at}.000000] {line}" for at, line in enumerate(said)),
    ]
    path = folder / "dmesg.txt"
    path.write_text("\n".join([*lines, "[ 3600.000000] all well", ""]))
    return str(path)


def asked(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    """The exit code and the document."""
    code = main(["explain", "--format", "json", *words])
    return code, json.loads(capfd.readouterr().out)


def test_the_first_overlay_decides(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """73 alone: a WARN of NVIDIA's, a restart for HyperPod."""
    path = log(tmp_path, f"{GPU}73, x")
    first, nvidia = asked(capfd, "--as", "nvidia,hyperpod", path)
    second, hyperpod = asked(capfd, "--as", "hyperpod,nvidia", path)

    assert (first, second) == (0, 1)
    assert ([nvidia["level"], hyperpod["level"]], nvidia["as"]) == (["WARN", "FAIL"], ["nvidia", "hyperpod"])
    assert [row["answers"] for row in nvidia["incidents"]] == [
        row["answers"] for row in hyperpod["incidents"]
    ]
    answers = nvidia["incidents"][0]["answers"]
    assert {name: (said["level"], said["action"]) for name, said in answers.items()} == {
        "nvidia": ("WARN", "contact"),
        "hyperpod": ("FAIL", "reboot"),
    }
    assert all(said["source"] for said in answers.values())


def test_a_table_for_people(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A row an incident; where a cloud says nothing, or less, a mark that is explained."""
    asked_for = f"{GPU}154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
    code = main(["explain", "--as", "nvidia,hyperpod,eks", log(tmp_path, LINK, asked_for)])
    lines = capfd.readouterr().out.splitlines()
    rows = {line.split(" ", 1)[0]: " ".join(line.split()) for line in lines}

    assert code == 1
    assert rows["74"].endswith("1 FAIL inspect FAIL replace FAIL replace")
    assert rows["154"].endswith("1 FAIL reset_gpu FAIL reset_gpu = WARN none *")
    assert {"*", "="} <= rows.keys()


def test_a_milder_cloud_does_not_make_it_a_go(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """EKS repairs nothing for 154; the driver wants a reset all the same."""
    asked_for = f"{GPU}154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"

    assert asked(capfd, "--as", "eks", log(tmp_path, asked_for))[0] == 1


def test_a_quiet_log_has_nothing_to_compare(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """And is a go."""
    code, document = asked(capfd, "--as", "eks,azure", log(tmp_path))

    assert (code, document["incidents"], document["unread"]) == (0, [], [])


def test_what_cannot_be_read_stays_cannot_tell(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """No overlay turns a text that nobody knows into a quiet log."""
    path = tmp_path / "junk.txt"
    path.write_text("some words\n")

    code, document = asked(capfd, "--as", "hyperpod", str(path))

    assert (code, document["incidents"], document["unread"]) == (3, [], ["input"])


def test_a_report_of_last_week_can_be_asked_too(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Its incidents are kept, so that another overlay may answer; nodes of an older version, or that saw nothing, are named."""
    seen = measured(log_of(f"[ 1.0] all well\n[ 9000.0] {GPU}73, x\n"), ()).metrics
    old = {
        name: value for name, value in seen.items() if not name.startswith("event_") and name != "incidents"
    }
    rows = [
        Observation("kernel.xid", f"node-{place}", Outcome.MEASURED, 0.1, metrics)
        for place, metrics in enumerate((seen, old))
    ]
    report = healthy(nodes=3)
    plan = (*report.plan, Planned("kernel.xid", Scope.NODE, tuple(old)))
    path = tmp_path / "report.json"
    path.write_bytes(dump(replace(report, plan=plan, observations=(*report.observations, *rows))))
    code, document = asked(capfd, "--as", "hyperpod", str(path))

    assert code in (1, 3)
    assert [(row["subject"], row["code"]) for row in document["incidents"]] == [("node-0", 73)]
    assert document["unread"] == ["node-1", "node-2"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--as", "hyperpot"], "Did you mean 'hyperpod'"),
        (["--as", ""], "has no answers to Xids"),
        (["--as", "eks,eks"], "twice"),
        (["--as", "eks", "--format", "junit"], "text or JSON"),
        (["--as", "eks", "tests/recordings/kernel/dmesg_healthy.txt"], "one input"),
    ],
)
def test_what_makes_no_sense_is_refused(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], said: str
) -> None:
    """With 2, and the nearest name."""
    assert main(["explain", *words, log(tmp_path, LINK)]) == 2
    captured = capfd.readouterr()
    assert said in captured.err + captured.out


def test_a_tool_without_xids_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    """Only a kernel's log or a report holds any."""
    path = Path(__file__).parents[2] / "recordings/dcgm/diag_4_r2.json"

    assert main(["explain", "--as", "eks", str(path)]) == 2
    assert "only a kernel's log or a report" in capfd.readouterr().err


def test_a_gpu_that_fell_off_the_bus_has_one_first_action(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Two checks read the same line: the node is restarted, then replaced (NVIDIA's catalogue: RESTART_BM, then CONTACT_SUPPORT)."""
    main(["explain", log(tmp_path, f"{GPU}79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")])
    out = " ".join(capfd.readouterr().out.split())

    assert 1 == out.count("do: Restart the node (") and "Reset the node" not in out
    assert 1 == out.count("do: what is said above about the same lines")
    assert out.index("do: Restart") < out.index("If it returns, replace the node")
    assert out.index("FAIL HARDWARE kernel.xid") < out.index("FAIL HARDWARE kernel.hardware")


def test_findings_that_other_lines_prove_keep_their_own_remedy(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Two Xids of two GPUs are two tasks."""
    other = "NVRM: Xid (PCI:0000:aa:00): 48, pid=7, DBE"
    main(["explain", log(tmp_path, f"{GPU}74, x", other)])

    assert 0 == capfd.readouterr().out.count("what is said above")
