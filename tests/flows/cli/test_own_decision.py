"""A gate's report that is judged again: by the gate's own policy, and where not, the answer says what the gate itself decided."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from checks.documents.report import dump_plain
from checks.judge.verdict import EXIT_CODES
from checks.model import ANSWER_WORDS, Answer
from checks.policy import OnWarn
from tasks.launchers.base import PreflightCheck, PreflightResult
from tasks.store.folder import FolderStore
from tests.flows.cli.conftest import Ended, Run
from tests.flows.cli.test_judge import BAD
from tests.sample_reports import POLICY
from tests.tasks.kept_gates import gate_id, keep


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
    assert ended.code != EXIT_CODES[Answer(str(kept_answer(refused)))]


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
    again = run("judge", refused)

    assert text.out.splitlines()[0].startswith("CANNOT TELL sample: ") and 3 == text.code
    assert text.out.splitlines()[1].startswith("This is the gate's own verdict, as it was kept")
    assert again.out.splitlines()[1].startswith(
        "The gate itself decided CANNOT TELL, by a policy that is not here."
    )


def test_a_verdict_is_no_report_and_the_report_beside_it_is_named(
    run: Run, refused: Path, tmp_path: Path
) -> None:
    """Exit code 2: nothing was judged."""
    alone = tmp_path / "verdict.json"
    alone.write_bytes((refused / "verdict.json").read_bytes())
    ended = [run("judge", refused / "verdict.json"), run("judge", alone)]

    assert [2, 2] == [one.code for one in ended]
    assert f"Judge the report beside it: {refused / 'health_check_metrics.json'}" in ended[0].err
    assert "it is a verdict, and no report. Name the report that it is about." in ended[1].err


def test_the_policy_of_the_gate_file_that_the_request_names_is_found(
    run: Run, refused: Path, tmp_path: Path
) -> None:
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
