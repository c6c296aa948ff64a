"""Which refused gates are started again once their nodes were proven.

And the lock of a cluster's remediation.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tasks import remedy
from tasks.gate_file.model import NAME_FORM
from tasks.gate_file.read import GateFileError
from tasks.gate_file.request import GateRequest
from tasks.remediation.model import Reason
from tasks.remedy import RemedyRun, lock_name, start_again
from tasks.store.base import KEY
from tasks.store.layout import lease_key


@pytest.mark.parametrize(
    ("kept", "started"),
    [
        ("B:prod A:prod", ["B"]),
        ("A:prod B:prod", ["A"]),
        ("B:other A:prod", ["B", "A"]),
        ("C:prod B:prod A:prod", []),
        ("C:other B:prod A:prod", ["B"]),
        ("C:prod:elsewhere B:prod A:prod", ["B"]),
        ("no-launch:prod B:prod A:prod", ["B"]),
        ("B:silent A:prod", ["A"]),
        ("B:gone A:prod", ["A"]),
    ],
)
def test_only_the_newest_gate_of_a_gate_file_is_started_again(
    kept: str, started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A and B condemned the same node. A training never runs twice side by side, nor beside what its owner has launched meanwhile,
    and it is started only if its own gate file asks for that, whichever gate file the run of the remediation has.
    """
    rows = [(*row.split(":"), "c")[:3] for row in kept.split()]
    records = [
        SimpleNamespace(gate_id=gate_id, gate=name, cluster=cluster) for gate_id, name, cluster in rows
    ]
    monkeypatch.setattr(remedy, "newest_records", lambda store, problems: iter(records))
    names = {gate_id: name for gate_id, name, _ in rows}

    def read(path: Path, sets: object) -> Any:
        if path.name == "gone":
            raise GateFileError("gone", "", "there is no such file")
        return SimpleNamespace(remediation=SimpleNamespace(resume=path.name != "silent"))

    monkeypatch.setattr(remedy, "read_gate_file", read)
    monkeypatch.setattr(
        remedy,
        "kept_request",
        lambda store, gate_id: GateRequest(gate_file=names[gate_id], launch=gate_id != "no-launch"),
    )
    gate = SimpleNamespace(remediation=SimpleNamespace(resume=False), cluster=SimpleNamespace(name="c"))
    cases = [SimpleNamespace(gate_id=gate_id) for gate_id in ("A", "B")]
    work = SimpleNamespace(context=SimpleNamespace(gate=gate, store=None), cases=cases)
    reasons: list[str] = []

    async def run(request: GateRequest) -> Any:
        reasons.append(request.reason)

    asyncio.run(start_again(cast(RemedyRun, work), run, {"n1": Reason.PROVEN}))
    assert reasons == [f"again, after the repair for {gate_id}" for gate_id in started]


def test_the_lock_of_a_remediation_is_that_of_no_other_cluster() -> None:
    """No gate of a cluster has it, whatever its name, and no remediation of another cluster."""
    names = [lock_name(cluster) for cluster in ("p5", "a" * 62 + "b", "a" * 62 + "c")]
    assert 3 == len(set(names))
    assert not any(re.fullmatch(NAME_FORM, name) for name in names)
    assert all(KEY.fullmatch(lease_key(name)) for name in names)
