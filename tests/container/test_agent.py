"""The agent on one host: what it accepts, how it ends, and what it leaves in every case."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from checks.documents.report import load_node
from container.agent.agent_run import live
from container.agent.settings import make
from container.agent.supervisor import Signals
from tests.container.agents import GATE, Agent, fake_python, make_bundle, make_root, run, run_alone


def test_train_checks_and_leaves_the_merged_report(tmp_path: Path) -> None:
    """SageMaker's argument, a bundle in an input channel, no option at all. A process that the checks left behind is ended: it would
    sit beside the training, and the test session fails where one is left.
    """
    ended = run_alone(make_root(tmp_path, make_bundle()), python=fake_python(tmp_path), FAKE="orphan")

    assert (0, "", 1, ()) == (ended.code, ended.failure, len(ended.merged.nodes), ended.merged.collection)
    assert "GO: 1 of 1 nodes" in ended.log


def test_a_no_go_is_exit_code_1_with_its_reason(tmp_path: Path) -> None:
    """SageMaker shows the failure file as the job's reason."""
    ended = run(make_root(tmp_path, make_bundle()), python=fake_python(tmp_path), FAKE="wrong")

    assert (1, True) == (ended.code, ended.failure.startswith("no_go: "))
    assert ended.failure == ended.record["reason"]


def test_checks_that_leave_no_report_cannot_be_a_go(tmp_path: Path) -> None:
    """The reason says how its checks ended."""
    ended = run(make_root(tmp_path, make_bundle()), python=fake_python(tmp_path), FAKE="silent")

    assert (3, True) == (ended.code, "exit code 7" in ended.failure)


def test_checks_that_cannot_be_started_cannot_be_a_go(tmp_path: Path) -> None:
    """No interpreter."""
    ended = run_alone(make_root(tmp_path, make_bundle()), python=tmp_path / "nowhere")

    assert (3, True) == (ended.code, "left no reason" in ended.failure)


@pytest.mark.parametrize(
    ("bundle", "said"),
    [(None, "no bundle"), (make_bundle()[:200], "cannot be used")],
    ids=["missing", "cut"],
)
def test_without_a_bundle_nothing_begins_and_a_record_is_left(
    tmp_path: Path, bundle: bytes | None, said: str
) -> None:
    """Rejected, exit code 2, with a reason in all three places."""
    uploads = tmp_path / "uploads"
    ended = run(make_root(tmp_path, bundle), "check", "--upload", str(uploads), TRAINING_JOB_NAME="job-7")

    assert (2, True) == (ended.code, said in ended.failure)
    assert (2, ended.failure) == (ended.record["exit_code"], ended.record["reason"])
    assert [ended.record] == [json.loads(path.read_bytes()) for path in uploads.glob("job-7/*/agent/*.json")]


def test_two_bundles_are_not_chosen_between(tmp_path: Path) -> None:
    """Which one is meant is the operator's to say."""
    root = make_root(tmp_path, make_bundle())
    (root / "input" / "data" / "other").mkdir()
    (root / "input" / "data" / "other" / "bundle.json").write_bytes(make_bundle())

    assert 2 == run(root).code


def test_several_nodes_that_nothing_names_are_rejected(tmp_path: Path) -> None:
    """Two are declared, and there is neither a roster nor SageMaker's file."""
    ended = run(make_root(tmp_path, make_bundle(nodes=2)))

    assert (2, True) == (ended.code, "PRELAUNCH_ROSTER" in ended.failure)


def test_a_garbled_resource_file_is_rejected(tmp_path: Path) -> None:
    """One host is declared, and yet it is not guessed which one this is."""
    root = make_root(tmp_path, make_bundle())
    (root / "input" / "config" / "resourceconfig.json").write_text("{")

    assert 2 == run(root).code


@pytest.mark.parametrize("words", [("gate",), ("gate", "--"), ()])
def test_a_gate_without_a_command_is_a_usage_error(tmp_path: Path, words: tuple[str, ...]) -> None:
    """`train` with a command that is no list of words as well."""
    ended = run(make_root(tmp_path, make_bundle()), *words, PRELAUNCH_COMMAND="python3 train.py")

    assert (2, True) == (ended.code, "ommand" in ended.failure or "COMMAND" in ended.failure)


def test_the_command_starts_after_a_go_and_its_exit_code_is_the_agents(tmp_path: Path) -> None:
    """`gate -- COMMAND`: what the command says is not taken for a verdict's code."""
    root = make_root(tmp_path, make_bundle())
    ended = run(root, "gate", "--", "sh", "-c", "echo trained; exit 9", python=fake_python(tmp_path))

    assert (9, True, "the command ended with exit code 9") == (
        ended.code,
        "trained" in ended.log,
        ended.failure,
    )
    assert 1 == len(ended.merged.nodes)


def test_train_takes_its_command_from_a_hyperparameter(tmp_path: Path) -> None:
    """SageMaker hands hyperparameters over as text."""
    root = make_root(tmp_path, make_bundle())
    words = json.dumps({"prelaunch_command": json.dumps(["sh", "-c", "echo trained"]), "lr": "0.1"})
    (root / "input" / "config" / "hyperparameters.json").write_text(words)
    ended = run(root, python=fake_python(tmp_path))

    assert (0, True) == (ended.code, "trained" in ended.log)


@pytest.mark.parametrize(("part", "code"), [("wrong", 1), ("silent", 7)])
def test_a_gate_that_refuses_starts_no_command(tmp_path: Path, part: str, code: int) -> None:
    """Its exit code is the agent's, its reason SageMaker's."""
    root = make_root(tmp_path, make_bundle())
    ended = run(root, "gate", "--", "sh", "-c", "echo trained", python=fake_python(tmp_path), FAKE=part)

    assert (code, False) == (ended.code, "trained" in ended.log)
    assert ended.failure.startswith("the command was not started: ")


def test_sigterm_ends_the_checks_and_leaves_what_they_knew(tmp_path: Path) -> None:
    """A stopped job: 143, and an incomplete report."""
    root, uploads = make_root(tmp_path, make_bundle()), tmp_path / "uploads"
    arguments = ("check", "--upload", str(uploads))
    with Agent(root, *arguments, python=fake_python(tmp_path), environment={"FAKE": "hang"}) as agent:
        agent.until("output/data/hanging/*")
        agent.terminate()
        ended = agent.wait()

    (report,) = uploads.glob(f"{GATE}/*/nodes/*.json")
    assert (143, "SIGTERM", False) == (
        ended.code,
        ended.record["signal"],
        load_node(report.read_bytes()).node.complete,
    )
    assert "SIGTERM" in ended.failure


def test_checks_that_ignore_sigterm_are_killed_in_time(tmp_path: Path) -> None:
    """SageMaker's own SIGKILL would come before the last upload."""
    root = make_root(tmp_path, make_bundle())
    environment = {"FAKE": "stubborn", "PRELAUNCH_GRACE_S": "0.5"}
    with Agent(root, "check", python=fake_python(tmp_path), environment=environment) as agent:
        agent.until("output/data/hanging/*")
        agent.terminate(signal.SIGINT)
        ended = agent.wait()

    assert 130 == ended.code


def test_a_report_that_cannot_be_copied_is_no_go(tmp_path: Path) -> None:
    """Whoever waits for it would wait in vain, so the exit code does not say go."""
    (tmp_path / "file").touch()
    root = make_root(tmp_path, make_bundle())
    ended = run(root, "check", "--upload", str(tmp_path / "file" / "below"), python=fake_python(tmp_path))

    assert (3, True) == (ended.code, "could not be copied" in ended.failure)


def test_a_report_of_a_life_before_is_not_this_ones(tmp_path: Path) -> None:
    """A container that starts again begins without a verdict."""
    root, python = make_root(tmp_path, make_bundle()), fake_python(tmp_path)
    first = run(root, python=python)
    before = first.merged.attempt
    (root / "input" / "data" / "prelaunch" / "bundle.json").write_bytes(b"{}")
    second = run(root, python=python)

    assert (2, False, True) == (
        second.code,
        (second.out / "health_check_metrics.json").exists(),
        (second.out / before / "health_check_metrics.json").exists(),
    )


@pytest.mark.root
@pytest.mark.needs("unshare")
def test_as_process_1_it_needs_no_init(tmp_path: Path) -> None:
    """It reaps and ends an orphan that fell to it, and its end is the container's."""
    root = make_root(tmp_path, make_bundle())
    wrapper = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    with Agent(
        root, "check", python=fake_python(tmp_path), environment={"FAKE": "orphan"}, wrapper=wrapper
    ) as agent:
        ended = agent.wait()

    assert 0 == ended.code


def test_a_launchers_roster_and_token_are_taken_as_they_are(tmp_path: Path) -> None:
    """Where the launcher says who is who, no host is asked."""
    roster = {
        "members": [{"name": "n-0", "address": "127.0.0.1", "probe_port": 4001}],
        "rendezvous_port": 4002,
    }
    (tmp_path / "roster.json").write_text(json.dumps({**roster, "interface": "lo"}))
    root = make_root(tmp_path, make_bundle())
    given = {
        "PRELAUNCH_ROSTER": str(tmp_path / "roster.json"),
        "PRELAUNCH_NODE": "n-0",
        "PRELAUNCH_ATTEMPT": "t1",
    }
    ended = run(root, "check", python=fake_python(tmp_path), **given)

    assert (0, "t1", "n-0") == (ended.code, ended.merged.attempt, ended.merged.nodes[0].name)
    assert json.loads((ended.out / "rosters" / "n-0.json").read_bytes())["members"] == roster["members"]


def test_a_folder_that_cannot_be_written_cannot_be_a_go(tmp_path: Path) -> None:
    """There is nowhere to leave a report."""
    root = make_root(tmp_path, make_bundle())
    (root / "output").write_text("a file where the folder should be")
    ended = run(root, "check", python=fake_python(tmp_path))

    assert 3 == ended.code


def test_a_verb_of_the_checks_is_passed_through(tmp_path: Path) -> None:
    """`docker run IMAGE checks list`."""
    ended = run_alone(make_root(tmp_path, None), "checks", "list")

    assert (0, True) == (ended.code, "system.identity" in ended.log)


@pytest.mark.long
def test_the_real_checks_pass_here(tmp_path: Path) -> None:
    """Nothing is played: real node and rank checks behind the agent."""
    ended = run_alone(make_root(tmp_path, make_bundle(stage_s=90.0, judged=False)), "check")

    assert (0, True) == (ended.code, ended.merged.nodes[0].complete), ended.failure
    assert {"system.identity", "training.smoke"} <= {row.check for row in ended.merged.observations}


@pytest.mark.long
def test_the_real_gate_starts_the_command(tmp_path: Path) -> None:
    """`checks gate` decides, becomes the command, and the agent stays in front of it."""
    root = make_root(tmp_path, make_bundle(stage_s=90.0, judged=False))
    ended = run_alone(root, "gate", "--", "sh", "-c", "echo trained {nodes} $PRELAUNCH_NODE; exit 6")

    assert (6, True) == (ended.code, "trained 1 " in ended.log), ended.failure
    assert ended.merged.nodes[0].complete


def test_a_token_that_is_given_again_brings_no_report_back(tmp_path: Path) -> None:
    """A launcher starts the container again under one token: the go of its first life is not the second's."""
    member = {"name": "n-0", "address": "127.0.0.1", "probe_port": 4001}
    roster = {"members": [member], "rendezvous_port": 4002, "interface": "lo"}
    (tmp_path / "roster.json").write_text(json.dumps(roster))
    root, python = make_root(tmp_path, make_bundle()), fake_python(tmp_path)
    given = {
        "PRELAUNCH_ROSTER": str(tmp_path / "roster.json"),
        "PRELAUNCH_NODE": "n-0",
        "PRELAUNCH_ATTEMPT": "t1",
    }
    lives = [
        run(root, "gate", "--", "true", python=python, **given, FAKE=played)
        for played in ("healthy", "silent")
    ]

    assert (0, 7) == (lives[0].code, lives[1].code)
    assert "the command was not started" in lives[1].failure
    assert [] == list(lives[1].out.rglob("health_check_metrics.json")) + list(lives[1].out.rglob("nodes/*"))


def test_an_agent_without_a_folder_for_scratch_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container whose disk is full or cannot be written at all, but for SageMaker's folders."""

    def none(*given: object, **named: object) -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr("container.agent.files.scratch.tempfile.mkdtemp", none)
    monkeypatch.setattr("container.agent.agent_run.become_subreaper", lambda: None)
    root = make_root(tmp_path, make_bundle())
    code = live(make(root, {}, {}, {}), Signals())

    assert (3, True) == (code, "No usable temporary" in (root / "output" / "failure").read_text())
