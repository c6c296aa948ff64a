"""What version 0.1.0 wrote is read by this version: reports, verdicts, records, requests, questions, jobs and leases.

tests/recordings/version_0_1_0/README.md says how the recordings were made.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from checks.documents.report import digest, dump_plain, load, load_node, plain
from checks.facts.builtin import builtin
from checks.judge.trend.trend import trend
from checks.judge.verdict import decide
from checks.model import Report
from checks.policy import Policy
from checks.policy import load as load_policy
from checks.value_types import DecodeError
from flows.cli.main import main
from tasks.gate.lease import lease as leases
from tasks.gate.lease.lease import FRESH_S, TTL_S, HeldLease, Lease, LeaseHeld
from tasks.gate.lease.owner import this_process
from tasks.gate.question import read_question
from tasks.gate_file.references import default_policy, read_policy
from tasks.gate_file.request import GateRequest
from tasks.launchers.base import JobState
from tasks.launchers.local.launcher import LocalLauncher
from tasks.reports.replay import ReplayResult, replay
from tasks.reports.trend import dated_of
from tasks.store import records
from tasks.store.folder import FolderStore
from tasks.store.history import listed, rebuild
from tasks.store.index import Index
from tasks.store.layout import report_key, request_key, verdict_key

RECORDING = Path(__file__).parents[1] / "recordings" / "version_0_1_0"
KILLED, WAITING = "killed-20261123-023024-cc9a", "asking-20261123-023618-b17e"
KILLED_RUN, WAITING_RUN = "0b5479c4-a5d4-4a68-8736-30638cc08e9f", "9311e478-e429-4b41-9367-b52673e80e6f"
# Gate -> what its policy had in place of the shipped one's words.
JUDGED = {
    "passed-20261123-022625-97ec": {},
    "refused-20261123-022903-8d49": {"fail_below = 1.0,": "fail_below = 1e7,"},
    "asking-20261123-022926-35b2": {"fail_below = 1.0,": "warn_below = 1e7,", 'on_warn = "go"': 'on_warn = "ask"'},
    WAITING: {"fail_below = 1.0,": "warn_below = 1e7,", 'on_warn = "go"': 'on_warn = "ask"'},
}  # fmt: skip
# This version refuses a line without rules; 0.1.0's policy had one.
BARE = '[checks."network.names"]\nscope = "node"\n'
RULE = 'rules = [{ metric = "names", fail_below = 1, cause = "EVIDENCE", source = "a test" }]\n'


def shipped(report: Report) -> Policy:
    """The shipped policy of the type."""
    return default_policy(report.declared.instance_type)[1]


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    """A copy of the store that 0.1.0 left."""
    shutil.copytree(RECORDING / "store", tmp_path / "store")
    return FolderStore(tmp_path / "store")


def policy_file(folder: Path, gate_id: str = "passed-20261123-022625-97ec") -> Path:
    """The policy that the gate was judged by, with a rule where this version wants one."""
    text = (RECORDING / "site" / "policy.toml").read_text()
    assert text.count(BARE) == 1
    text = text.replace(BARE, BARE + RULE)
    for old, new in JUDGED[gate_id].items():
        assert text.count(old) >= 1
        where = text.index('"gflops"') if "below" in old else 0
        text = text[:where] + text[where:].replace(old, new, 1)
    file = folder / f"{gate_id}.toml"
    file.write_text(text)
    return file


def policy_of(folder: Path, gate_id: str) -> Policy:
    """The same, read."""
    return read_policy(policy_file(folder, gate_id))


@pytest.mark.parametrize("gate_id", JUDGED)
def test_a_report_is_judged_as_it_was(gate_id: str, store: FolderStore, tmp_path: Path) -> None:
    """By the policy of then, the answer, the level and every finding are those that 0.1.0 kept; sentences are free."""
    data, kept = store.get(report_key(gate_id)), store.get(verdict_key(gate_id))
    assert data is not None and kept is not None
    before = records.load(kept)

    after = decide(load(data), policy_of(tmp_path, gate_id), builtin(), report_digest=digest(data))

    found = records.of(after)
    assert (before.answer, before.level, before.condemned) == (found.answer, found.level, found.condemned)
    assert [replace(f, message="") for f in before.findings] == [
        replace(f, message="", metric="", is_predicate=False) for f in found.findings
    ]
    assert before.digests.report == found.digests.report


@pytest.mark.parametrize(("gate_id", "code"), [*zip(JUDGED, (0, 1, 1, 1), strict=True)])
def test_prelaunch_judge_reads_a_report(
    gate_id: str, code: int, store: FolderStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command ends with the exit code of the answer that was given then."""
    file = policy_file(tmp_path, gate_id)

    assert (
        main(["judge", store.place(report_key(gate_id)), "--policy", str(file), "--format", "json"]) == code
    )

    before = json.loads(store.get(verdict_key(gate_id)) or b"")
    assert json.loads(capsys.readouterr().out)["answer"] == before["answer"]


def test_a_policy_line_without_rules_is_refused_with_what_to_do() -> None:
    """0.1.0 accepted one, and shipped one: a check that nothing was required of passed whatever it measured."""
    with pytest.raises(DecodeError, match=r"the entry of network\.names has no rules.*Add at least one rule"):
        load_policy(tomllib.loads((RECORDING / "site" / "policy.toml").read_text()))


def test_replay_compares_every_verdict(store: FolderStore, tmp_path: Path) -> None:
    """Under the policy of the gate that passed, it stays what it was, and no verdict is left uncompared."""
    policy = policy_of(tmp_path, "passed-20261123-022625-97ec")

    found = {one.gate_id: one.fate for one in replay(store, policy, builtin(), None)}

    assert found.keys() == JUDGED.keys()
    assert found.pop("passed-20261123-022625-97ec") is ReplayResult.SAME
    assert set(found.values()) == {ReplayResult.CHANGED}


def test_the_history_is_whole_and_the_index_is_made_anew(store: FolderStore, tmp_path: Path) -> None:
    """Every record is listed, and an index of the store alone holds the same rows."""
    index = Index("", tmp_path / "index.sqlite")
    before = listed(store, index)
    assert ([record.gate_id for record in before.records], before.problems) == (list(JUDGED), ())

    done = rebuild(store, index, shipped)
    assert (
        done
        == dataclasses.replace(done, rows=4, made=(), problems=(), with_nodes=4)
        == rebuild(store, index, shipped)
    )
    assert listed(store, index) == before


def test_records_are_made_anew_from_reports_and_verdicts(store: FolderStore, tmp_path: Path) -> None:
    """What the record of 0.1.0 said of answer, level, finding and digests is found again; how a subject is written is free."""
    was = [records.read(store, gate_id) for gate_id in JUDGED]
    shutil.rmtree(tmp_path / "store" / "records")

    rebuild(store, Index("", tmp_path / "index.sqlite"), shipped)

    again = [records.read(store, gate_id) for gate_id in JUDGED]

    def told(record: records.Record | None) -> tuple[object, ...]:
        assert record is not None
        # "FAIL node-0/rank-0: compute.gemm: gflops is 101.6, below 1e+07": the level, and what was measured.
        level, said = record.finding.partition(" ")[0], record.finding.rpartition(": ")[2]
        return record.answer, record.level, level, said, record.digests, record.report

    facts = list(map(told, was))
    assert facts == list(map(told, again))
    assert len(facts) == 4


def test_a_trend_reads_the_reports(store: FolderStore, tmp_path: Path) -> None:
    """All four are dated reports of the same two machines."""
    dated, bad = dated_of(
        [store.place(report_key(gate_id)) for gate_id in JUDGED], policy_of(tmp_path, WAITING)
    )

    assert (len(dated), bad) == (4, [])
    assert {machine.name for machine in trend(dated).machines} >= {"node-0", "node-1"}


@pytest.mark.parametrize("gate_id", (*JUDGED, KILLED))
def test_a_request_is_read(gate_id: str, store: FolderStore) -> None:
    """It names the gate file; what is not part of a request is the flow run."""
    table = json.loads(store.get(request_key(gate_id)) or b"")
    run = table.pop("flow_run")

    request = GateRequest.model_validate(table)

    assert request.gate_file == f"/srv/prelaunch/site/{gate_id.partition('-')[0]}.toml"
    assert len(run) == 36


def test_a_question_is_read(store: FolderStore) -> None:
    """Its answer counts until the same deadline as the lease says."""
    held = leases.lease_of_run(store, WAITING_RUN)
    assert held is not None and held.lease.asking is not None

    question = read_question(store, WAITING, held.lease.asking.key)

    assert question is not None
    assert (question.flow_run_id, question.deadline) == (WAITING_RUN, held.lease.asking.deadline)


def test_the_job_of_a_killed_gate_is_seen(store: FolderStore, tmp_path: Path) -> None:
    """It ended without its gate; what its nodes reported is fetched and read."""
    launcher, job = LocalLauncher(tmp_path / "store" / "clusters" / "killed"), f"{KILLED}-check-1"

    status = launcher.state(job)
    launcher.fetch(job, tmp_path / "fetched")

    assert (status.state, status.exit_codes) == (JobState.SUCCEEDED, {"node-0": 0, "node-1": 0})
    reports = [load_node(file.read_bytes()) for file in sorted((tmp_path / "fetched").rglob("nodes/*.json"))]
    assert [(report.gate_id, report.node.name, report.node.complete) for report in reports] == [
        (KILLED, "node-0", True),
        (KILLED, "node-1", True),
    ]


def test_a_job_whose_machine_restarted_has_failed(store: FolderStore, tmp_path: Path) -> None:
    """Nothing is left of the processes that 0.1.0 started: nobody waits for them."""
    folder = tmp_path / "store" / "clusters" / "killed" / "jobs" / f"{KILLED}-check-1"
    state = json.loads((folder / "state.json").read_bytes())
    (folder / "state.json").write_text(json.dumps({**state, "state": "running", "exit_codes": {}}))

    assert (
        LocalLauncher(tmp_path / "store" / "clusters" / "killed").state(folder.name).state is JobState.FAILED
    )


def killed_lease(store: FolderStore) -> Lease:
    """The lease of the gate that was killed."""
    held = leases.lease_of_run(store, KILLED_RUN)
    assert held is not None
    return held.lease


def take(store: FolderStore, wanted: Lease, running: tuple[str, ...] = ()) -> tuple[HeldLease, list[str]]:
    """The cluster for a new gate, where these jobs run; also, the gates whose jobs were ended."""
    ended: list[str] = []

    def end(lease: Lease) -> None:
        ended.append(lease.gate_id)

    def runs(lease: Lease) -> tuple[str, ...]:
        return tuple(job for job in lease.jobs if job in running)

    return leases.acquire(store, wanted, runs, end), ended


def wanted_after(lease: Lease, seconds: float, **changes: object) -> Lease:
    """The lease that a gate of this version asks for, so long after the other one was last renewed."""
    now = lease.renewed_at + seconds
    fields = {
        "gate_id": "new-1", "digest": "of this version", "owner": this_process(),
        "taken_at": now, "renewed_at": now, "expires_at": now + TTL_S,
        "asking": None, **changes,
    }  # fmt: skip
    return dataclasses.replace(lease, **fields)  # type: ignore[arg-type]


def test_a_lease_that_may_be_alive_is_refused_by_name(store: FolderStore) -> None:
    """Another machine's process cannot be looked at: until its time is up the message says who holds the cluster."""
    holder = killed_lease(store)

    with pytest.raises(
        LeaseHeld,
        match=rf"cluster killed is locked by gate {KILLED} \(killed.toml, process 9821 on gate-host",
    ):
        take(store, wanted_after(holder, TTL_S - 1))


def test_the_checks_of_a_killed_gate_are_ended_and_begun_anew(store: FolderStore) -> None:
    """What a gate measures depends on its version, so that the checks of 0.1.0 are no evidence for a gate of this one."""
    holder = killed_lease(store)

    held, ended = take(store, wanted_after(holder, TTL_S + 1), running=(holder.job(leases.CHECK),))

    assert (held.lease.gate_id, held.lease.adopted, ended) == ("new-1", False, [KILLED])
    assert leases.lease_of_run(store, KILLED_RUN) is None


def test_the_training_of_a_killed_gate_is_neither_ended_nor_doubled(store: FolderStore) -> None:
    """An upgrade alone makes it another gate, so the message does not promise that the same file adopts the job."""
    holder = killed_lease(store)
    job = holder.job(leases.TRAIN)
    assert job == f"{KILLED}-train-1"

    with pytest.raises(LeaseHeld) as refused:
        take(store, wanted_after(holder, TTL_S + 1), running=(job,))

    assert f"its job {job} still runs" in str(refused.value)
    assert "with the version of Prelaunch that started it" in str(refused.value)
    assert "end the job" in str(refused.value)


def test_the_same_gate_adopts_what_was_left(store: FolderStore) -> None:
    """The lease of 0.1.0 is taken over as it is: gate id and names of jobs stay."""
    holder = killed_lease(store)

    held, ended = take(store, wanted_after(holder, FRESH_S - 1, digest=holder.digest))

    assert (held.lease.gate_id, held.lease.adopted, ended) == (KILLED, True, [])
    assert held.lease.jobs == (f"{KILLED}-check-1", f"{KILLED}-train-1")


def test_a_question_of_version_0_1_0_keeps_its_cluster(store: FolderStore) -> None:
    """A new gate is refused until the time is up, and told which run waits; then the jobs are ended."""
    held = leases.lease_of_run(store, WAITING_RUN)
    assert held is not None and held.lease.asking is not None
    until = held.lease.asking.until - held.lease.renewed_at

    with pytest.raises(
        LeaseHeld,
        match=rf"locked by gate {WAITING} .*: flow run {WAITING_RUN} waits for approval until 2026",
    ):
        take(store, wanted_after(held.lease, until - 1))

    taken, ended = take(store, wanted_after(held.lease, until + 1))
    assert (taken.lease.gate_id, ended) == ("new-1", [WAITING])


@pytest.mark.parametrize("name", ["killed", "asking"])
def test_a_lease_is_written_as_it_was_read(name: str, store: FolderStore) -> None:
    """Nothing that 0.1.0 wrote is lost; what this version adds has the value that means the same."""
    data = store.get(f"leases/{name}.json")
    assert data is not None
    before = json.loads(data)
    held = leases.lease_of_run(store, before["owner"]["flow_run_id"])
    assert held is not None

    assert before.items() <= json.loads(dump_plain(plain(held.lease))).items()
