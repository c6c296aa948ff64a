"""A second output in one text never passes unread: found by an attack that joined every healthy recording with every bad one."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.explain.one_output import unread_beside
from checks.explain.reading import ReadOptions
from tasks.reports.exit_codes import exit_code
from tasks.reports.explain import explain_text

RECORDINGS = Path(__file__).parents[2] / "recordings"
JOINED = (
    ("dcgm/diag_33_r2.txt", "dcgm/diag_33_r2_partial_fail.txt"),
    ("dcgm/diag_4_r2.json", "dcgm/diag_44_r2_fail.txt"),
    ("dcgm/health_ok.json", "dcgm/health_memory.txt"),
    ("dcgm/health_ok.txt", "dcgm/health_memory.txt"),
    ("dcgm/health_ok.txt", "dcgm/diag_44_r2_fail.txt"),
    ("dcgm/policy_none.json", "dcgm/diag_33_r2_partial_fail.txt"),
    ("dcgm/diag_4_r2.json", "kernel/dmesg_off_bus.txt"),
    ("neuron/ls_trn1.txt", "neuron/ls_trn1_busy.json"),
    ("neuron/monitor_trn1.json", "neuron/ls_trn1_busy.txt"),
    ("neuron/monitor_trn1.json", "kernel/journal_memory.txt"),
    ("nccl/all_reduce_2.17.txt", "nccl/written_wrong.json"),
    ("kernel/dmesg_healthy.txt", "nccl/written_wrong.json"),
    ("nccl_ras/moves.json", "nccl_ras/silent.txt"),
    ("nccl_ras/moves.json", "dcgm/health_memory.txt"),
    ("efa/fi_info_1_22_p5en.txt", "gpu/h100_reset_required.xml"),
    ("efa/fi_pingpong_efa_rdm.txt", "efa/fi_info_none_2_x.txt"),
)


@pytest.mark.parametrize("turned", [False, True], ids=["healthy first", "faulty first"])
@pytest.mark.parametrize(("healthy", "faulty"), JOINED, ids=[" + ".join(pair) for pair in JOINED])
def test_a_faulty_output_beside_a_healthy_one_is_no_go(healthy: str, faulty: str, turned: bool) -> None:
    """What the reader found broken stays broken; what it did not read is "cannot tell"."""
    texts = [(RECORDINGS / name).read_text().rstrip("\n") + "\n" for name in (healthy, faulty)]

    code = _code("".join(reversed(texts) if turned else texts))

    assert _code(texts[0]) == 0
    assert code in (1, 3)


def test_rows_after_a_tables_end_are_not_passed_over() -> None:
    """A second table whose header was lost."""
    healthy = (RECORDINGS / "dcgm/diag_33_r2.txt").read_text()
    faulty = (RECORDINGS / "dcgm/diag_33_r2_partial_fail.txt").read_text()
    rows = [line for line in faulty.splitlines() if line.startswith("|") and "Diagnostic" not in line]

    assert _code(healthy + "\n".join(rows) + "\n") == 3


def _code(text: str) -> int:
    return int(exit_code(explain_text("-", "-", text.encode(), None, None, ReadOptions()).verdict))


@pytest.mark.parametrize(
    "name", ["kernel/dmesg_off_bus.txt", "kernel/journal_memory.txt", "dcgm/diag_44_r2_fail.txt"]
)
def test_colours_hide_nothing(name: str) -> None:
    """journalctl shows errors in red, grep what it found: the escapes stand before the words that decide."""
    text = (RECORDINGS / name).read_text()
    for word in ("NVRM", "EDAC", "mce", "Fail"):
        text = text.replace(word, f"\x1b[0;1;31m{word}\x1b[0m\x1b[K")

    assert _code(text) == 1


def test_memory_of_a_device_is_no_second_listing() -> None:
    """neuron-monitor names the bytes on its devices as neuron-ls names a device."""
    text = (RECORDINGS / "neuron/monitor_trn1.json").read_text()
    used = '{"neuron_runtime_data": [{"pid": 1, "report": {"memory_used": {"host": 7, "neuron_device": 102298328}}}],'

    assert (
        unread_beside(text.replace('{"neuron_runtime_data": [],', used, 1), "checks.probes.neuron.explain")
        == ""
    )
