"""`prelaunch judge` of a report in a gate's folder: the page begins with how the gate ended, and another policy's answer says so."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from checks.documents.report import dump_plain
from checks.judge.verdict import ANSWER_EXITS
from checks.model import ANSWER_WORDS, Answer, Report
from checks.policy import OnWarn
from tasks.gate.outcome import Decision, Ending, GateOutcome, JudgedReport, Training, outcome_summary
from tasks.gate.question import AnswerChannel, ApprovalAction
from tasks.launchers.base import JobState, PreflightCheck, PreflightResult
from tasks.store.folder import FolderStore
from tests.flows.cli.conftest import Ended, Run
from tests.flows.cli.test_judge import BAD
from tests.sample_reports import POLICY, healthy, verdict_of
from tests.tasks.kept_gates import gate_id, keep
from tests.tasks.parameters import spread
from tests.tasks.sessions import answer

WHY = "node-1, rank 3: RuntimeError: my loss exploded"
FAILED = GateOutcome(
    gate_id(0), Ending.JOB_FAILED, Decision.LAUNCHED, None, Training("t-1", JobState.FAILED, "exit 1", WHY), WHY
)  # fmt: skip
NO = replace(answer(ApprovalAction.BLOCK, AnswerChannel.PREFECT, reason="not tonight"), gate_id=gate_id(0))
HOSTILE = "<script>alert(1)</script>\x1b[31m [x](http://evil) " + "A" * 10_000


def folder_of(tmp_path: Path, report: Report, outcome: GateOutcome | None, **changes: object) -> Path:
    """The folder of a gate, as the gate keeps it."""
    store = FolderStore(tmp_path / "store")
    keep(store, 0, report)
    folder = store.root / "gates" / gate_id(0)
    if outcome is not None:
        judged = JudgedReport(report, verdict_of(report))
        summary = outcome_summary(replace(outcome, judged=judged))
        (folder / "outcome.json").write_bytes(dump_plain({**summary, "cluster": "c", "told": [], **changes}))
    return folder


def first_lines(run: Run, folder: Path) -> list[str]:
    return run("judge", "--kept", folder, "--format", "text").out.splitlines()


def test_a_training_that_failed_stands_at_the_head(run: Run, tmp_path: Path) -> None:
    """With its cause and what to do, in each format. The verdict before it is one of checks, and the exit code is the verdict's."""
    folder, page = folder_of(tmp_path, healthy(), FAILED), tmp_path / "page.html"
    text = run("judge", "--kept", folder, "--format", "text")
    markdown, junit = (run("judge", "--kept", folder, "--format", form).out for form in ("markdown", "junit"))
    run("judge", "--kept", folder, "--html", page)
    head = page.read_text().partition("<main>")[0]

    assert f"TRAINING FAILED sample: {WHY}" == text.out.splitlines()[0] and 0 == text.code
    assert "No node is blamed" in text.out and "The checks had ended before that. PASS" in text.out
    assert "TRAINING FAILED sample" in markdown.splitlines()[0]
    assert 'failures="1"' in junit and f'type="training" message="{WHY}"' in junit
    assert '<header class="answer fail">' in head and f">TRAINING FAILED sample: {WHY}</h1>" in head


@pytest.mark.parametrize(
    ("outcome", "first"),
    [
        (replace(FAILED, ending=Ending.CANCELLED, reason="cancelled by SIGTERM after the verdict GO", training=None),
         "CANCELLED sample: cancelled by SIGTERM after the verdict GO"),
        (replace(FAILED, ending=Ending.NO_CAPACITY, decision=Decision.NOT_LAUNCHED, reason="no machines", training=None),
         "NOT LAUNCHED sample: no machines"),
        (replace(FAILED, ending=Ending.VERDICT, decision=Decision.REFUSED, answer=NO, training=None,
                 reason="ana refused (not tonight)"),
         "NO-GO sample: ana refused (not tonight)"),
    ],
)  # fmt: skip
def test_every_other_end_is_the_first_line_too(
    run: Run, tmp_path: Path, outcome: GateOutcome, first: str
) -> None:
    """Cancelled, without machines, refused by a person."""
    assert first == first_lines(run, folder_of(tmp_path, healthy(), outcome))[0]


def test_a_refusal_says_that_the_training_was_not_started(run: Run, tmp_path: Path) -> None:
    """Where the request asked for it."""
    outcome = replace(FAILED, ending=Ending.VERDICT, decision=Decision.REFUSED, training=None)
    folder = folder_of(tmp_path, BAD, outcome)
    before = "\n".join(first_lines(run, folder))
    (folder / "request.json").write_text('{"gate_file": "g.toml", "launch": true}')

    assert "Training was not started." not in before
    assert "Training was not started." in "\n".join(first_lines(run, folder))


def test_another_verdict_with_which_the_gate_ended_is_said(run: Run, tmp_path: Path) -> None:
    """The nodes of the training were other ones and were checked again: verdict.json is of the first ones."""
    why = "the training got other machines than those that passed; they were checked again: NO-GO sample: node-1 is slow"
    outcome = replace(FAILED, ending=Ending.VERDICT, decision=Decision.REFUSED, training=None, reason=why)
    lines = first_lines(run, folder_of(tmp_path, healthy(), outcome, answer="no_go"))

    assert f"NO-GO sample: {why}" == lines[0] and "The checks had ended before that. PASS" in "\n".join(lines)


def test_a_page_by_another_policy_says_the_end_beside_the_gates_own_answer(run: Run, tmp_path: Path) -> None:
    """Its headline is the new answer."""
    policy = tmp_path / "other.json"
    policy.write_bytes(dump_plain(replace(POLICY, name="other")))
    folder = folder_of(tmp_path, healthy(), FAILED)
    lines = run("judge", "--kept", folder, "--policy", policy, "--format", "text").out.splitlines()

    assert lines[0].startswith("GO sample") and f"The gate itself ended as TRAINING FAILED: {WHY}" in lines[1]


def test_a_report_alone_and_a_gate_that_goes_on_are_as_before(run: Run, tmp_path: Path) -> None:
    """Nothing is said of an end that nobody kept."""
    folder = folder_of(tmp_path, healthy(), None)
    running = first_lines(run, folder)
    (folder / "verdict.json").unlink()
    alone = first_lines(run, folder)
    (folder / "outcome.json").write_bytes(b"{}")

    assert running[0].startswith("GO sample") and alone == first_lines(run, folder)
    assert not any("ended" in line for line in (*running[:4], *alone[:4]))


@pytest.mark.parametrize(
    ("said", "written"),
    spread(
        ("cannot be read", (b"{", b"[1]", b'{"ending": ["verdict"], "gate_id": "g"}', b"\xff" * 100)),
        ("cannot be read", (b"[" * 100_000, {"training": {"state": "exploded"}})),
        ("is of another gate (another-gate)", ({"gate_id": "another-gate"},)),
        ("is of another gate (&lt;script&gt;", ({"gate_id": HOSTILE},)),
    ),
)
def test_a_damaged_or_foreign_end_is_not_believed(
    run: Run, tmp_path: Path, written: bytes | Mapping[str, object], said: str
) -> None:
    """The page is there, and says that nobody knows how the gate ended."""
    folder, page = folder_of(tmp_path, healthy(), FAILED), tmp_path / "page.html"
    kept = json.loads((folder / "outcome.json").read_text())
    data = written if isinstance(written, bytes) else json.dumps({**kept, **written}).encode()
    (folder / "outcome.json").write_bytes(data)
    run("judge", "--kept", folder, "--html", page)
    head = page.read_text().partition("<main>")[0]

    sentence = f"How the gate ended is not known: outcome.json beside the report {said}"
    assert sentence in head.replace("\n", " ")
    assert "TRAINING FAILED" not in head and "<script>alert" not in page.read_text()


@pytest.mark.parametrize(
    "written",
    [
        {"decision": "launched", "ending": "verdict", "answer": "no_go"},
        {"decision": "passed", "ending": "verdict", "answer": "go"},
        {"decision": "overridden", "ending": "verdict", "answer": "no_go"},
        {"decision": "refused", "ending": "verdict", "answer": "go", "reason": "all is well"},
    ],
)
def test_an_end_that_the_verdict_does_not_allow_is_not_believed(
    run: Run, tmp_path: Path, written: Mapping[str, object]
) -> None:
    """A refusal stays one."""
    lines = first_lines(run, folder_of(tmp_path, BAD, replace(FAILED, ending=Ending.VERDICT), **written))

    assert verdict_of(BAD).answer is Answer.NO_GO and lines[0].startswith("NO-GO sample: ")
    assert "outcome.json beside the report contradicts the verdict." in lines[1]


def test_a_page_of_a_kept_verdict_says_how_old_its_measurement_was(run: Run, tmp_path: Path) -> None:
    """When the gate judged is in its record; without one nobody knows the age, and today's is not taken for it."""
    folder = folder_of(tmp_path, replace(healthy(), measured_at="2025-11-18T08:00:00Z"), None)
    said = "The nodes were measured 3 days before this verdict, 2025-11-18 08:00 UTC."
    with_record = run("judge", "--kept", folder, "--format", "text").out
    for record in (tmp_path / "store" / "records").glob("*.json"):
        record.unlink()

    assert said in with_record
    assert "before this verdict" not in run("judge", "--kept", folder, "--format", "text").out


@pytest.fixture
def refused(tmp_path: Path) -> Path:
    """The folder of a gate that its own policy refused; the shipped policy of the type answers otherwise."""
    store = FolderStore(tmp_path / "store")
    keep(store, 0, BAD)
    return store.root / "gates" / gate_id(0)


def keep_policy(folder: Path) -> None:
    """As a gate keeps the policy beside its verdict."""
    (folder / "policy.json").write_bytes(dump_plain(POLICY))


def test_a_gate_is_judged_again_by_its_own_policy(run: Run, refused: Path) -> None:
    """The same answer, and the policy is named; nothing has to be explained."""
    keep_policy(refused)

    ended = run("judge", refused, "--format", "json")

    assert kept_answer(refused) == ended.document["answer"]
    assert {"same_answer": True, "same_policy": True, "said": None}.items() <= own(ended).items()
    assert f"policy: {POLICY.name} ({refused / 'policy.json'})" in ended.err
    assert "The gate itself" not in run("judge", refused).out


@pytest.mark.parametrize("words", [("judge",), ("judge", "--kept")])
def test_another_answer_than_that_of_the_gate_is_explained_behind_it(
    run: Run, refused: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Both answers, both policies, and the exit code of the new answer."""
    lenient = tmp_path / "lenient.json"
    lenient.write_bytes(dump_plain(replace(POLICY, name="lenient", checks={}, on_warn=OnWarn.GO)))
    keep_policy(refused)

    ended = run(words[0], refused / "health_check_metrics.json", *words[1:], "--policy", lenient)
    second = next(line for line in ended.out.splitlines()[1:] if line.strip())

    assert "The gate itself decided" in second and ANSWER_WORDS[Answer(str(kept_answer(refused)))] in second
    assert POLICY.name in second and "lenient" in second and "This answer differs" in second
    assert ended.code != ANSWER_EXITS[Answer(str(kept_answer(refused)))]


def test_a_gate_whose_policy_is_lost_says_so(run: Run, refused: Path) -> None:
    """The shipped policy of the type judges, and the answer says that the gate had another one."""
    ended = run("judge", refused)
    said = ended.out.splitlines()[1]

    assert said.startswith("The gate itself decided NO-GO (FAIL), by a policy that is not here. This answer ")
    assert said.endswith("Name the gate's own with --policy.")


def test_a_page_of_a_kept_gate_has_the_gates_own_verdict(run: Run, refused: Path) -> None:
    """Whatever another policy would say today; its heading is the gate's name, and judge answers by the other policy."""
    kept = json.loads((refused / "verdict.json").read_text())
    (refused / "verdict.json").write_text(json.dumps({**kept, "answer": "cannot_tell"}))

    text = run("judge", "--kept", refused, "--format", "text")
    first, second, *_ = text.out.splitlines()
    again = run("judge", refused).out.splitlines()[1]

    assert first.startswith("CANNOT TELL sample: ") and 3 == text.code
    assert second.startswith("This is the gate's own verdict, as it was kept")
    assert again.startswith("The gate itself decided CANNOT TELL, by a policy that is not here.")


def test_a_verdict_is_no_report_and_the_report_beside_it_is_named(
    run: Run, refused: Path, tmp_path: Path
) -> None:
    """Exit code 2: nothing was judged."""
    alone = tmp_path / "verdict.json"
    alone.write_bytes((refused / "verdict.json").read_bytes())
    ended = [run("judge", refused / "verdict.json"), run("judge", alone)]

    assert [2, 2] == [one.code for one in ended]
    assert f"Judge the report beside it: {refused / 'health_check_metrics.json'}" in ended[0].err
    assert "it is a verdict, and no report. Name a report or its folder." in ended[1].err


def test_the_policy_of_the_gate_file_of_the_request_is_found(run: Run, refused: Path, tmp_path: Path) -> None:
    """An older version kept no policy. A file that was changed since then has another digest, and is not taken."""
    policy = tmp_path / "own.json"
    policy.write_bytes(dump_plain(POLICY))
    (tmp_path / "gate.toml").write_text('[policy]\nfile = "own.json"\n')
    (refused / "request.json").write_text(json.dumps({"gate_file": str(tmp_path / "gate.toml")}))

    assert True is own(run("judge", refused, "--format", "json"))["same_policy"]
    policy.write_bytes(dump_plain(replace(POLICY, on_warn=OnWarn.ASK)))
    assert False is own(run("judge", refused, "--format", "json"))["same_policy"]


def test_a_verdict_that_is_not_of_the_report_proves_nothing(run: Run, refused: Path) -> None:
    """Neither one of another report nor one that cannot be read is passed over."""
    (refused / "verdict.json").write_text("{}")
    assert "What the gate itself decided is not known" in run("judge", refused).out.splitlines()[1]

    (refused / "verdict.json").unlink()
    ended = run("judge", refused, "--format", "json")
    assert "own_decision" not in ended.document


def kept_answer(folder: Path) -> object:
    """What verdict.json says."""
    return json.loads((folder / "verdict.json").read_text())["answer"]


def own(ended: Ended) -> dict[str, object]:
    """What the document says of the gate's own decision."""
    found = ended.document["own_decision"]
    assert isinstance(found, dict)
    return found


TYPE = PreflightCheck("this machine", PreflightResult.WARNING, "it is no g5.xlarge", "Declare what it is.")


LINES = (
    TYPE,
    PreflightCheck("the role", PreflightResult.OK, "it is there"),
    PreflightCheck("the quota", PreflightResult.UNSEEN, "no answer"),
)


DOUBT = "Before the checks: this machine: it is no g5.xlarge. Declare what it is."


@pytest.mark.parametrize(
    "words", [("judge",), ("judge", "--kept"), ("judge", "--kept", "--policy", "own.json")], ids=" ".join
)
def test_preflight_warning_stands_once_on_the_pages_of_a_refusal(
    run: Run, refused: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """As on the gate's own, on every page, once; whatever policy judges. What was all right or not seen is none of it."""
    monkeypatch.chdir(tmp_path)
    Path("own.json").write_bytes(dump_plain(POLICY))
    (refused / "preflight.json").write_bytes(dump_plain(LINES))
    page = tmp_path / "page.html"
    command = (words[0], refused, *words[1:], "--html", page)
    first = run(*command, "--format", "text")

    assert 1 == first.out.count(DOUBT) and "the quota" not in first.out
    assert DOUBT in page.read_text() and DOUBT in run(*command, "--format", "markdown").out
    (refused / "preflight.json").unlink()
    assert "Before the checks" not in run(*command, "--format", "text").out


@pytest.mark.parametrize("data", [b"{", b"{}", b"[1]", b'[{"subject": 3}]', b"\xff", b"[" * 100_000])
def test_a_preflight_that_cannot_be_read_hides_no_verdict(run: Run, refused: Path, data: bytes) -> None:
    """It only explains."""
    (refused / "preflight.json").write_bytes(data)

    assert 1 == run("judge", refused).code


def test_a_hostile_warning_is_inert(run: Run, refused: Path, tmp_path: Path) -> None:
    """Engines and files bring its words."""
    hostile = replace(TYPE, message="\x1b[31m<script>alert(1)</script>\u202e" + "x" * 10_000)
    (refused / "preflight.json").write_bytes(dump_plain((hostile,)))
    text = run("judge", refused, "--html", tmp_path / "page.html").out

    assert "\x1b[31m" not in text and "\u202e" not in text and "x" * 5000 not in text
    assert "<script>alert" not in (tmp_path / "page.html").read_text()
    assert "<script>alert" not in run("judge", refused, "--format", "markdown").out
