"""`prelaunch serve slack` and `prelaunch serve forms` as processes: what they say before they serve, and how they end.

And `prelaunch serve exporter`: it serves until it is told to end, on this machine only.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from checks.watch import commands as watch
from flows.cli import exporter
from flows.cli.main import main
from flows.cli.slack import SETTINGS
from tasks.orchestration.server.server import EmbeddedServer
from tasks.store.folder import FolderStore
from tests.fakes.slack.server import Failure
from tests.flows.cli.conftest import Run
from tests.flows.commissioning import write_cluster
from tests.flows.gates import processes_below
from tests.sample_reports import healthy
from tests.tasks.kept_gates import keep
from tests.tasks.monitoring.expositions import samples
from tests.tasks.slackbot.stage import ADA, Stage, stage
from tests.waiting import until
from tests.world import World
from tests.world_processes import until as until_logged

COMMAND = (sys.executable, "-m", "flows.cli.main", "serve", "slack")
ROOT = Path(__file__).parents[3]

SERVE = (sys.executable, "-m", "flows.cli.main", "serve", "forms")


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
@pytest.mark.usefixtures("prefect_backend")
def test_slack_command_serves_until_a_signal_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
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


@pytest.mark.usefixtures("prefect_backend")
def test_slack_that_cannot_be_reached_is_5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """Nothing was decided, and a supervisor may try again."""
    monkeypatch.setattr("tasks.slackbot.process.log_to_stderr", lambda: None)
    for key, value in SETTINGS.items():
        monkeypatch.setenv(key, value)  # the command sets them for good
    with stage(tmp_path, monkeypatch) as world:
        world.slack.fail(Failure.RESET, times=20, method="auth.test")
        code, out, err = run("serve", "slack", world.config)

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


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The list of a command that ends before Slack is called."""
    with stage(tmp_path, monkeypatch) as world:
        yield world.config
        assert [] == world.slack.calls


def test_slack_command_requires_a_prefect_server(
    config: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """An embedded server would run gates that nobody can reach."""
    monkeypatch.setenv("PREFECT_API_URL", "")
    ended = run("serve", "slack", config)

    assert 2 == ended.code and "no Prefect server is configured" in ended.err


def test_a_wrong_list_is_2_before_anybody_is_asked(config: Path, run: Run) -> None:
    """With file, key and the nearest word."""
    config.write_text(config.read_text().replace("users =", "user ="))
    ended = run("serve", "slack", config)

    assert 2 == ended.code and "gates.p5.user: unknown key. Did you mean 'users'?" in ended.err


def test_a_list_can_be_checked_without_serving(config: Path, run: Run) -> None:
    """Before it is put in place."""
    ended = run("serve", "slack", config, "--check")

    assert 0 == ended.code and "is valid: 1 gate(s)" in ended.err


@contextmanager
def serving(world: World, gates: Path, **more: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The process, once it has told its deployments, and what it writes."""
    log = gates / "serve.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            (*SERVE, "--gates", str(gates)), cwd=ROOT, env=world.environment(**more),
            stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        until_logged(lambda: b"Ctrl-C stops it" in log.read_bytes(), 60, log, "it serves", 0.1)
        yield process, log
    finally:
        process.kill()
        process.wait()


def deployment_of(log: Path, name: str) -> str:
    """The id in the page that it told."""
    found = re.search(rf"^{name}/here  \S*/([0-9a-f-]{{36}})", log.read_text(), re.MULTILINE)
    assert found is not None, log.read_text()
    return found.group(1)


@pytest.mark.long
def test_the_deployments_are_told_with_their_pages(world: World, tmp_path: Path) -> None:
    """Gate, commissioning, reap and remedy; SIGTERM ends it, and says 143."""
    write_cluster(tmp_path, "laptop")
    with serving(world, tmp_path) as (process, log):
        pages = [line for line in log.read_text().splitlines() if "/here  http" in line]
        held = world.api.get(f"/deployments/{deployment_of(log, 'gate')}").json()
        process.terminate()

        assert 143 == process.wait(60)
    assert ["gate/here", "commission/here", "reap/here", "remedy/here"] == [line.split()[0] for line in pages]
    fields = held["parameter_openapi_schema"]["definitions"]["GateRequest"]["properties"]
    assert (["laptop"], "prelaunch.gate") == (fields["gate_file"]["enum"], held["entrypoint"])
    assert "prelaunch" in held["tags"]


@pytest.mark.long
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_serve_cancels_running_gates_with_their_jobs(
    world: World, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """A terminal's Ctrl-C reaches the flow as well; either way no node and no lease is left, and the run is not Running."""
    write_cluster(tmp_path, "laptop", "hang")
    # Prefect's folder, as unusable as that of another user who served before.
    (tmp_path / "runner_storage").touch()
    with serving(world, tmp_path, TMPDIR=str(tmp_path)) as (process, log):
        run = world.start(deployment_of(log, "gate"), {"request": {"gate_file": "laptop"}})
        nodes = "laptop/store/**/nodes/*/runs"
        until_logged(lambda: list(tmp_path.glob(nodes)), 40, log, "its nodes run", 0.2)
        if number is signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)

        assert code == process.wait(60), log.read_text()
    text = log.read_text()
    assert 1 == text.count("prelaunch: stopped serving. What still ran was cancelled"), text
    assert world.run(run)["state_type"] in (("CANCELLED",) if code == 143 else ("CANCELLED", "CRASHED"))
    assert [] == processes_below(tmp_path / "laptop")
    assert [] == list(tmp_path.glob("laptop/store/leases/*.json"))


@pytest.mark.parametrize(
    ("url", "gates", "said"),
    [
        ("", "deployments/gates", "no Prefect server is configured"),
        ("http://127.0.0.1:9/api", "deployments/nowhere", "there is no gate file in"),
    ],
)
def test_serve_rejects_unusable_settings_with_the_remedy(
    run: Run, monkeypatch: pytest.MonkeyPatch, url: str, gates: str, said: str
) -> None:
    """Before Prefect is asked: exit code 2. What this process starts later gets no folder of a command that was refused."""
    monkeypatch.setenv("PREFECT_API_URL", url)
    before = dict(os.environ)
    ended = run("serve", "forms", "--gates", gates)

    assert (2, "") == (ended.code, ended.out)
    assert said in ended.err and ("--gates" in ended.err or "PREFECT_API_URL=" in ended.err)
    assert before == dict(os.environ)


@contextmanager
def served(*words: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The process and its port."""
    argv = (sys.executable, "-m", "flows.cli.main", "serve", "exporter", *words, "--listen", "127.0.0.1:0")
    with subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.PIPE, text=True, env=os.environ) as process:
        assert process.stderr is not None
        try:
            said = process.stderr.readline()
            found = re.search(r"http://127\.0\.0\.1:(\d+)/metrics", said)
            assert found, said
            yield process, int(found[1])
        finally:
            process.kill()


def values(port: int) -> dict[str, float]:
    """The samples without labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        return {one.name: one.value for one in samples(answer.read().decode()) if not one.labels}


def test_exporter_serves_until_a_signal_ends_it(tmp_path: Path) -> None:
    """A gate that ends meanwhile is in the next scrape."""
    store = FolderStore(tmp_path)
    with served(str(tmp_path)) as (process, port):
        assert {"prelaunch_store_readable": 0.0} == values(port)
        keep(store, 0, healthy())
        assert 1.0 == values(port)["prelaunch_store_readable"]
        process.send_signal(signal.SIGTERM)

        assert 143 == process.wait(60)


def test_exporters_listen_on_this_machine_unless_somebody_says_otherwise() -> None:
    """There is no password."""
    assert {"127.0.0.1"} == {one.LISTEN.partition(":")[0] for one in (exporter, watch)}


@pytest.mark.parametrize(
    "words", [("--listen", "9403"), ("--listen", "a:99999"), ("https://x/y",), ("no-such.toml",)]
)
def test_words_that_are_wrong_are_refused(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With exit code 2."""
    monkeypatch.chdir(tmp_path)

    assert 2 == main(["serve", "exporter", *words])


def test_an_address_that_is_taken_is_five(tmp_path: Path) -> None:
    """As a service that has no room."""
    keep(FolderStore(tmp_path), 0, healthy())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert 5 == main(["serve", "exporter", str(tmp_path), "--listen", address])
