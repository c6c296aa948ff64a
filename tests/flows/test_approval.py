"""A person's word: who is asked about what, whose answer counts, and what is recorded of it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from prefect.exceptions import Pause

from checks.documents.answer import AnswerWord
from tasks import approve as asking
from tasks.gate.approval import wait
from tasks.gate.context import open_gate_context
from tasks.gate.outcome import Decision, GateOutcome
from tasks.gate.question import ApprovalAction, ApprovalAnswer, Question, standing_answer
from tasks.gate.record.end import kept_ends
from tasks.gate_file.read import GateFileError
from tasks.launchers.base import Placement
from tasks.store.folder import FolderStore
from tasks.store.history import listed
from tests.flows.answering import answered, asked, by_slack, form, paused
from tests.flows.driving import gate_it, kept, page, request_of, run
from tests.flows.fake_engine import Engine
from tests.flows.pools import fake_gate
from tests.tasks.sessions import answer, session

pytestmark = pytest.mark.usefixtures("prefect_backend", "play")
ADA, BOB = "U0ADA", "U0BOB"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "POLL_S", 0.1)


def gate_file(folder: Path, approval: str = "", on_warn: str = "ask", **more: Any) -> Path:
    """A gate file with a table [approval]; a FAIL is put to a person where `approval` says so."""
    path = fake_gate(folder, on_warn=on_warn, **more)
    said = f'[approval]\napprovers = ["{ADA}"]\noverriders = ["{BOB}"]\n{approval}\n'
    path.write_text(path.read_text() + said)
    return path


async def with_slack(path: Path, user: str, action: ApprovalAction, given: dict[str, str]) -> GateOutcome:
    """Run the gate; `user` presses a button, and then the form brings `given`."""
    from prefect.flow_runs import aresume_flow_run

    running = asyncio.create_task(run(request_of(path, ask_minutes=1)))
    flow_run = await paused(running, path)
    (question,) = asked(path.parent / "store")
    assert by_slack(path.parent / "store", question, user, action)
    await aresume_flow_run(flow_run.id, run_input=given)
    return (await running)[1]


def test_approval_records_who_answered_when_and_why(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an approved WARN: the form's name is unverified, the reason stands in the outcome and in the gate's. It is no PASS for the
    next gate: a person's word is for one run. Whoever takes the gate over after the answer goes by it, and asks nobody.
    """
    engine.parts = ["warn"]
    answers: list[ApprovalAnswer | None] = []
    ask = asking.ask_for_approval

    async def twice(*given: Any) -> ApprovalAnswer | None:
        answers.extend([await ask(*given), await ask(*given)])
        return answers[-1]

    monkeypatch.setattr("flows.gate.ask_for_approval", twice)
    path = gate_file(tmp_path, policy="reuse_pass_minutes = 60")

    outcome = answered(request_of(path, ask_minutes=1), "launch-anyway")

    said = kept(tmp_path, outcome)["approval"]
    known = {"action": "launch-anyway", "who": "Ada", "via": "prefect", "verified": False}
    assert {**known, "override": False, "note": ""}.items() <= said.items()
    (question,) = asked(tmp_path / "store")
    assert question.asked_at < said["at"] < question.deadline and said["key"] == question.key
    assert Decision.LAUNCHED is outcome.decision
    assert "approved by Ada (Prefect's form, unverified): the run is short" in outcome.reason
    assert not list((tmp_path / "store" / "passes").glob("*"))
    assert answers[0] == answers[1] is not None


def test_the_form_wants_a_reason_to_launch(tmp_path: Path, engine: Engine) -> None:
    """The server refuses it without one, and the run waits on."""
    engine.parts = ["warn"]

    async def try_it() -> tuple[str, GateOutcome]:
        from prefect.flow_runs import aresume_flow_run

        path = gate_file(tmp_path)
        running = asyncio.create_task(run(request_of(path, ask_minutes=1)))
        flow_run = await paused(running, path)
        with pytest.raises(RuntimeError) as refused:
            await aresume_flow_run(flow_run.id, run_input=form("launch-anyway", "ok"))
        await aresume_flow_run(flow_run.id, run_input=form("block", ""))
        return str(refused.value), (await running)[1]

    said, outcome = asyncio.run(try_it())

    assert "reason" in said
    assert Decision.REFUSED is outcome.decision
    assert outcome.reason.startswith("Ada (Prefect's form, unverified) refused; node-1, rank 3 computes")


def test_approval_without_an_answer_in_time_is_a_refusal(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends by itself under its own name, and its reason is in the record and on the page."""
    monkeypatch.setattr(asking, "MINUTE_S", 0.5)
    engine.parts = ["warn"]

    state, outcome = gate_it(gate_file(tmp_path), ask_minutes=1)

    assert ("Refused", Decision.REFUSED, 1) == (state.name, outcome.decision, outcome.code)
    assert "nobody answered by" in outcome.reason and "nobody answered by" in page(tmp_path, outcome)
    assert ("nobody", "block") == tuple(kept(tmp_path, outcome)["approval"][key] for key in ("via", "action"))
    assert engine.idle


def test_only_an_overrider_overrides_a_fail(tmp_path: Path, engine: Engine) -> None:
    """The Slack process resumes with the form; what it proved of the user decides, and the form itself overrides nothing."""
    engine.parts = ["wrong"]
    path = gate_file(tmp_path, 'on_fail = "ask"')

    outcome = asyncio.run(with_slack(path, ADA, ApprovalAction.LAUNCH, form("launch-anyway", approver=ADA)))

    assert Decision.REFUSED is outcome.decision
    invalid = f"of {ADA} (Prefect's form, unverified) is not valid: Prefect's form does not know"
    assert invalid in outcome.reason
    assert f"{outcome.gate_id}-train-1" not in engine.jobs


def test_an_override_is_loud(tmp_path: Path, engine: Engine) -> None:
    """Its state, its title, and the page to both sides, when it is submitted, say who launched against what; it is no PASS."""
    engine.parts = ["wrong"]
    path = gate_file(tmp_path, 'on_fail = "ask"', policy="reuse_pass_minutes = 60")

    outcome = asyncio.run(with_slack(path, BOB, ApprovalAction.LAUNCH, form("launch-anyway", approver=BOB)))

    assert (Decision.OVERRIDDEN, 0) == (outcome.decision, outcome.code)
    assert f"OVERRIDDEN test: {BOB} (Slack) started the training despite NO-GO: " in page(tmp_path, outcome)
    assert f"job {outcome.gate_id}-train-1 pending" in page(tmp_path, outcome)
    assert f"against the verdict, approved by {BOB} (Slack): the run is short" in outcome.reason
    approval = kept(tmp_path, outcome)["approval"]
    assert (BOB, True, True) == (approval["who"], approval["verified"], approval["override"])
    assert not list((tmp_path / "store" / "passes").glob("*"))


@pytest.mark.long
def test_an_answer_in_the_store_is_found_without_a_resume(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Slack process could not reach Prefect: the gate looks for itself."""
    monkeypatch.setattr(wait, "STORE_S", 0.2)
    engine.parts = ["warn"]
    path = gate_file(tmp_path)

    async def press() -> GateOutcome:
        running = asyncio.create_task(run(request_of(path, ask_minutes=1)))
        await paused(running, path)
        (question,) = asked(tmp_path / "store")
        by_slack(tmp_path / "store", question, ADA, ApprovalAction.LAUNCH)
        return (await running)[1]

    outcome = asyncio.run(press())

    assert outcome.answer is not None
    assert (Decision.LAUNCHED, ADA, True) == (outcome.decision, outcome.answer.who, outcome.answer.verified)


@pytest.mark.parametrize("part", ["warn", "wrong"])
def test_a_person_may_have_it_checked_again(tmp_path: Path, engine: Engine, part: str) -> None:
    """New jobs, new evidence, and a new question if there is still one. Nothing is left that condemns the machines that pass now."""
    engine.parts = [part, part, "healthy"]
    path = gate_file(tmp_path, 'on_fail = "ask"')

    outcome = answered(request_of(path, ask_minutes=1), "check-again", "check-again")
    store = FolderStore(tmp_path / "store")
    assert not kept_ends(store, [one.gate_id for one in listed(store).records if one.condemned])
    assert (Decision.LAUNCHED, None) == (outcome.decision, outcome.answer)
    checks = [job for job in engine.jobs if "-check-" in job]
    assert [f"{outcome.gate_id}-check-{n}" for n in (1, 2, 3)] == checks
    assert 2 == len({question.key for question in asked(tmp_path / "store")})


def test_a_person_s_word_reaches_the_nodes(tmp_path: Path, engine: Engine) -> None:
    """They hold at their gate until it comes."""
    engine.placement, engine.keeps_s, engine.parts = Placement.IN_JOB, None, ["warn"]

    outcome = answered(request_of(fake_gate(tmp_path, on_warn="ask"), ask_minutes=1), "launch-anyway")

    assert Decision.LAUNCHED is outcome.decision
    (said,) = engine.answers
    assert ("s1", AnswerWord.LAUNCH, "Ada") == (said.attempt, said.word, said.by)
    assert engine.idle


def test_a_run_that_is_cancelled_while_it_waits_ends(tmp_path: Path, engine: Engine) -> None:
    """In Prefect, by a person: no job and no lease is left."""
    engine.parts = ["warn"]

    async def cancel() -> Any:
        from prefect.client.orchestration import get_client
        from prefect.states import Cancelling

        from flows.gate import gate

        path = gate_file(tmp_path)
        running = asyncio.ensure_future(gate(request_of(path, ask_minutes=1), return_state=True))
        flow_run = await paused(running, path)
        async with get_client() as client:
            await client.set_flow_run_state(flow_run.id, Cancelling())
        return await running

    state = asyncio.run(cancel())

    assert state.is_cancelled()
    assert engine.idle and not list((tmp_path / "store" / "leases").rglob("*.json"))


@pytest.mark.parametrize(
    ("approval", "on_warn", "keeps_s", "minutes", "message"),
    [
        ('on_fail = "ask"', "ask", 3600.0, 0, "nobody may override a FAIL"),
        (f'overriders = ["{BOB}"]\non_fail = "ask"', "ask", None, 0, "its nodes end on a FAIL"),
        (f'overriders = ["{BOB}"]\non_fail = "ask"', "go", 1200.0, 30, r'\[approval\] says on_fail = "ask"'),
        ("", "ask", 1800.0, 21, r"21 minutes to answer .* kept for 30 minutes"),
    ],
)
def test_a_question_that_nobody_could_answer_in_time_is_rejected(
    tmp_path: Path, engine: Engine, approval: str, on_warn: str, keeps_s: float | None, minutes: int, message: str
) -> None:  # fmt: skip
    """By the gate file, before anything starts; a pool is kept ten minutes longer than a person has."""
    path = fake_gate(tmp_path, on_warn=on_warn)
    path.write_text(path.read_text() + f"[approval]\n{approval}\n")
    engine.keeps_s, engine.placement = keeps_s, Placement.POOLED if keeps_s else Placement.IN_JOB

    with pytest.raises(GateFileError, match=message):
        open_gate_context(request_of(path, ask_minutes=minutes))


def test_approval_limits_the_number_of_rechecks(tmp_path: Path) -> None:
    """Then the answer is a refusal that says so."""
    one, again = session(tmp_path), answer(ApprovalAction.RECHECK)
    for number in range(asking.RECHECKS):
        assert "" == asking._limited(one, again).note
        one.renewal.change(rechecks=number + 1)

    assert "the checks were already repeated 3 times on request" == asking._limited(one, again).note


def test_the_next_process_of_a_suspended_run_goes_on(tmp_path: Path, engine: Engine) -> None:
    """The process of a deployment's run ends while it waits: one gate, one check, one question, one training."""
    engine.parts = ["warn"]
    path = gate_file(tmp_path)

    async def two_processes() -> list[str | None]:
        from prefect.client.orchestration import get_client
        from prefect.flow_engine import run_flow_async
        from prefect.flow_runs import aresume_flow_run

        from flows.gate import gate

        request, names = request_of(path, ask_minutes=5), []
        async with get_client() as client:
            deployment = await client.create_deployment(await client.create_flow(gate), "suspended")
            made = await client.create_flow_run_from_deployment(deployment)
            for resumes in (False, True):
                if resumes:
                    await aresume_flow_run(made.id, run_input=form("launch-anyway"))
                run = await client.read_flow_run(made.id)
                with suppress(Pause):
                    await run_flow_async(gate, run, {"request": request}, return_type="state")
                names.append((await client.read_flow_run(made.id)).state_name)
        return names

    assert ["Suspended", "Launched"] == asyncio.run(two_processes())

    (question,) = asked(tmp_path / "store")
    assert [f"{question.gate_id}-check-1", f"{question.gate_id}-train-1"] == list(engine.jobs)
    (kept_end,) = (tmp_path / "store" / "gates").glob("*/outcome.json")
    said = json.loads(kept_end.read_bytes())["approval"]
    assert ("Ada", "prefect", False) == (said["who"], said["via"], said["verified"])
    assert engine.idle and not list((tmp_path / "store" / "leases").rglob("*.json"))


def test_a_late_answer_counts_as_none(tmp_path: Path) -> None:
    """Whoever gave it."""
    question = Question(1, "g", "g", "c", "r", "k", "said", False, 0.0, 10.0, (ADA,), ())
    late = dataclasses.replace(answer(), gate_id="g", who=ADA, at=10.5)
    timely = dataclasses.replace(late, at=9.0)

    assert None is standing_answer(question, [late])
    assert timely == standing_answer(question, [late, timely])
