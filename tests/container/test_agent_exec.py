"""`exec -- WORDS`: the words on every host, each knowing who it is, without checks."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.container.agents import GATE, Agent, free_port, make_bundle, make_root, run

HOSTS = ("127.0.0.1", "127.0.0.2")
TELL = """
import json, os, sys
out, job = sys.argv[1:3]
node = os.environ["PRELAUNCH_NODE"]
said = {"attempt": os.environ["PRELAUNCH_ATTEMPT"], "roster": json.load(open(os.environ["PRELAUNCH_ROSTER"])), "job": job}
json.dump(said, open(os.path.join(out, node), "w"))
"""
WORDS = ("--", "{python}", "-c", TELL, "{out}", "{job}")


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


def test_every_host_runs_the_words_and_knows_who_it_is(tmp_path: Path) -> None:
    """One token, one roster, the folders for {out} and {job}. What the words write is copied as it lies below the bundle's gate, and
    each host's record beside.
    """
    uploads = tmp_path / "uploads"
    given = {"PRELAUNCH_PORT": str(free_port()), "TRAINING_JOB_NAME": "job-7"}
    roots = [make_root(tmp_path, make_bundle(2), HOSTS, host) for host in HOSTS]
    for root in roots:
        (root / "output" / "data").mkdir(parents=True)
    words = ("exec", "--upload", str(uploads), *WORDS)
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
