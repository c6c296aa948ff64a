"""nvidia-smi -q -x: what is no figure is not 0, and what is not whole is refused."""

from __future__ import annotations

import pytest

from checks.check import CheckError
from checks.explain.reading import CheckData, Garbled, ReadOptions
from checks.explain.registry import read
from checks.probes.gpu import nvidia_smi_reading
from checks.probes.gpu.nvidia_smi import parse
from tests.corpus.case import declared, recordings_of
from tests.corpus.judging import explained

recorded = recordings_of("gpu")


def parts(text: str) -> dict[str, CheckData]:
    return {part.check: part for part in nvidia_smi_reading.read(text, ReadOptions()).checks}


@pytest.mark.parametrize(
    "said", ["[N/A]", "[Not Supported]", "GPU is lost", "[GPU requires reset]", "", "-", "0x", "1 2 %"]
)
def test_nvidia_smi_parser_leaves_text_without_a_figure_unread(said: str) -> None:
    """None of what nvidia-smi prints instead of a number is 0."""
    gpu = parse(recorded("h100_healthy.xml").replace("<gpu_util>0 %", f"<gpu_util>{said}")).gpus[0]

    assert gpu.number("utilisation_percent") is None
    assert gpu.unread["utilisation_percent"] == (said or "empty")


def test_units_and_words_become_numbers() -> None:
    """MiB, W, C, x, bank(s), Yes and No, Enabled and Disabled."""
    gpu = parse(recorded("h100_healthy.xml").replace("mode>Default<", "mode>Exclusive_Process<")).gpus[0]

    expected = {"memory_total_mib": 81559, "limit_w": 700.0, "margin_c": 60, "pcie_width": 16}
    expected |= {"banks_max": 2560, "remap_pending": 0, "persistence": 1, "compute_mode": 3}
    assert expected == {name: gpu.number(name) for name in expected}


@pytest.mark.parametrize(("unrepairable", "failed"), [("Yes", 1), ("No", 0), ("N/A", 0)])
def test_memory_that_cannot_be_repaired_counts_as_a_failed_remap(unrepairable: str, failed: int) -> None:
    """The flag of driver 580 and later; a GPU without it is judged by its remapped rows."""
    text = recorded("h100_580_captured.xml").replace(
        "unrepairable_memory>No<", f"unrepairable_memory>{unrepairable}<"
    )
    gpu = parse(text).gpus[0]

    assert failed == gpu.number("remap_failed")
    assert bool(failed) is ("unrepairable_memory" in gpu.lines["remap_failed"])


def test_before_tlimit_the_margin_is_a_difference_from_a_limit_that_can_be() -> None:
    """A T4 says 36 C, and 85 as its greatest operating temperature; a T.LIMIT threshold (a few degrees) read as an absolute one would
    make a margin of nonsense.
    """
    text = recorded("t4_healthy.xml")

    assert 49 == parse(text).gpus[0].number("margin_c")
    assert parse(text.replace("threshold>85 C", "threshold>-2 C")).gpus[0].number("margin_c") is None


def test_both_sram_counters_make_the_sum() -> None:
    """Parity and SEC-DED; if one of them is not told, neither is the sum."""
    text = recorded("h100_healthy.xml").replace("parity>0<", "parity>3<").replace("secded>0<", "secded>4<")

    assert 7 == parse(text).gpus[0].number("sram_uncorrected_volatile")
    assert parse(text.replace("secded>4<", "secded>N/A<")).gpus[0].number("sram_uncorrected_volatile") is None


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("<attached_gpus>1</attached_gpus>", "", "lacks the number of attached GPUs"),
        ("<attached_gpus>1<", "<attached_gpus>2<", "states 2 attached GPUs but describes 1"),
        ("<attached_gpus>1<", "<attached_gpus>one<", "lacks the number of attached GPUs"),
        ("</temperature>", "", "line "),
        ("nvidia_smi_log>", "other_log>", "the root element is not"),
        ('"nvsmi_device_v13.dtd">', '"x" [<!ENTITY a "b">]>', "entities"),
    ],
)
def test_a_document_that_is_not_whole_is_refused(old: str, new: str, why: str) -> None:
    """The message says where it breaks."""
    with pytest.raises(CheckError, match=why):
        parse(recorded("h100_healthy.xml").replace(old, new))


def test_every_reading_has_its_lines() -> None:
    """A finding cites the lines that it rests on, with their numbers in the file."""
    part = parts(recorded("h100_faults.xml"))["gpu.row_remap"]

    text = recorded("h100_faults.xml").splitlines()
    cited = part.lines["remap_pending"].splitlines()
    assert 7 == len(cited)
    assert all(text[int(line.split(":")[0]) - 1].strip() == line.split(": ", 1)[1] for line in cited)


def test_a_missing_gpu_rests_on_the_lines_that_say_so() -> None:
    """How many are attached, and what the lost one printed."""
    lines = parts(recorded("h100_faults.xml"))["gpu.inventory"].lines["gpus_missing"].splitlines()

    assert "7: <attached_gpus>8</attached_gpus>" == lines[-1]
    assert len(lines) > 1
    assert all("GPU is lost" in line for line in lines[:-1])


def test_a_lost_gpu_is_one_finding_and_one_sentence() -> None:
    """It is named, and no check asks for the values that it cannot give; those that are not listed are missing, and no more."""
    said = explained(recorded("h100_faults.xml"), declared("p5.48xlarge")).findings
    lost = [finding.message for finding in said if "GPU 5 " in finding.message]
    alone = explained(recorded("h100_healthy.xml"), declared("p5.48xlarge")).findings

    assert 2 == len(lost) and "lacks 1 GPU according to nvidia-smi: GPU 5 (0000:91:00.0)" == lost[0]
    assert ["lacks 7 GPUs according to nvidia-smi"] == [finding.message for finding in alone]


def test_a_gpu_of_which_the_driver_says_what_it_needs_is_not_missing() -> None:
    """Its values cannot be read before the reset, and a person would look for a GPU that is there."""
    assert (0,) == parts(recorded("h100_reset_required.xml"))["gpu.inventory"].metrics["gpus_missing"]


def test_nvidia_smi_output_at_rest_has_no_clocks_part() -> None:
    """That no reason is active on a GPU that does nothing is no evidence."""
    assert "gpu.clocks" not in parts(recorded("h100_healthy.xml"))


def test_nvidia_smi_parser_keeps_a_known_metric_without_value_as_none() -> None:
    """An H100 that prints N/A for pending remaps was not measured."""
    text = recorded("h100_healthy.xml").replace("pending>No</remapped", "pending>N/A</remapped")

    assert (None,) == parts(text)["gpu.row_remap"].metrics["remap_pending"]


def test_words_around_the_document_are_kept() -> None:
    """nvidia-smi prints its warnings beside the XML: they are not overlooked, and the line numbers hold."""
    text = "WARNING: infoROM is corrupted at gpu 0000:00:5A.0\n" + recorded("h100_healthy.xml")
    found = read("checks.probes.gpu.nvidia_smi_reading", text, ReadOptions())

    (doubt,) = found.unread
    assert "line 1 was not read" in doubt and "infoROM is corrupted" in doubt
    line = next(part for part in found.checks if part.check == "gpu.recovery_action").lines["recovery_action"]
    assert text.splitlines()[int(line.split(":")[0]) - 1].strip() in line


@pytest.mark.parametrize(
    "text",
    ["No devices were found\n", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
     "Failed to initialize NVML: Driver/library version mismatch\n"],
)  # fmt: skip
def test_the_tools_own_failure_is_no_health(text: str) -> None:
    """It is recognised, and nobody can tell."""
    assert nvidia_smi_reading.detect(text)
    with pytest.raises(Garbled, match="nvidia-smi failed"):
        nvidia_smi_reading.read(text, ReadOptions())


def test_no_gpu_at_all_cannot_be_judged() -> None:
    """A document of no GPUs is no healthy node."""
    head, _, rest = recorded("h100_healthy.xml").partition("\t<gpu ")
    text = head.replace("attached_gpus>1<", "attached_gpus>0<") + rest.partition("</gpu>\n")[2]

    with pytest.raises(Garbled, match="no GPU"):
        nvidia_smi_reading.read(text, ReadOptions())
