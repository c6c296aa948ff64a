"""`prelaunch explain` on what fi_info and fi_pingpong printed elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.check import CheckError
from checks.explain.reading import OutputKind, ReadOptions
from checks.model import Answer
from checks.probes.efa import libfabric_reading
from tests.corpus.case import declared
from tests.corpus.judging import explained
from tests.fakes.fabric import TABLE, endpoints

RECORDINGS = Path(__file__).parents[3] / "recordings" / "efa"
COMMAND = "$ fi_pingpong -e rdm -p efa 10.1.2.3\n"


def test_the_devices_stand_on_the_lines_that_name_them() -> None:
    """One device, three endpoints."""
    found = libfabric_reading.read(endpoints(["rdmap1s0"], 3), ReadOptions())

    assert (OutputKind.FI_INFO, 1) == (found.kind, found.parts[0].metrics["rdm_domains"])
    assert "3:     domain: rdmap1s0-rdm" in found.parts[0].lines["rdm_domains"]


def test_the_failure_stands_on_its_line() -> None:
    """-61 is a finding, not an unreadable file."""
    found = libfabric_reading.read((RECORDINGS / "fi_info_none_2_x.txt").read_text(), ReadOptions())

    assert "2: fi_getinfo(): -61 (No data available)" == found.parts[0].lines["failure"]


def test_a_table_does_not_say_over_what_it_ran() -> None:
    """tcp prints the same: without the command nobody can tell."""
    assert libfabric_reading.read(TABLE, ReadOptions()).unread
    assert not libfabric_reading.read(COMMAND + TABLE, ReadOptions()).unread


def test_a_run_on_one_host_may_have_gone_through_shared_memory() -> None:
    """The installer's own test is one."""
    text = (RECORDINGS / "fi_pingpong_localhost.txt").read_text()

    assert any("shared memory" in why for why in libfabric_reading.read(COMMAND + text, ReadOptions()).unread)


def test_pingpong_rate_above_the_device_rate_is_unread() -> None:
    """14.8 GB/s on a device of 100 Gbit/s."""
    text = COMMAND + (RECORDINGS / "fi_pingpong_localhost.txt").read_text().replace("Localhost", "A")

    assert any(
        "12.5 GB/s" in why
        for why in libfabric_reading.read(text, ReadOptions(declared("p4d.24xlarge"))).unread
    )


@pytest.mark.parametrize("text", [TABLE[:-40], endpoints(["rdmap1s0"])[:-40]])
def test_a_cut_is_broken(text: str) -> None:
    """It is recognised, and says where it breaks."""
    assert libfabric_reading.detect(text)
    with pytest.raises(CheckError):
        libfabric_reading.read(text, ReadOptions())


BLOCK = """provider: {provider}
    fabric: efa
    domain: {device}-{kind}
    version: 201.0
    type: FI_EP_{type}
    protocol: FI_PROTO_{protocol}
"""


def fi_info_of(*layers: str) -> str:
    """fi_info of 16 devices, each of the efa provider and of these layered ones."""
    text = ""
    for device in (f"rdmap{number}s0" for number in range(16)):
        if "efa" in layers:
            text += BLOCK.format(provider="efa", device=device, kind="rdm", type="RDM", protocol="EFA")
            text += BLOCK.format(provider="efa", device=device, kind="dgrm", type="DGRAM", protocol="EFA")
        for layer in layers:
            if ";" in layer:
                text += BLOCK.format(provider=layer, device=device, kind="dgrm", type="RDM", protocol="RXD")
    return text


@pytest.mark.parametrize(
    ("layers", "answer"),
    [
        (("efa",), Answer.GO),
        (("efa", "efa;ofi_rxd"), Answer.GO),
        (("efa", "efa;ofi_rxm"), Answer.GO),
        (("efa", "efa;ofi_hook_noop"), Answer.GO),
        (("efa", "efa;ofi_rxd", "efa;ofi_mrail"), Answer.GO),
        (("efa;ofi_rxd",), Answer.NO_GO),
        (("efa", "tcp;ofi_rxm"), Answer.NO_GO),
        (("efa", "udp;ofi_rxd"), Answer.NO_GO),
    ],
)
def test_a_layer_over_the_devices_provider_is_not_another_provider(
    layers: tuple[str, ...], answer: Answer
) -> None:
    """But a layer without the provider itself is, and so is a layer over another one."""
    assert answer is explained(fi_info_of(*layers), declared("p5en.48xlarge")).answer


def test_a_device_that_only_a_layer_offers_is_missing() -> None:
    """15 devices of efa, and 16 of the layer."""
    text = fi_info_of("efa", "efa;ofi_rxd").replace("provider: efa\n", "provider: efa;ofi_rxd\n", 1)

    assert Answer.GO is not explained(text, declared("p5en.48xlarge")).answer
