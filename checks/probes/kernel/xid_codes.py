"""Xid codes without their lines, as NVML and DCGM report them, and what each calls for. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from checks.model import Value
from checks.probes.kernel.xid_catalogue import Need, table
from checks.probes.kernel.xid_decision import alone
from checks.probes.kernel.xid_rows import WORDS

COUNTED = (Need.ACT, Need.SUPPORT, Need.APPLICATION, Need.UNKNOWN, Need.UNREAD)


def counts(codes: Sequence[Sequence[int]]) -> dict[str, Value]:
    """How many codes of each GPU call for what, with one metric for each of COUNTED.

    A code that only its line in the log explains (154, 144 to 150) counts as `unread`.
    """
    needs = [[alone(code, "").need for code in of_gpu] for of_gpu in codes]
    return {need.value: tuple(found.count(need) for found in needs) for need in COUNTED}


def account(codes: Sequence[Sequence[int]], labels: Sequence[str]) -> str:
    """One line for each code: "GPU 5: Xid 79 (GPU_HAS_FALLEN_OFF_THE_BUS) calls for a restart of the node"."""
    return "\n".join(
        f"{label}: {name_of(code)} calls for {WORDS[alone(code, '').action]}"
        for label, of_gpu in zip(labels, codes, strict=True)
        for code in of_gpu
    )


def name_of(code: int) -> str:
    """Such as "Xid 79 (GPU_HAS_FALLEN_OFF_THE_BUS)"."""
    row = table().get(code)
    return f"Xid {code} ({row.name})" if row else f"Xid {code}"
