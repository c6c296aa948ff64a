"""deployments/server: what is shipped there is well-formed, says what Prefect knows, and starts what it promises."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from checks.process.free_ports import free_port
from tests.linters import finds_nothing
from tests.programs import executable
from tests.tasks.store.postgres import PASSWORD, Postgres, binary, postgres
from tests.world import SETTINGS, WORLD_MARK, World, settings_of
from tests.world_processes import Server

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((SETTINGS / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
README = (SETTINGS / "README.md").read_text()
UNITS = ("prelaunch-server", "prelaunch-worker")
BIN = Path(sys.executable).parent


def unit(name: str, folder: Path = SETTINGS) -> dict[str, list[str]]:
    """What a unit file says, each key with all its values."""
    found: dict[str, list[str]] = {}
    for line in (folder / f"{name}.service").read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


@pytest.mark.parametrize("file", ["server.env", "runner.env"])
def test_prefect_knows_every_setting_and_takes_its_value(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that Prefect does not know would be passed over without a word."""
    from prefect.settings.models.root import Settings

    for name in [name for name in os.environ if name.startswith("PREFECT_")]:
        monkeypatch.delenv(name)
    said = {name: value for name, value in settings_of(file).items() if name != "DO_NOT_TRACK"}
    for name, value in said.items():
        monkeypatch.setenv(name, value)

    known = Settings().to_environment_variables(exclude_unset=True)

    assert sorted(said) == sorted(name for name in said if name in known)


@pytest.mark.parametrize("file", ["server.env", "runner.env"])
def test_server_settings_disable_telemetry(file: str) -> None:
    """On both sides."""
    said = settings_of(file)

    assert ("1", "false") == (said["DO_NOT_TRACK"], said["PREFECT_SERVER_ANALYTICS_ENABLED"])


def test_the_pool_differs_from_prefects_in_its_output_alone() -> None:
    """A later Prefect's new variables are noticed here."""
    import json

    from prefect.workers.process import ProcessWorker

    ours = json.loads((SETTINGS / "pool.json").read_text())
    theirs = ProcessWorker.get_default_base_job_template()
    output = theirs["variables"]["properties"]["stream_output"]
    output.update(default=False, description=ours["variables"]["properties"]["stream_output"]["description"])

    assert theirs == ours


def test_every_service_starts_again_is_looked_at_and_keeps_its_logs_small() -> None:
    """The one that ends by itself is started again where it failed, and has nothing to look at."""
    kept = {
        name: (each["restart"], "healthcheck" in each, "logging" in each) for name, each in SERVICES.items()
    }

    assert {
        "postgres": ("unless-stopped", True, True),
        "server": ("unless-stopped", True, True),
        "setup": ("on-failure", False, True),
        "worker": ("unless-stopped", True, True),
    } == kept


def test_only_loopback_ports_are_published() -> None:
    """Whoever wants more says so."""
    ports = [port for each in SERVICES.values() for port in each.get("ports", [])]

    assert ["127.0.0.1:4200:4200"] == ports


def test_every_image_names_its_version() -> None:
    """None of them is a moving tag; test_release holds that ours is the project's."""
    images = {each["image"] for each in SERVICES.values()}
    base = re.findall(r"^FROM (\S+)", (SETTINGS / "Dockerfile").read_text(), re.M)

    pinned = re.compile(r":\d+\.\d+(\.\d+)?(-[a-z-]+)?$")
    assert [] == [image for image in [*images, *base] if not pinned.search(image)]


def test_the_folder_holds_no_secret() -> None:
    """Each password is asked for by name, and the example leaves it empty."""
    names = set(re.findall(r"\$\{(\w+)", (SETTINGS / "compose.yaml").read_text()))

    assert dict.fromkeys(sorted(names), "") == dict(sorted(settings_of(".env.example").items()))
    assert {"POSTGRES_PASSWORD", "PREFECT_PASSWORD"} == names


def test_volumes_and_files_that_are_named_exist() -> None:
    """A name with an error would be made anew, and empty."""
    named = [volume.partition(":")[0] for each in SERVICES.values() for volume in each.get("volumes", [])]
    files = [file for each in SERVICES.values() for file in each.get("env_file", []) if isinstance(file, str)]

    assert set(COMPOSE["volumes"]) == {name for name in named if not name.startswith(".")}
    assert [] == [name for name in [*files, *named] if "." in name and not (SETTINGS / name).is_file()]
    built = [each["build"]["dockerfile"] for each in SERVICES.values() if "build" in each]
    assert all((ROOT / name).is_file() for name in built)


def test_the_pages_ask_the_server_that_they_came_from() -> None:
    """Behind a proxy or a tunnel there is no 127.0.0.1:4200 on the reader's machine."""
    elsewhere = [name for name in SERVICES["server"]["environment"] if name.endswith("UI_API_URL")]

    assert ("/api", []) == (settings_of("server.env")["PREFECT_SERVER_UI_API_URL"], elsewhere)


def test_a_worker_may_write_the_store_of_the_shipped_gate_files() -> None:
    """By hand the folder is made for the unit's user; a container's belongs to its user, and outlives it."""
    user, dockerfile = unit("prelaunch-worker")["User"][0], (SETTINGS / "Dockerfile").read_text()

    assert f"install -d -o {user} -g {user} -m 750 /opt/prelaunch/.prelaunch\n" in README
    assert f"install --directory --owner {user} --mode 750 /opt/prelaunch/.prelaunch\n" in dockerfile
    assert "store:/opt/prelaunch/.prelaunch" in SERVICES["worker"]["volumes"]


def test_containers_and_units_run_the_same_commands() -> None:
    """But for the address inside a container, and its health."""
    server = unit("prelaunch-server")["ExecStart"][0].split()[1:]
    worker = unit("prelaunch-worker")["ExecStart"][0].split()[1:]

    assert [word.replace("127.0.0.1", "0.0.0.0") for word in server] == SERVICES["server"]["command"][1:]
    assert [*worker, "--with-healthcheck"] == SERVICES["worker"]["command"][1:]
    page = (ROOT / "docs" / "server.md").read_text()
    pool = next(line for line in page.splitlines() if "work-pool create" in line).split()[1:]
    moved = [word.replace("deployments/", "/opt/prelaunch/deployments/") for word in pool]
    assert moved == SERVICES["setup"]["command"][1:]


def test_hadolint_finds_nothing() -> None:
    """With nothing ignored."""
    finds_nothing("hadolint", SETTINGS / "Dockerfile")


@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize("name", UNITS)
def test_systemd_takes_the_unit(name: str, tmp_path: Path) -> None:
    """As if this checkout were the one in /opt."""
    path, programs = tmp_path / f"{name}.service", tmp_path / "bin"
    programs.symlink_to(BIN)  # systemd takes no blank in a path
    text = (SETTINGS / f"{name}.service").read_text()
    path.write_text(text.replace("/opt/prelaunch/.venv/bin", str(programs)).replace("postgresql.service", ""))
    done = subprocess.run(("systemd-analyze", "verify", path), capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stderr)


def test_the_page_s_way_without_systemd_gives_a_worker_what_it_needs(tmp_path: Path) -> None:
    """The block of docs/server.md, in a shell that ignores signals as the background of a script does."""
    page = (ROOT / "docs" / "server.md").read_text().split("## Start a worker")[1]
    block = re.findall(r"```bash\n(.*?)```", page, re.DOTALL)[0]
    shutil.copytree(SETTINGS, tmp_path / "deployments" / "server")
    executable(tmp_path / "prefect", '#!/bin/sh\necho "$@"\nenv\ngrep SigIgn /proc/self/status\n')
    argv = ("env", "--ignore-signal=INT,TERM", "bash", "-c", block)
    own = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(argv, cwd=tmp_path, env=own, capture_output=True, text=True, check=True)
    words, *lines = done.stdout.splitlines()
    ignored = int(lines.pop().split()[1], 16)

    assert "worker start --pool prelaunch --limit 10" == words
    assert {f"{name}={value}" for name, value in settings_of("runner.env").items()} <= set(lines)
    assert f"PRELAUNCH_GATES={tmp_path}/deployments/gates" in lines
    assert not ignored & (1 << (signal.SIGTERM - 1) | 1 << (signal.SIGINT - 1))


def test_a_stopped_worker_leaves_its_gates_alone() -> None:
    """systemd ends the worker's own process, in the one way that the worker cannot hand on."""
    said = unit("prelaunch-worker")

    assert (["process"], ["SIGKILL"], ["continue"]) == (
        said["KillMode"],
        said["KillSignal"],
        said["OOMPolicy"],
    )


@pytest.mark.long
def test_the_way_by_hand_starts_a_server_and_a_worker(tmp_path: Path) -> None:
    """The README's commands and the units' own, with other folders and ports; a run goes through them.

    What changes this machine is not run: packages, users, files in /etc, systemctl.
    """
    with postgres() as database, _by_hand(tmp_path, database) as world:
        assert 401 == httpx.post(f"{world.url}/flows/filter", json={}, trust_env=False).status_code
        words = unit("prelaunch-worker")["ExecStart"][0].split()
        with world.worker(argv=(str(BIN / "prefect"), *words[1:])) as worker:
            (tmp_path / "probe.py").write_text(PROBE)
            run = world.start(world.deploy("probe.py:probe", "by-hand", folder=tmp_path))
            world.wait(run, "RUNNING")
            os.kill(worker.pid, signal.Signals[unit("prelaunch-worker")["KillSignal"][0]])
            world.wait(run, "Completed")

    assert [] == [word for word in ("amplitude", "sens-o-matic") if word in world.log.read_text()]


PROBE = """
import time
from prefect import flow, get_run_logger

@flow
async def probe():
    for number in range(6):
        get_run_logger().info("step %d", number)
        time.sleep(1)
"""


@contextlib.contextmanager
def _by_hand(folder: Path, database: Postgres) -> Iterator[World]:
    """The server of the README's commands, its pool made."""
    port, mark = free_port(), uuid.uuid4().hex
    access = {**os.environ, "PGHOST": "127.0.0.1", "PGPORT": str(httpx.URL(database.url).port)}
    access |= {"PGUSER": "postgres", "PGPASSWORD": PASSWORD}
    for line in _commands("sudo -u postgres "):
        argv = line.split()
        subprocess.run(
            (binary(argv[0]), *argv[1:]),
            env=access,
            input="pw\npw\n",
            text=True,
            check=True,
            start_new_session=True,
        )
    given = {
        "DATABASE-PASSWORD": "pw",
        "API-PASSWORD": "secret",
        ":5432": f":{access['PGPORT']}",
        ":4200": f":{port}",
    }
    blocks = [_replaced(block, given) for block in re.findall(r"```ini\n(.*?)```", README, re.S)]
    server, client = (dict(line.split("=", 1) for line in block.splitlines()) for block in blocks)
    home = {"PREFECT_HOME": str(folder / "home"), WORLD_MARK: mark}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    words = _replaced(unit("prelaunch-server")["ExecStart"][0], {"4200": str(port)}).split()[1:]
    made = Server(
        folder, {**kept, **home, **settings_of("server.env"), **server}, (str(BIN / "prefect"), *words), port
    )
    world = World(folder, database, made, mark, client["PREFECT_API_AUTH_STRING"])
    try:
        made.start()
        for words in _deploying():
            environment = {**kept, **home, **settings_of("runner.env"), **client}
            subprocess.run((BIN / "prefect", *words), cwd=ROOT, env=environment, check=True)
        yield world
    finally:
        world.close()


def _deploying() -> list[list[str]]:
    """The arguments of the commands of `prefect` with which docs/server.md makes the pool and the deployments."""
    page = (ROOT / "docs" / "server.md").read_text().split("## Set up")[1]
    block = re.findall(r"```bash\n(.*?)```", page, re.S)[0]
    found = [shlex.split(line)[1:] for line in block.splitlines() if line.startswith("prefect ")]
    verbs = [[word for word in words if word != "--no-prompt"][:2] for words in found]
    assert [["work-pool", "create"], ["work-pool", "update"], ["deploy", "--all"]] == verbs
    return found


def _commands(beginning: str) -> list[str]:
    by_hand = README[README.index("## By hand") : README.index("## Stop a worker")]
    lines = [line for block in re.findall(r"```bash\n(.*?)```", by_hand, re.S) for line in block.splitlines()]
    found = [line.removeprefix(beginning) for line in lines if line.startswith(beginning)]
    assert found, f"the README has no {beginning}"
    return found


def _replaced(text: str, changes: dict[str, str]) -> str:
    for old, new in changes.items():
        text = text.replace(old, new)
    return text
