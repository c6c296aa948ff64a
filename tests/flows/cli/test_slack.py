"""`prelaunch slack` as a process: what it says before it serves, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import pytest

from flows.cli.main import main
from flows.cli.slack import SETTINGS
from tasks.orchestration.server.server import EmbeddedServer
from tests.fakes.slack.server import Failure
from tests.flows.cli.conftest import Run
from tests.tasks.slackbot.stage import ADA, Stage, stage, until

COMMAND = (sys.executable, "-m", "flows.cli.main", "slack")
ROOT = Path(__file__).parents[3]


def started(
    world: Stage, environment: Mapping[str, str], said: IO[str] | int = subprocess.PIPE
) -> subprocess.Popen[str]:
    """The command, as systemd would start it. `said` gets its stderr."""
    return subprocess.Popen(
        (*COMMAND, str(world.config)),
        cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=said, text=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.long)]
)
def test_slack_command_serves_until_a_signal_ends_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    prefect_backend: EmbeddedServer,
    number: signal.Signals,
    code: int,
) -> None:
    """It ends, says nothing on stdout, and no secret on stderr."""
    said = tmp_path / "stderr.txt"
    with stage(tmp_path, monkeypatch) as world, said.open("w", encoding="utf-8") as file:
        process = started(world, {}, file)
        try:
            world.socket.wait_connected()
            world.socket.command(ADA, "help")
            world.socket.answered(1)
            until(lambda: "serving p5" in said.read_text(encoding="utf-8"), "the line that it serves")
            process.send_signal(number)
            out, _ = process.communicate()
        finally:
            process.kill()
            process.wait()
        err = said.read_text(encoding="utf-8")

        assert (code, "") == (process.returncode, out), err
        assert "serving p5" in err
        assert not [word for word in (world.slack.token, world.slack.app_token, "ticket=") if word in err]


def test_slack_that_cannot_be_reached_is_5(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefect_backend: EmbeddedServer, run: Run
) -> None:
    """Nothing was decided, and a supervisor may try again."""
    monkeypatch.setattr("tasks.slackbot.process.log_to_stderr", lambda: None)
    for key, value in SETTINGS.items():
        monkeypatch.setenv(key, value)  # the command sets them for good
    with stage(tmp_path, monkeypatch) as world:
        world.slack.fail(Failure.RESET, times=20, method="auth.test")
        code, out, err = run("slack", world.config)

    assert (5, "") == (code, out), err
    assert "prelaunch: Slack at http://127.0.0.1:" in err and "does not answer auth.test" in err


@pytest.mark.long
def test_a_prefect_server_that_cannot_be_reached_is_5(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefect_backend: EmbeddedServer
) -> None:
    """It says which setting to look at."""
    with stage(tmp_path, monkeypatch) as world:
        process = started(world, {"PREFECT_API_URL": "http://127.0.0.1:1/api"})
        out, err = process.communicate()

    assert (5, "") == (process.returncode, out), err
    assert "Prefect's server does not answer" in err and "PREFECT_API_URL" in err


def test_slack_command_requires_a_prefect_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """An embedded server would run gates that nobody can reach."""
    monkeypatch.setenv("PREFECT_API_URL", "")
    with stage(tmp_path, monkeypatch) as world:
        assert 2 == main(["slack", str(world.config)])
        assert [] == world.slack.calls

    assert "no Prefect server is configured" in capfd.readouterr().err


def test_a_wrong_list_is_2_before_anybody_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With file, key and the nearest word."""
    with stage(tmp_path, monkeypatch) as world:
        world.config.write_text(world.config.read_text().replace("users =", "user ="))
        assert 2 == main(["slack", str(world.config)])
        assert [] == world.slack.calls

    assert "gates.p5.user: unknown key. Did you mean 'users'?" in capfd.readouterr().err


def test_a_list_can_be_checked_without_serving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Before it is put in place."""
    with stage(tmp_path, monkeypatch) as world:
        assert 0 == main(["slack", str(world.config), "--check"])
        assert [] == world.slack.calls

    assert "is valid: 1 gate(s)" in capfd.readouterr().err
