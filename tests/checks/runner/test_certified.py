"""What a node knows of the time before a gate, and which checks it skips because of that."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from checks import bundle as bundles
from checks.bundle import Bundle
from checks.documents.certificates import Certificate, Certificates, MachineState, WatchRecord, load
from checks.documents.report import digest, dump_plain
from checks.facts.builtin import builtin
from checks.judge.certificates.decision import is_sampled, machine_digest, terms_of
from checks.model import Outcome, Profile, Skip
from checks.policy import Policy
from checks.probes.host import system
from checks.process import machine_state
from checks.process.machine_state import FINDINGS, VARIABLE, keep_record
from checks.runner import node_run
from checks.runner.node_context import certified_checks, known_before
from checks.runner.single_node import declare, read_policy
from checks.version import ENGINE
from tests.checks.local_policy import lone_node

DECLARED = declare("cpu", 1, builtin())


def policy() -> Policy:
    """The shipped policy, in which the disk may be certified for a day."""
    shipped = read_policy(None, DECLARED, announced=False)
    line = replace(shipped.checks["disk.io"], valid_for=24.0)
    return replace(shipped, checks={**shipped.checks, "disk.io": line})


@pytest.fixture(autouse=True)
def _started_ten_days_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine of these tests started ten days ago, whenever the one that runs them did."""
    clock = machine_state.boot_s
    monkeypatch.setattr(machine_state, "boot_s", lambda: clock() + 864_000.0)


def record(since_s: float = 7200.0, due_s: float = 60.0) -> WatchRecord:
    """A record that began so long ago, with a round that is due in so many seconds."""
    now, boot = time.time(), machine_state.boot_s()
    identity = system.identity_of_node()
    return WatchRecord(
        identity["boot_id"], "cpu", digest(dump_plain(policy())), builtin().digest, ENGINE, 60.0, 100,
        now - since_s, boot - since_s, now - 0.01, boot - 0.01, boot + due_s,
    )  # fmt: skip


def bundle(*gates: str) -> Bundle:
    """A gate that offers a certificate of the first of these gates for this machine, and knows the others."""
    made = bundles.make("now-1", DECLARED, Profile.STANDARD, policy(), builtin())
    terms = terms_of("now-1", policy(), builtin().digest, made.catalogue, Profile.STANDARD, DECLARED)
    offered = tuple(
        Certificate(
            machine_digest(system.identity_of_node()), gate, "a" * 64, terms.conditions, time.time() - 3600.0,
            machine_state.boot_s() - 3600.0, {"disk.io": 20.0}, gates[1:],
        )
        for gate in gates[:1]
    )  # fmt: skip
    return replace(made, certificates=Certificates(certificates=offered))


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state of a machine that is watched, and on which one gate began."""
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / FINDINGS).write_text("{}")
    monkeypatch.setenv(VARIABLE, str(folder))
    machine_state.begin_gate(folder, "first")
    return folder


def skipped(folder: Path, made: Bundle) -> set[str]:
    """The checks that the node skips."""
    alone = lone_node(folder, made)
    node = node_run.first_report(alone, "one").node
    found = certified_checks(alone, node)
    rows = list(node_run._as_skipped("node-0", found.values()))
    assert {(Outcome.SKIPPED, Skip.CERTIFIED)} >= {(row.outcome, row.skip) for row in rows}
    return {row.check for row in rows}


def unsampled(made: Bundle) -> Bundle:
    """The same gate under an id with which the check is not in its sample."""
    machine = machine_digest(system.identity_of_node())
    names = (f"now-{number}" for number in range(99))
    return replace(made, gate_id=next(name for name in names if not is_sampled(name, machine, "disk.io")))


def test_a_node_skips_what_is_certified_and_nothing_else(tmp_path: Path, state: Path) -> None:
    keep_record(state, record())

    assert {"disk.io"} == skipped(tmp_path, unsampled(bundle("first")))


def test_a_node_that_knows_of_another_gate_skips_nothing(tmp_path: Path, state: Path) -> None:
    keep_record(state, record())
    machine_state.begin_gate(state, "node-1234")

    assert set() == skipped(tmp_path, unsampled(bundle("first")))


@pytest.mark.parametrize("text", ["", "{", '{"schema_version": 2}'])
def test_a_record_or_list_of_gates_that_cannot_be_read_makes_it_measure(
    tmp_path: Path, state: Path, text: str
) -> None:
    for name in (machine_state.RECORD, machine_state.GATES):
        keep_record(state, record())
        (state / name).write_text(text)
        assert set() == skipped(tmp_path, unsampled(bundle("first")))


def test_without_offers_or_without_valid_for_nothing_is_read_into_the_report(
    tmp_path: Path, state: Path
) -> None:
    keep_record(state, record())
    shipped = read_policy(None, DECLARED, announced=False)
    plain = bundles.make("now-1", DECLARED, Profile.STANDARD, shipped, builtin())

    assert set() == skipped(tmp_path, bundle())
    assert "" == known_before(state, plain)


def test_only_a_gate_that_may_skip_says_that_it_cannot_use_what_the_machine_knows(
    state: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """As for a user who may not write there. Every other gate would say it on every node, though nothing changes for it."""
    (state / f".{machine_state.GATES}.lock").unlink()
    (state / f".{machine_state.GATES}.lock").mkdir()
    plain = bundle("first")
    lines = {name: replace(line, valid_for=0.0) for name, line in plain.policy.checks.items()}
    plain = replace(plain, policy=replace(plain.policy, checks=lines))

    assert ("", "") == (known_before(state, plain), capfd.readouterr().err)
    assert "" == known_before(state, bundle("first"))
    assert "what this machine knows is not used" in capfd.readouterr().err


def test_while_a_round_is_overdue_nothing_is_skipped(state: Path, tmp_path: Path) -> None:
    keep_record(state, record(due_s=-1.0))

    assert set() == skipped(tmp_path, unsampled(bundle("first")))
    assert load(MachineState, known_before(state, bundle("first"))).record is not None
