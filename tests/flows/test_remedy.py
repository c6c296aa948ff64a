"""The flow and the command of remediation: fake nodes, real gates as re-tests, and machines that are a file."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows.cli.main import main
from tasks import remedy as remedies
from tasks.gate.outcome import Decision
from tasks.gate_file.request import RemedyRequest
from tasks.machines.base import EngineSilent, Machine, Rung
from tasks.remediation.model import Breaker
from tasks.remediation.records import Records
from tasks.store.folder import FolderStore
from tasks.store.records import RETEST_CLUSTER
from tests.flows.cli.conftest import Captured
from tests.flows.driving import gate_it
from tests.flows.fake_engine import Engine
from tests.flows.pools import engine_of, fake_gate
from tests.flows.two_machines import TwoMachines

pytestmark = pytest.mark.usefixtures("prefect_backend", "engine")
ACTS = '[remediation]\nmode = "act"\nmachines = "slurm"\nmax_out_fraction = 0.5\nwait_minutes = 1.0\n'
Refused = Callable[[Path], str]


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> TwoMachines:
    """The machines of every gate file."""
    made = TwoMachines()
    monkeypatch.setattr(remedies, "machines_of", lambda gate: made)
    return made


def gate_file(folder: Path, more: str = ACTS, policy: str = "") -> Path:
    """Two fake nodes."""
    path = fake_gate(folder, policy=policy)
    path.write_text(path.read_text() + more)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A gate file whose failed nodes are acted on."""
    return gate_file(tmp_path)


def remedy(path: Path, gate_id: str = "", open_only: bool = False) -> Any:
    """Run the flow for this gate file."""
    return run_flow(RemedyRequest(gate_file=str(path), gate_id=gate_id, open_only=open_only))


def run_flow(request: RemedyRequest) -> Any:
    """Run the flow to its end."""
    from flows.remedy import remedy as flow

    return asyncio.run(flow(request, return_state=True))  # type: ignore[arg-type]


def opened(path: Path, gate_id: str = "") -> Any:
    """The work of a process that died once its cases were open."""
    request = RemedyRequest(gate_file=str(path), gate_id=gate_id)
    work = remedies.open_work(request, "", lambda case, place: pytest.fail("nothing is tested"))
    remedies.open_cases(work)
    return work


def records(path: Path) -> Records:
    """What is kept."""
    return Records(FolderStore(path.parent / "store"), "test")


def refuse(path: Path, engine: Engine) -> str:
    """A gate that names node-1; from then on the nodes are healthy."""
    engine.parts = ["wrong"]
    outcome = gate_it(path)[1]
    assert Decision.REFUSED is outcome.decision, outcome.reason
    engine.parts = ["healthy"]
    return outcome.gate_id


@pytest.fixture(scope="module")
def refused_once(prefect_backend: object, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The store of such a gate, and the gate."""
    folder = tmp_path_factory.mktemp("refused")
    with pytest.MonkeyPatch.context() as patch:
        made = engine_of(folder, patch)
        return folder / "store", refuse(gate_file(folder), made)


@pytest.fixture
def refused(refused_once: tuple[Path, str]) -> Refused:
    """What the gate file at a path has in its store is that gate; the nodes are healthy."""
    store, gate_id = refused_once

    def keep(path: Path) -> str:
        shutil.copytree(store, path.parent / "store")
        return gate_id

    return keep


def test_a_finding_that_does_not_repeat_ends_with_the_node_in_service(
    path: Path, tmp_path: Path, refused: Refused, machines: TwoMachines, capsys: Captured
) -> None:
    """The re-test is a gate with a partner, below the remediation; it pages nobody, and its lock is its own. The command shows each
    act, and ends with 0 for a node that serves again, with 2 for what cannot be done.
    """
    gate_id = refused(path)
    capsys.readouterr()
    assert 0 == main(["repair", "run", str(path)])
    said = capsys.readouterr()
    kept = records(path)

    assert ["fence", "recheck", "return"] == [line.split()[1] for line in said.out.splitlines()[:-1]]
    assert "Repaired: node-1: it passed its re-test and was returned" == said.out.splitlines()[-1]
    assert "node-1: recheck" in said.err
    assert ["fence node-1", "open node-1 node-0", "free node-1"] == machines.calls
    assert ["fence", "recheck", "return"] == [act.rung.value for act in kept.acts()]
    assert {gate_id} == {act.gate_id for act in kept.acts()}
    assert () == kept.journal().cases
    again = next(act.gate for act in kept.acts() if act.rung is Rung.RECHECK)
    record = json.loads((tmp_path / "store" / "records" / f"{again}.json").read_text())
    assert ("go", "test") == (record["answer"], RETEST_CLUSTER.sub("", record["cluster"]))
    assert not (tmp_path / "store" / "pages" / f"{again}.txt").exists()
    assert not list((tmp_path / "store" / "leases").rglob("*.json"))
    assert 2 == main(["repair", "run", str(path), "--gate", "no-such-gate"])
    assert 2 == main(["repair", "run", str(tmp_path / "nothing.toml")])


@pytest.mark.usefixtures("without_prefect")
def test_a_finding_that_repeats_is_left_to_a_person(
    path: Path, tmp_path: Path, engine: Engine, refused: Refused, machines: TwoMachines
) -> None:
    """There is nothing that these machines could do: the node stays fenced, and one page says so."""
    gate_id = refused(path)
    engine.parts = ["wrong"]
    state = remedy(path)

    assert "NotRepaired" == state.name
    assert machines.mark is not None
    assert "free node-1" not in machines.calls
    assert "node-1 needs a person" in (tmp_path / "store" / "pages" / f"{gate_id}.txt").read_text()
    again = remedy(path, gate_id)
    assert ("Rejected", True) == (again.name, "was dealt with before" in again.message)
    assert machines.mark is not None


@pytest.mark.usefixtures("without_prefect")
def test_a_remediation_that_is_cancelled_ends_its_re_test_and_gives_its_lock_back(
    path: Path, tmp_path: Path, engine: Engine, refused: Refused, machines: TwoMachines
) -> None:
    """The node stays fenced, its re-test's jobs are gone, and the next run tests it again."""
    refused(path)
    engine.parts = ["hang"]

    async def cancelled() -> None:
        from flows.remedy import remedy as flow

        run = asyncio.ensure_future(flow(RemedyRequest(gate_file=str(path)), return_state=True))
        while not run.done() and (not engine.jobs or engine.idle):
            await asyncio.sleep(0.05)
        run.cancel()
        await asyncio.wait({run})
        assert run.done()

    asyncio.run(cancelled())
    assert (True, False) == (machines.mark is not None, machines.testing)
    assert ["fence", "recheck"] == [act.rung.value for act in records(path).acts()]
    assert not list((tmp_path / "store" / "leases").rglob("*.json"))
    assert engine.idle
    engine.parts = ["healthy"]
    assert "Repaired" == remedy(path).name


@pytest.mark.usefixtures("without_prefect")
def test_mode_plan_prints_the_steps_and_does_nothing(
    tmp_path: Path, refused: Refused, machines: TwoMachines, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default. No engine is asked: a worker without Slurm's commands would wait for it for hours."""
    path = gate_file(tmp_path, "")
    assert 2 == main(["repair", "run", str(path)]) and not (tmp_path / "store").exists()
    refused(path)
    capsys.readouterr()

    def by_name() -> dict[str, Machine]:
        raise EngineSilent("there is no scontrol here")

    monkeypatch.setattr(machines, "by_name", by_name)
    assert 0 == main(["repair", "run", str(path)])
    said = capsys.readouterr()
    head, how, *steps = said.out.splitlines()
    assert head.startswith("Take node-1 out of service and repair it in ") and "because gate " in head
    assert how.startswith("Do the steps in this order.")
    assert (
        "  1. Take the node out of service, so that no job starts on it (fence): type-fence node-1"
        == steps[0]
    )
    assert "return the node to service, and run the gate again (return): type-return node-1" in steps[-1]
    assert "nothing was done" in said.err
    assert 0 == main(["repair", "run", str(path), "--format", "json"])
    (case,) = json.loads(capsys.readouterr().out)["cases"]
    first, *_, last = case["steps"]
    assert ("node-1", "fence", "return") == (case["node"], first["rung"], last["rung"])
    assert [] == machines.calls
    assert () == records(path).journal().cases


@pytest.mark.usefixtures("without_prefect")
def test_the_gate_that_is_started_again_leaves_the_lock_to_the_next_remediation(
    tmp_path: Path, engine: Engine, machines: TwoMachines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its training may run for days. Of two gates of the file that condemned the same node, only the newer one is started."""
    path = gate_file(tmp_path, ACTS + "resume = true\n")
    opened(path, refuse(path, engine))
    newer = refuse(path, engine)
    held: list[bool] = []
    again = remedies.start_again

    async def started(*args: Any) -> None:
        held.append((tmp_path / "store" / "leases" / "test.remedy.json").exists())
        await again(*args)

    monkeypatch.setattr("flows.remedy.start_again", started)
    state = remedy(path, newer)
    files = (tmp_path / "store" / "gates").glob("*/outcome.json")
    ends = [json.loads(one.read_bytes())["decision"] for one in files]

    assert ("Repaired", [False]) == (state.name, held)
    assert 1 == ends.count("launched")


@pytest.mark.usefixtures("without_prefect")
def test_a_gate_that_condemned_nobody_or_only_observed_is_rejected(
    tmp_path: Path, engine: Engine, machines: TwoMachines
) -> None:
    """Whatever its verdict was."""
    observing = gate_file(tmp_path / "observing", ACTS, 'mode = "observe"')
    engine.parts = ["wrong"]
    observed = gate_it(observing)[1]
    assert Decision.OBSERVED is observed.decision
    state = remedy(observing, observed.gate_id)
    assert ("Rejected", True) == (state.name, "only observe" in state.message)

    path = gate_file(tmp_path / "healthy")
    engine.parts = ["healthy"]
    passed = gate_it(path)[1]
    assert "Rejected" == remedy(path, passed.gate_id).name
    assert "blames no machine" in remedy(path, passed.gate_id).message
    assert [] == machines.calls


@pytest.mark.usefixtures("without_prefect")
def test_a_healthy_cluster_needs_no_repair(
    tmp_path: Path, engine: Engine, machines: TwoMachines, capsys: Captured
) -> None:
    """No gate of it has condemned a machine, which is no error in any mode; without a gate, or a record of one, nobody knows that."""
    engine.parts = ["healthy"]
    said = "no gate of cluster test has condemned a machine, so there is nothing to repair"
    for mode, printed in ((ACTS, f"NothingToDo: {said}"), ("", said)):
        path = gate_file(tmp_path / str(len(mode)), mode)
        assert 2 == main(["repair", "run", str(path)]) and "holds no gate of" in capsys.readouterr().err
        gate_it(path)
        assert 0 == main(["repair", "run", str(path)])
        assert printed == capsys.readouterr().out.splitlines()[-1]
        FolderStore(path.parent / "store").put("records/test-20260101-000000-1616.json", b"{")
        assert 2 == main(["repair", "run", str(path)]) and "test-20260101" in capsys.readouterr().err
    assert [] == machines.calls


@pytest.mark.usefixtures("without_prefect")
def test_remedy_rejects_gates_it_does_not_act_on_with_the_reason(
    path: Path, tmp_path: Path, refused: Refused, machines: TwoMachines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gate of another cluster in the same store, which has a node of this name; an old verdict, of which nobody is paged again; one
    that would be another under today's policy; and a store that a deployment's form chooses, with verdicts and answers of its own.
    """
    gate_id = refused(path)
    page = tmp_path / "store" / "pages" / f"{gate_id}.txt"
    before = page.read_text()
    other, old = tmp_path / "other.toml", tmp_path / "old.toml"
    other.write_text(path.read_text().replace('[cluster]\nname = "test"', '[cluster]\nname = "other"'))
    old.write_text(path.read_text() + "max_verdict_minutes = 0.001\n")
    policy = tmp_path / "policy.toml"
    rules = policy.read_text()

    def rejected(file: Path) -> str:
        state = remedy(file, gate_id)
        assert "Rejected" == state.name
        return str(state.message)

    assert "is of cluster test" in rejected(other)
    assert "too old" in rejected(old)
    policy.write_text(rules.replace('on_warn = "go"', 'on_warn = "ask"'))
    assert "is judged differently now" in rejected(path)
    policy.write_text(rules)
    monkeypatch.setenv("PRELAUNCH_GATES", str(tmp_path))
    monkeypatch.setenv("PREFECT__RUNTIME__DEPLOYMENT__ID", "a-deployment")

    state = run_flow(RemedyRequest(gate_file="gate", store=str(tmp_path / "store")))
    assert ("Rejected", True) == (state.name, "cannot be chosen for a deployment" in state.message)
    assert (before, [], ()) == (page.read_text(), machines.calls, records(path).journal().cases)


@pytest.mark.usefixtures("without_prefect")
def test_remedy_runs_once_at_a_time_for_each_cluster(
    path: Path, tmp_path: Path, refused: Refused, machines: TwoMachines
) -> None:
    """Another process that lives holds the lock."""
    refused(path)
    work = opened(path)
    with remedies.remedy_lock(work, ""):
        held = json.loads((tmp_path / "store" / "leases" / "test.remedy.json").read_text())
        other = Path("/proc/1/stat").read_text().rpartition(")")[2].split()
        held["owner"] |= {"pid": 1, "start_ticks": int(other[19])}
        (tmp_path / "store" / "leases" / "test.remedy.json").write_text(json.dumps(held))
        state, scheduled = remedy(path), remedy(path, open_only=True)

    assert ("Rejected", True) == (state.name, "is locked by" in state.message)
    assert ("NothingToDo", True) == (scheduled.name, scheduled.is_completed())
    assert [] == machines.calls


@pytest.mark.usefixtures("without_prefect")
def test_a_person_closes_the_breaker_in_the_terminal(
    path: Path, refused: Refused, machines: TwoMachines, capsys: Captured
) -> None:
    """Who it was is kept, and what was judged before is not acted on."""
    refused(path)
    kept = records(path)
    assert 2 == main(["repair", "run", str(path), "--close-breaker"])
    kept.change(lambda journal: journal.__class__(1, "test", breaker=Breaker(opened_at=1.0)), 1.0)
    assert 0 == main(["repair", "run", str(path), "--close-breaker"])
    assert kept.journal().breaker.closed_by.endswith("(terminal)")
    state = remedy(path)

    assert "NotRepaired" == state.name
    assert "older than the moment at which repairs were allowed again" in state.message
    assert [] == machines.calls


def test_remedy_request_has_no_fields_of_the_terminal() -> None:
    """A form of Prefect could send it."""
    assert {"gate_file", "gate_id", "store", "open_only"} == set(RemedyRequest.model_fields)


def test_the_schedule_goes_on_with_what_was_interrupted_and_begins_nothing(
    path: Path, engine: Engine, machines: TwoMachines
) -> None:
    """The last refused gate is left to its own event, or to a person. A process died once its case was open, and the case is taken up,
    but not in mode plan.
    """
    refuse(path, engine)
    state = remedy(path, open_only=True)
    assert ("NothingToDo", True, []) == (state.name, state.is_completed(), machines.calls)
    assert ((), ()) == (records(path).journal().cases, records(path).acts())

    opened(path)
    acting = path.read_text()
    path.write_text(acting.replace('mode = "act"', 'mode = "plan"'))
    planned = remedy(path, open_only=True)
    assert ("Planned", []) == (planned.name, machines.calls)

    path.write_text(acting)
    assert "Repaired" == remedy(path, open_only=True).name
    assert ["fence node-1", "open node-1 node-0", "free node-1"] == machines.calls
    assert "NothingToDo" == remedy(path, open_only=True).name
