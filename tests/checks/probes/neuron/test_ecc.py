"""nccom-test's table, the counters in sysfs, and the driver's lines in the kernel's log."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.check import CheckError
from checks.probes.kernel.log_lines import Line
from checks.probes.kernel.neuron_lines import KINDS, by_device, device_of, find, words_of
from checks.probes.neuron.collectives import parse
from checks.probes.neuron.ecc import value_of
from tests.corpus.case import recordings_of

text_of = recordings_of("neuron")
REAL_FORM = "NEURON_HW_ERR={} instance-id=i-0f00dfeed hostname=ip-10-9-8-7 nd-id=12 nc-id=0 serial-num=5eed action=TERMINATE_INSTANCE"


def test_bandwidth_is_in_10_to_the_9_bytes() -> None:
    """nccom-test's GB are 2^30 bytes."""
    rows = parse(text_of("nccom_allr.txt")).results

    assert [1 << 20, 1 << 22, 1 << 24, 1 << 26] == [row.size_bytes for row in rows]
    assert 61.77 == pytest.approx(rows[-1].busbw_gbps, abs=0.01)


def test_sizes_that_failed_are_failures() -> None:
    """They have words instead of figures."""
    run = parse(text_of("nccom_allr_failure.txt"))

    assert (2, 3) == (len(run.results), len(run.failures))


def test_wrong_results_are_found_before_and_after_the_table() -> None:
    """Wherever they are said."""
    assert 1 == len(parse(text_of("nccom_allr_wrong.txt")).wrong)
    assert 1 == len(parse("rank 3: result mismatch\n" + text_of("nccom_allr.txt")).wrong)


@pytest.mark.parametrize(
    "text",
    [
        "",
        text_of("nccom_allr.txt").replace("2105", "0"),
        text_of("nccom_allr.txt").replace("2105", "21050"),
        text_of("nccom_allr.txt").replace("57.53", "-57.53"),
        text_of("nccom_allr.txt").replace("57.53", "1,5"),
    ],
)
def test_a_table_that_is_cut_or_contradicts_itself_gives_no_answer(text: str) -> None:
    """Size, time and bandwidth account for each other."""
    with pytest.raises(CheckError):
        parse(text)


@pytest.mark.parametrize(
    ("kind", "prefix"),
    [*((kind, "") for kind in KINDS), (KINDS[0], "nrt: neuron: "), (KINDS[0], "2026-11-14T09:12:44Z ")],
)
def test_the_drivers_line_names_kind_device_and_action(kind: str, prefix: str) -> None:
    """Whatever the driver puts before it."""
    (event,) = find([Line(prefix + REAL_FORM.format(kind), 1.0)])

    assert (12, f"{kind}, TERMINATE_INSTANCE") == (device_of(event), words_of(event))


def test_quoted_text_is_no_error() -> None:
    """A program that talks about the line is not the driver."""
    quoted = Line("audit: a long command line that greps for it: grep NEURON_HW_ERR=DMA_ERROR x", 1.0)
    assert [] == list(find([quoted]))


def test_an_error_that_names_no_device_is_the_nodes() -> None:
    """As is one of a device that does not exist."""
    texts = ("NEURON_HW_ERR=DMA_ERROR affecting neuron devices", REAL_FORM.format("NEW_ERROR"))
    events = tuple(find([Line(text, 1.0) for text in texts]))

    assert ("", "", "DMA_ERROR; NEW_ERROR, TERMINATE_INSTANCE") == by_device(events, 2)


@pytest.mark.parametrize(
    ("text", "value"), [("0\n", 0), ("17", 17), ("", None), ("-1", None), ("1e3", None), ("9" * 30, None)]
)
def test_only_a_count_is_a_count(tmp_path: Path, text: str, value: int | None) -> None:
    """Anything else is not measured."""
    (tmp_path / "stats/hardware").mkdir(parents=True)
    (tmp_path / "stats/hardware/mem_ecc_uncorrected").write_text(text)

    assert value == value_of(tmp_path, "mem_ecc_uncorrected")


def test_a_counter_may_be_a_folder(tmp_path: Path) -> None:
    """Most of the driver's counters are: total and present."""
    place = tmp_path / "stats/hardware/mem_ecc_uncorrected"
    place.mkdir(parents=True)
    (place / "total").write_text("4\n")
    (place / "present").write_text("0\n")

    assert 4 == value_of(tmp_path, "mem_ecc_uncorrected")
