"""The parser of fi_info: blocks, devices, failures."""

from __future__ import annotations

import pytest

from checks.probes.efa import fi_info
from tests.corpus.efa_cases import recording
from tests.fakes.fabric import endpoints

NAMES = ["rdmap79s0", "rdmap80s0", "rdmap81s0"]


def test_another_provider_is_no_efa_device() -> None:
    """Output of tcp counts none for efa, and layered tcp counts for tcp."""
    found = fi_info.parse(recording("fi_info_tcp.txt"))

    assert () == fi_info.domains(found, "efa")
    assert ("eth0", "lo") == fi_info.domains(found, "tcp")


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
