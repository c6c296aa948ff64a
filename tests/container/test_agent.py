"""The agent on one host: what it accepts, how it ends, and what it leaves in every case."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from checks.documents.report import load_node
from checks.runner.in_job.spares import next_attempt
from container.agent.agent_run import live
from container.agent.settings import make
from container.agent.supervisor import Signals
from tests.container.agents import (
    GATE,
    Agent,
    fake_python,
    free_port,
    make_bundle,
    make_root,
    run,
    run_alone,
    run_usual,
)


def test_train_checks_and_leaves_the_merged_report(tmp_path: Path) -> None:
    """SageMaker's argument, a bundle in an input channel, no option at all. A process that the checks left behind is ended: it would
    sit beside the training, and the test session fails where one is left.
    """
    ended = run_alone(make_root(tmp_path, make_bundle()), python=fake_python(tmp_path), FAKE="orphan")

    assert (0, "", 1, ()) == (ended.code, ended.failure, len(ended.merged.nodes), ended.merged.collection)
    assert "GO: 1 of 1 nodes" in ended.log


def test_a_no_go_is_exit_code_1_with_its_reason(tmp_path: Path) -> None:
    """SageMaker shows the failure file as the job's reason."""
    ended = run_usual(tmp_path, FAKE="wrong")

    assert (1, True) == (ended.code, ended.failure.startswith("no_go: "))
    assert ended.failure == ended.record["reason"]


def test_checks_that_leave_no_report_cannot_be_a_go(tmp_path: Path) -> None:
    """The reason says how its checks ended."""
    ended = run_usual(tmp_path, FAKE="silent")

    assert (3, True) == (ended.code, "exit code 7" in ended.failure)


@pytest.mark.parametrize(
    ("bundle", "said"), [(None, "no bundle"), (make_bundle()[:200], "cannot be used")], ids=["missing", "cut"]
)
def test_without_a_bundle_nothing_begins_and_a_record_is_left(
    tmp_path: Path, bundle: bytes | None, said: str
) -> None:
    """Rejected, exit code 2, with a reason in all three places."""
    uploads = tmp_path / "uploads"
    root, words = make_root(tmp_path, bundle), ("check", "--upload", str(uploads))
    ended = run(root, *words, TRAINING_JOB_NAME="job-7", SLURM_RESTART_COUNT="1")

    assert "1" == ended.record["restarts"]
    assert (2, True) == (ended.code, said in ended.failure)
    assert (2, ended.failure) == (ended.record["exit_code"], ended.record["reason"])
    assert [ended.record] == [json.loads(path.read_bytes()) for path in uploads.glob("job-7/*/agent/*.json")]


@pytest.mark.parametrize("words", [("gate",), ("gate", "--"), ()])
def test_a_gate_without_a_command_is_a_usage_error(tmp_path: Path, words: tuple[str, ...]) -> None:
    """`train` with a command that is no list of words as well."""
    ended = run(make_root(tmp_path, make_bundle()), *words, PRELAUNCH_COMMAND="python3 train.py")

    assert (2, True) == (ended.code, "ommand" in ended.failure or "COMMAND" in ended.failure)


def test_the_command_starts_after_a_go_and_its_exit_code_is_the_agents(tmp_path: Path) -> None:
    """`gate -- COMMAND`: what the command says is not taken for a verdict's code."""
    ended = run_usual(tmp_path, "gate", "--", "sh", "-c", "echo trained; exit 9")

    assert (9, True) == (ended.code, "trained" in ended.log)
    assert "the command ended with exit code 9" == ended.failure
    assert 1 == len(ended.merged.nodes)


def test_a_command_may_empty_its_folder_and_give_its_own_reason(tmp_path: Path) -> None:
    """SageMaker's folder of output data is the training's as well, and its toolkits write their traceback to the failure file."""
    root = tmp_path / "ml-only"
    script = f"rm -r {root}/output/data; echo Traceback > {root}/output/failure; exit 9"
    ended = run_usual(tmp_path, "gate", "--", "sh", "-c", script)

    assert (9, "Traceback\n") == (ended.code, ended.failure)
    assert "the command ended with exit code 9" == ended.record["reason"]


@pytest.mark.parametrize(("part", "code"), [("wrong", 1), ("silent", 7)])
def test_a_gate_that_refuses_starts_no_command(tmp_path: Path, part: str, code: int) -> None:
    """Its exit code is the agent's, its reason SageMaker's."""
    ended = run_usual(tmp_path, "gate", "--", "sh", "-c", "echo trained", FAKE=part)

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
    assert not load_node(report.read_bytes()).node.complete
    assert (143, "SIGTERM", True) == (ended.code, ended.record["signal"], "SIGTERM" in ended.failure)


def test_checks_that_ignore_sigterm_are_killed_in_time(tmp_path: Path) -> None:
    """SageMaker's own SIGKILL would come before the last upload."""
    root = make_root(tmp_path, make_bundle())
    environment = {"FAKE": "stubborn", "PRELAUNCH_GRACE_S": "0.5"}
    with Agent(root, "check", python=fake_python(tmp_path), environment=environment) as agent:
        agent.until("output/data/hanging/*")
        agent.terminate(signal.SIGINT)
        ended = agent.wait()

    assert 130 == ended.code


@pytest.mark.root
@pytest.mark.needs("unshare")
def test_agent_as_process_1_reaps_orphans(tmp_path: Path) -> None:
    """It reaps and ends an orphan that fell to it, and its end is the container's."""
    root, played = make_root(tmp_path, make_bundle()), {"FAKE": "orphan"}
    wrapper = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    with Agent(root, "check", python=fake_python(tmp_path), environment=played, wrapper=wrapper) as agent:
        assert 0 == agent.wait().code


def test_a_folder_that_cannot_be_written_cannot_be_a_go(tmp_path: Path) -> None:
    """There is nowhere to leave a report."""
    root = make_root(tmp_path, make_bundle())
    (root / "output").write_text("a file where the folder should be")

    assert 3 == run(root, "check", python=fake_python(tmp_path)).code


@pytest.mark.long
def test_the_real_gate_starts_the_command(tmp_path: Path) -> None:
    """Nothing is played: real node and rank checks, then `checks gate` becomes the command, and the agent stays in front of it."""
    root = make_root(tmp_path, make_bundle(stage_s=90.0, judged=False))
    ended = run_alone(root, "gate", "--", "sh", "-c", "echo trained {nodes} $PRELAUNCH_NODE; exit 6")

    assert (6, True) == (ended.code, "trained 1 " in ended.log), ended.failure
    assert ended.merged.nodes[0].complete
    assert {"system.identity", "training.smoke"} <= {row.check for row in ended.merged.observations}


def test_an_agent_without_a_scratch_folder_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container whose disk is full or cannot be written at all, but for SageMaker's folders."""

    def none(*given: object, **named: object) -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr("container.agent.files.scratch.tempfile.mkdtemp", none)
    monkeypatch.setattr("container.agent.agent_run.become_subreaper", lambda: None)
    root = make_root(tmp_path, make_bundle())
    code = live(make(root, {}, {}), Signals())

    assert (3, True) == (code, "No usable temporary" in (root / "output" / "failure").read_text())


REJECTED = {
    "two bundles": (1, "data/other/bundle.json", make_bundle().decode()),
    "two nodes, neither a roster nor SageMaker's file": (2, "data/other/nothing", ""),
    "a garbled file of SageMaker's": (1, "config/resourceconfig.json", "{"),
}


@pytest.mark.parametrize(("nodes", "file", "text"), REJECTED.values(), ids=REJECTED)
def test_agent_rejects_input_without_bundle_or_host(tmp_path: Path, nodes: int, file: str, text: str) -> None:
    """Nothing is guessed: which bundle is meant, and which host this is."""
    root = make_root(tmp_path, make_bundle(nodes))
    (root / "input" / file).parent.mkdir(exist_ok=True)
    (root / "input" / file).write_text(text)

    assert 2 == run(root).code


def test_a_report_of_a_life_before_is_not_this_ones(tmp_path: Path) -> None:
    """A container that starts again begins without a verdict, and with neither the former reason nor the former token."""
    root, python = make_root(tmp_path, make_bundle()), fake_python(tmp_path)
    (root / "output").mkdir()
    (root / "output" / "failure").write_text("of the former life")
    first = run(root, python=python)
    before, failure = first.merged.attempt, first.failure
    (root / "input" / "data" / "prelaunch" / "bundle.json").write_bytes(b"{}")
    second = run(root, python=python)

    assert (0, "", 2) == (first.code, failure, second.code)
    assert not (second.out / "health_check_metrics.json").exists()
    assert (second.out / before / "health_check_metrics.json").exists() and before != second.record["attempt"]


HOSTS = ("127.0.0.1", "127.0.0.2")
TELL = """
import json, os, sys
out, job = sys.argv[1:3]
node = os.environ["PRELAUNCH_NODE"]
said = {"attempt": os.environ["PRELAUNCH_ATTEMPT"], "roster": json.load(open(os.environ["PRELAUNCH_ROSTER"])), "job": job}
json.dump(said, open(os.path.join(out, node), "w"))
"""


def test_a_host_that_never_came_starts_nowhere(tmp_path: Path) -> None:
    """What meets its peers would wait for it: all hosts or none."""
    root = make_root(tmp_path, None, HOSTS, HOSTS[0])
    given = {"PRELAUNCH_PORT": str(free_port()), "PRELAUNCH_JOIN_S": "1"}
    ended = run(root, "exec", "--", "touch", str(tmp_path / "ran"), python=None, **given)

    assert (3, False, True) == (ended.code, (tmp_path / "ran").exists(), HOSTS[1] in ended.failure)


def test_long_commands_come_in_a_file(tmp_path: Path) -> None:
    """CreateTrainingJob takes 256 characters a word, and 100 words."""
    root, words = make_root(tmp_path, None), tmp_path / "command.json"
    words.write_text(json.dumps([sys.executable, "-c", f"assert {'x' * 500!r}; print('ran', '{{job}}')"]))
    ended = run(root, "exec", "--command-file", str(words))

    assert (0, True) == (ended.code, f"ran {root}" in ended.log)


@pytest.mark.parametrize(
    ("text", "said"), [(None, "cannot be read"), ("train", "no JSON list"), ("[]", "no JSON list")]
)
def test_a_command_file_that_is_none_is_rejected(tmp_path: Path, text: str | None, said: str) -> None:
    """Before anything starts."""
    words = tmp_path / "command.json"
    if text is not None:
        words.write_text(text)
    ended = run(make_root(tmp_path, None), "exec", "--command-file", str(words))

    assert (2, True) == (ended.code, said in ended.failure)


def test_sigterm_reaches_the_words(tmp_path: Path) -> None:
    """They may save; the agent says that it was stopped."""
    root = make_root(tmp_path, None)
    script = f"trap 'touch {tmp_path}/saved; exit 0' TERM; touch {root}/ready; while :; do sleep 0.1; done"
    with Agent(root, "exec", "--", "sh", "-c", script) as agent:
        agent.until("ready")
        agent.terminate()
        ended = agent.wait()

    assert (143, True, "SIGTERM") == (ended.code, (tmp_path / "saved").exists(), ended.record["signal"])


@pytest.mark.parametrize(("played", "left_out"), [({}, 2), ({"FAKE_127_0_0_1": "wrong"}, 0)])
def test_hosts_that_are_left_without_the_spare_start(
    tmp_path: Path, played: dict[str, str], left_out: int
) -> None:
    """In place of the last host, or under a token of their own in place of one that failed. The one that is left out ends well."""
    hosts, uploads = (*HOSTS, "127.0.0.3"), tmp_path / "uploads"
    given = {"PRELAUNCH_PORT": str(free_port()), "SM_HOSTS": json.dumps(hosts), **played}
    roots = [make_root(tmp_path, make_bundle(3, spares=1, network_s=60.0), hosts, host) for host in hosts]
    words = ("gate", "--upload", str(uploads), "--", "sh", "-c", "echo $SM_HOSTS $PRELAUNCH_NODELIST")
    python = fake_python(tmp_path)
    with (
        Agent(roots[1], *words, python=python, environment=given) as second,
        Agent(roots[2], *words, python=python, environment=given) as third,
    ):
        ended = (run(roots[0], *words, python=python, **given), second.wait(), third.wait())
    first = str(json.loads(next(roots[left_out].glob("output/data/*/agent/*")).read_bytes())["attempt"])
    token, left = (next_attempt(first) if played else first), [*hosts[:left_out], *hosts[left_out + 1 :]]

    assert [0, 0, 0] == [each.code for each in ended]
    assert {*left} == {path.name for path in (uploads / GATE / token / "started").glob("*")}
    assert "this node is left out of the training" == ended[left_out].record["reason"]
    for rank in {0, 1, 2} - {left_out}:
        assert f"{json.dumps(left)} {','.join(left)}" in ended[rank].log


def test_every_host_runs_the_words_and_knows_who_it_is(tmp_path: Path) -> None:
    """One token, one roster, the folders for {out} and {job}. What the words write is copied as it lies below the bundle's gate, and
    each host's record beside.
    """
    uploads = tmp_path / "uploads"
    given = {"PRELAUNCH_PORT": str(free_port()), "TRAINING_JOB_NAME": "job-7"}
    roots = [make_root(tmp_path, make_bundle(2), HOSTS, host) for host in HOSTS]
    for root in roots:
        (root / "output" / "data").mkdir(parents=True)
    words = ("exec", "--upload", str(uploads), "--", "{python}", "-c", TELL, "{out}", "{job}")
    with Agent(roots[1], *words, environment=given) as second:
        ended = (run(roots[0], *words, python=None, **given), second.wait())
    said = [json.loads((each.out / host).read_bytes()) for each, host in zip(ended, HOSTS, strict=True)]
    token = str(ended[0].record["attempt"])

    assert [0, 0] == [each.code for each in ended]
    assert said[0]["attempt"] == said[1]["attempt"] == token
    assert said[0]["roster"] == said[1]["roster"]
    assert [str(each.root / "input" / "data" / "prelaunch") for each in ended] == [one["job"] for one in said]
    assert not any((Path(one["job"]) / "exchange.key").exists() for one in said)
    assert {*HOSTS, token} == set(os.listdir(uploads / GATE))
    assert set(HOSTS) == {path.stem for path in (uploads / GATE / token / "agent").glob("*.json")}


@pytest.mark.parametrize("bundle", [None, b'{"hello": 1}'])
def test_without_a_usable_bundle_what_is_new_is_copied_below_the_jobs_name(
    tmp_path: Path, bundle: bytes | None
) -> None:
    """A container that started again on the same disk has files of the attempt before. The exit code is the words'."""
    root, uploads = make_root(tmp_path, bundle), tmp_path / "uploads"
    (root / "output" / "data" / "earlier" / "agent").mkdir(parents=True)
    (root / "output" / "data" / "earlier" / "agent" / "algo-1.json").write_text("{}")
    (root / "output" / "data" / "same").write_text("of then")
    words = ("--", "sh", "-c", "echo new > {out}/new; exit 7")
    ended = run(root, "exec", "--upload", str(uploads), *words, TRAINING_JOB_NAME="job-7")

    assert (7, "the command ended with exit code 7") == (ended.code, ended.failure)
    assert {"new", str(ended.record["attempt"])} == set(os.listdir(uploads / "job-7"))
