"""`prelaunch explain` on what fi_info and fi_pingpong printed elsewhere."""

from __future__ import annotations

import pytest

from checks.explain.reading import OutputKind, ReadOptions
from checks.model import Answer
from checks.probes.efa import fi_info, libfabric_reading
from tests.corpus.case import declared
from tests.corpus.efa_cases import recording
from tests.corpus.judging import explained
from tests.fakes.fabric import TABLE, endpoints

COMMAND = "$ fi_pingpong -e rdm -p efa 10.1.2.3\n"


def test_the_devices_stand_on_the_lines_that_name_them() -> None:
    """One device, three endpoints."""
    found = libfabric_reading.read(endpoints(["rdmap1s0"], 3), ReadOptions())

    assert (OutputKind.FI_INFO, 1) == (found.output_kind, found.checks[0].metrics["rdm_domains"])
    assert "3:     domain: rdmap1s0-rdm" in found.checks[0].lines["rdm_domains"]


def test_the_failure_stands_on_its_line() -> None:
    """-61 is a finding, not an unreadable file."""
    found = libfabric_reading.read(recording("fi_info_none_2_x.txt"), ReadOptions())

    assert "2: fi_getinfo(): -61 (No data available)" == found.checks[0].lines["failure"]


def test_a_table_does_not_say_over_what_it_ran() -> None:
    """tcp prints the same: without the command nobody can tell."""
    assert libfabric_reading.read(TABLE, ReadOptions()).unread
    assert not libfabric_reading.read(COMMAND + TABLE, ReadOptions()).unread


def test_a_run_on_one_host_may_have_gone_through_shared_memory() -> None:
    """The installer's own test is one."""
    text = recording("fi_pingpong_localhost.txt")

    assert any("shared memory" in why for why in libfabric_reading.read(COMMAND + text, ReadOptions()).unread)


def test_pingpong_rate_above_the_device_rate_is_unread() -> None:
    """14.8 GB/s on a device of 100 Gbit/s."""
    text = COMMAND + recording("fi_pingpong_localhost.txt").replace("Localhost", "A")

    asked = ReadOptions(declared("p4d.24xlarge"))
    assert any("12.5 GB/s" in why for why in libfabric_reading.read(text, asked).unread)


BLOCK = """provider: {1}
    fabric: efa
    domain: {0}-{2}
    version: 201.0
    type: FI_EP_{3}
    protocol: FI_PROTO_{4}
"""


def fi_info_of(*layers: str) -> str:
    """fi_info of 16 devices, each of the efa provider and of these layered ones."""
    blocks = [("efa", "rdm", "RDM", "EFA"), ("efa", "dgrm", "DGRAM", "EFA")] if "efa" in layers else []
    blocks += [(layer, "dgrm", "RDM", "RXD") for layer in layers if ";" in layer]
    return "".join(BLOCK.format(f"rdmap{number}s0", *block) for number in range(16) for block in blocks)


@pytest.mark.parametrize(
    ("layers", "answer"),
    [
        (("efa",), Answer.GO),
        (("efa", "efa;ofi_rxd"), Answer.GO),
        (("efa", "efa;ofi_rxm"), Answer.GO),
        (("efa", "efa;ofi_hook_noop"), Answer.GO),
        (("efa", "efa;ofi_rxd", "efa;ofi_mrail"), Answer.GO),
        (("efa;ofi_rxd",), Answer.NO_GO),
        (("efa", "tcp;ofi_rxm"), Answer.GO),
        (("udp;ofi_rxd",), Answer.NO_GO),
    ],
)
def test_a_layer_over_the_provider_is_not_another_provider(layers: tuple[str, ...], answer: Answer) -> None:
    """But a layer without the provider itself is. Without -p, fi_info lists every provider, which tells nothing against efa."""
    assert answer is explained(fi_info_of(*layers), declared("p5en.48xlarge")).answer


def test_a_device_that_only_a_layer_offers_is_missing() -> None:
    """15 devices of efa, and 16 of the layer."""
    text = fi_info_of("efa", "efa;ofi_rxd").replace("provider: efa\n", "provider: efa;ofi_rxd\n", 1)

    assert Answer.GO is not explained(text, declared("p5en.48xlarge")).answer


NAMES = ["rdmap79s0", "rdmap80s0", "rdmap81s0"]


def test_another_provider_is_no_efa_device() -> None:
    """Whether there is one is unknown, unless a type that has EFA is declared, and no command line asks for tcp alone."""
    text = recording("fi_info_tcp.txt")
    found = fi_info.parse(text)
    bare = text.partition("\n")[2]
    types = (None, declared("p4d.24xlarge"))
    answers = [explained(output, type_).answer for output in (text, bare) for type_ in types]

    assert [Answer.CANNOT_TELL] * 3 + [Answer.NO_GO] == answers
    assert ((), ("eth0", "lo")) == (fi_info.domains(found, "efa"), fi_info.domains(found, "tcp"))


def test_a_datagram_domain_is_no_device() -> None:
    """A device that offers only its dgrm domain cannot carry reliable messages."""
    text = endpoints(NAMES[:1]).replace("rdmap79s0-rdm", "rdmap79s0-dgrm").replace("FI_EP_RDM", "FI_EP_DGRAM")

    assert () == fi_info.domains(fi_info.parse(text), "efa")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("fi_getinfo: -61\n", 61),
        ("fi_getinfo(): -61 (No data available)\n", 61),
        ("fi_getinfo(): util/pingpong.c:1489, ret=-61 (No data available)\n", 61),
        ("fi_getinfo: -12\n", 12),
        ("provider: efa\n", None),
    ],
)
def test_every_form_of_the_failure_is_read(text: str, number: int | None) -> None:
    """Of fi_info 1.x, 2.x and fi_pingpong."""
    assert number == fi_info.failure(text)
