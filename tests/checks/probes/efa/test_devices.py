"""Versions in files, counters in /sys, and what a fault of some devices or of all means."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.check import CheckError
from checks.probes.efa import counters, devices, plugin
from checks.probes.efa.libfabric import ClientResult, parse
from checks.probes.efa.loopback import LoopbackRun, judged_apart
from tests.corpus.case import Case, Sort
from tests.corpus.efa_cases import DEVICES4, FOUR, NONE_2, info
from tests.corpus.judging import verdict_of
from tests.fakes.fabric import COUNTERS, TABLE, endpoints, make_sysfs
from tests.fakes.tools import Reply

GOOD = LoopbackRun(ClientResult("ok", True, parse(TABLE)[0], ""), 23_000_000)
UNREAD = LoopbackRun(ClientResult("the table is cut", False, None, ""), 0)


def test_output_that_cannot_be_read_is_no_measurement() -> None:
    """Though the other device worked."""
    with pytest.raises(CheckError, match="cut"):
        judged_apart("efa", ["a-rdm", "b-rdm"], [GOOD, UNREAD])


@pytest.mark.parametrize(
    ("version", "number"),
    [("1.16.2", 1016002), ("1.7", 1007000), ("", None), ("abc", None), ("2.0.0-aws", 2000000)],
)
def test_versions_are_compared_as_numbers(version: str, number: int | None) -> None:
    """1.16 is newer than 1.7."""
    assert number == plugin.number_of(version)


@pytest.mark.parametrize(("number", "text"), [(22703, "2.27.3"), (2804, "2.8.4"), (21805, "2.18.5")])
def test_nccl_numbers_its_versions_in_two_ways(number: int, text: str) -> None:
    """Before and after 2.9."""
    assert text == plugin.nccl_text(number)


def test_a_link_to_the_same_plugin_counts_once(tmp_path: Path) -> None:
    """libnccl-net.so is often a link to libnccl-net-ofi.so; the search path's order is kept."""
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
    (tmp_path / "second/libnccl-net-ofi.so").write_bytes(b"x")
    (tmp_path / "second/libnccl-net.so").symlink_to("libnccl-net-ofi.so")
    (tmp_path / "first/libnccl-net.so").write_bytes(b"y")
    folders = plugin.search_path(f"{tmp_path}/first::{tmp_path}/second")

    found = plugin.files(folders[:2], plugin.NET)

    assert [tmp_path / "first/libnccl-net.so", tmp_path / "second/libnccl-net.so"] == list(found)


def test_an_empty_plugin_has_no_version(tmp_path: Path) -> None:
    """A file that was cut to nothing is not mapped, and says nothing."""
    (tmp_path / "libnccl-net.so").write_bytes(b"")

    assert "" == plugin.version_in(tmp_path / "libnccl-net.so")


def test_only_amazons_devices_count(tmp_path: Path) -> None:
    """An InfiniBand card beside them is none."""
    make_sysfs(tmp_path, ["rdmap1s0", "mlx5_0"])
    (tmp_path / "mlx5_0/device/vendor").write_text("0x15b3\n")

    assert ["rdmap1s0"] == [device.name for device in devices.kernel_devices(tmp_path)]


def test_lifespan_is_no_counter() -> None:
    """It is a polling period, and may change."""
    found = counters.compared({"d": COUNTERS}, {"d": {**COUNTERS, "lifespan": 5}})

    assert "d: unchanged" == found.evidence


def test_a_counter_that_only_the_first_look_shows_makes_it_unknown() -> None:
    """The driver was reloaded meanwhile, for example."""
    after = {key: value for key, value in COUNTERS.items() if key != "rdma_read_wr_err"}

    assert (None,) == counters.compared({"d": COUNTERS}, {"d": after}).metrics["error_events"]


@pytest.mark.parametrize("seen", [{"d": "text"}, {"d": {}}, {"d": {"rx_drops": "3"}}, {}])
def test_a_first_look_that_is_no_number_is_never_zero(seen: dict[str, object]) -> None:
    """What travelled through a file is not trusted."""
    assert (None,) == counters.compared(seen, {"d": COUNTERS}).metrics["rx_drops"]


DOWN = {DEVICES4[3]: "1: DOWN"}
SOME, ALL = Reply(endpoints(DEVICES4[:3])), Reply(endpoints(DEVICES4))


@pytest.mark.parametrize(
    ("reply", "tree", "states", "metrics"),
    [
        (ALL, DEVICES4, None, []),
        (ALL, DEVICES4, DOWN, ["port_states"]),
        (SOME, DEVICES4, DOWN, ["port_states"]),
        (SOME, DEVICES4, None, ["unoffered"]),
        (SOME, DEVICES4[:3], None, ["rdm_domains"]),
        (Reply(stderr=NONE_2, code=61), DEVICES4, None, ["failure"]),
        (Reply(stderr=NONE_2, code=61), DEVICES4[:3], None, ["failure", "rdm_domains"]),
        (Reply(endpoints(DEVICES4[:2])), DEVICES4[:3], None, ["rdm_domains", "unoffered"]),
    ],
)
def test_efa_devices_has_one_finding_and_one_remedy_for_each_fault(
    tmp_path: Path, reply: Reply, tree: tuple[str, ...], states: dict[str, str] | None, metrics: list[str]
) -> None:
    case = Case("efa.devices", Sort.FAULTY, "", info(FOUR, reply, tree, states), FOUR)

    verdict = verdict_of(case, tuple(case.observe(tmp_path)))

    assert metrics == sorted(finding.metric for finding in verdict.findings)
    assert len(metrics) == len({finding.remedy for finding in verdict.findings})
