"""Parses what `fi_info` prints into endpoints, and says what it means if `fi_info` fails (pure).

Three generations of libfabric print one EFA device as one block (RDM), as two (RDM and DGRAM), or as three
(efa-direct as well), so devices are counted by distinct domains and never by blocks. Every block has the same six lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from checks.check import CheckError

FIELDS = ("provider", "fabric", "domain", "version", "type", "protocol")
RDM_SUFFIX = "-rdm"
_FIELD = re.compile(rf"^\s*({'|'.join(FIELDS)}):\s*(\S.*?)\s*$")
_BEGUN = re.compile(rf"^\s*({'|'.join(FIELDS)})\b")
_FAILED = re.compile(r"fi_getinfo(?:\(\))?:[^\n]*?(-\d+)\b")
NO_DATA = 61  # ENODATA: libfabric's answer where no provider fits what was asked for


@dataclass(frozen=True)
class EfaEndpoint:
    """One block; `line` is the number of its first line."""

    provider: str
    fabric: str
    domain: str
    version: str
    type: str
    protocol: str
    line: int


def parse(text: str) -> tuple[EfaEndpoint, ...]:
    """The blocks in order. Raises CheckError for a block that is cut or garbled, and for no block at all."""
    fields: list[tuple[int, str, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if match := _FIELD.match(line):
            fields.append((number, match[1], match[2]))
        elif _BEGUN.match(line):
            message = f"line {number} of fi_info's output is truncated or garbled: {line.strip()!r:.80}"
            raise CheckError(message)
    if not fields:
        raise CheckError("fi_info printed no endpoint")
    return tuple(_endpoint(fields[at : at + len(FIELDS)]) for at in range(0, len(fields), len(FIELDS)))


def _endpoint(block: Sequence[tuple[int, str, str]]) -> EfaEndpoint:
    names, first = tuple(name for _, name, _ in block), block[0][0]
    if names != FIELDS:
        message = f"the block at line {first} of fi_info's output is truncated: it has {', '.join(names)}"
        raise CheckError(message)
    endpoint = EfaEndpoint(**{name: value for _, name, value in block}, line=first)
    if not re.fullmatch(r"\d+\.\d+", endpoint.version) or not endpoint.protocol.startswith("FI_PROTO_"):
        raise CheckError(f"the block at line {first} of fi_info's output is garbled")
    if endpoint.type not in ("FI_EP_RDM", "FI_EP_DGRAM", "FI_EP_MSG"):
        message = f"the block at line {first} of fi_info's output has an endpoint of type {endpoint.type:.40}"
        raise CheckError(message)
    return endpoint


def domains(endpoints: Sequence[EfaEndpoint], provider: str) -> tuple[str, ...]:
    """The distinct domains with a reliable-datagram endpoint of the provider; for EFA one is one device."""
    mine = [e.domain for e in endpoints if of_provider(e, provider) and e.type == "FI_EP_RDM"]
    return tuple(dict.fromkeys([name for name in mine if provider != "efa" or name.endswith(RDM_SUFFIX)]))


def of_provider(endpoint: EfaEndpoint, provider: str) -> bool:
    """Whether the endpoint is the provider's, layered or not ("tcp;ofi_rxm" is tcp's)."""
    return provider in endpoint.provider.split(";")


def without_layers(endpoints: Sequence[EfaEndpoint]) -> tuple[EfaEndpoint, ...]:
    """The endpoints without those of a utility provider ("efa;ofi_rxd") over a core provider that is listed itself."""
    core = {e.provider for e in endpoints}
    return tuple(e for e in endpoints if ";" not in e.provider or e.provider.partition(";")[0] not in core)


def device_of(domain: str) -> str:
    """The device's own name: rdmap47s0 for rdmap47s0-rdm."""
    return re.sub(r"-(rdm|dgrm)$", "", domain)


def unlike(endpoints: Sequence[EfaEndpoint], provider: str) -> tuple[str, ...]:
    """Devices whose blocks are others than most devices have: the output lacks some, or the devices differ."""
    shapes: dict[str, list[str]] = {}
    for e in endpoints:
        if of_provider(e, provider):
            shape = f"{e.fabric if e.fabric in ('efa', 'efa-direct') else ''} {e.type} {e.version}"
            shapes.setdefault(device_of(e.domain), []).append(shape)
    kinds = [tuple(sorted(shape)) for shape in shapes.values()]
    usual = max(kinds, key=lambda form: (kinds.count(form), len(form)), default=())
    return tuple(name for name, shape in shapes.items() if tuple(sorted(shape)) != usual)


def failure(text: str) -> int | None:
    """The error number of a failed fi_getinfo (61 for "-61"), or None."""
    match = _FAILED.search(text)
    return abs(int(match.group(1))) if match else None


def meaning(number: int, provider: str) -> str:
    """What an error number of fi_getinfo means, for people."""
    if number == NO_DATA:
        return f"fi_getinfo -61: none is attached, its driver is not loaded, or libfabric was built without {provider}"
    return f"fi_getinfo -{number}: libfabric could not look for {provider} devices"
