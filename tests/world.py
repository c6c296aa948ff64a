"""A real world for tests: PostgreSQL, Prefect's server with all its services, workers. tests/conftest.py has the fixtures.

    world         (session) World: the server runs; the settings of this process are untouched; no worker runs.
    at_world      (function) the same World, and Prefect in this process speaks to it: `get_client()`, flows, automations.
    world_worker  (session) the World, and a worker of the pool "prelaunch"; a test that ends workers makes its own:
                  with world.worker(pool=world.pool("mine")) as worker: worker.kill()
    new_world     (function) makes a World of the test's own: new_world(auth="admin:x", settings={"PREFECT_...": "..."})

    deployment = world.deploy("flows/gate.py:gate", "NAME", tags=["x"], concurrency_limit=1)      its id
    run = world.start(deployment, {"request": {...}}, env={"FAKE_NODE": "wrong"})                 its id
    world.wait(run, "Completed")   the flow run, as the REST API shows it; names or types of states
    world.run(run), world.wait_log(run, "..."), world.artifacts(run), world.events("prefect.flow-run.", run), world.resume(run, {...})
    world.environment()      for a subprocess that is to speak to the server (a CLI, `prefect deploy`)
    world.api                httpx.Client of the REST API: world.api.post("/flow_runs/filter", json={...}).json()
    world.server.restart() / kill() / start(); world.url, world.ui_url, world.log

One server serves all tests of a process: name deployments, pools, clusters and automations after the test. With xdist, all
files that import this module go to one worker (tests/conftest.py). What is told to the processes comes from
deployments/server/*.env; the heartbeats and polls are the product's own.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from tasks.orchestration.server.server import drain_client
from tasks.orchestration.server.settings import client_environment, server_environment
from tests.prefect_backend import _settings
from tests.tasks.store.postgres import Postgres
from tests.world_postgres import POOL, migrated, of_database
from tests.world_processes import Server, Worker, end_marked, tail, until, worker_argv

ROOT = Path(__file__).parents[1]
SETTINGS = ROOT / "deployments" / "server"
WORLD_MARK = "PRELAUNCH_TEST_WORLD"
FINAL = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
Json = dict[str, Any]


class World:
    """A server on a database, its clients and its workers. Made by `a_world`."""

    def __init__(self, folder: Path, database: Postgres, server: Server, mark: str, auth: str) -> None:
        self.folder, self.database, self.server = folder, database, server
        self.url, self.log = server.url, server.log
        self.ui_url = server.url.removesuffix("/api")
        self.auth = auth
        self.mark = mark
        self._workers = itertools.count()
        self.api = httpx.Client(base_url=self.url, auth=_basic(auth), timeout=120, trust_env=False)

    def environment(self, **more: str) -> dict[str, str]:
        """The whole environment of a process that speaks to the server: what a worker and a CI job get."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        client = client_environment(self.url, self.auth, self.folder / "home", kept)
        # What the embedded server's one client needs, and nobody else.
        for name in ("PREFECT_CLIENT_MAX_RETRIES", "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"):
            client.pop(name)
        return {**kept, **client, **settings_of("runner.env"), WORLD_MARK: self.mark, **more}

    @contextlib.contextmanager
    def here(self) -> Iterator[None]:
        """Prefect in this process speaks to the server for the time of the block."""
        ours = ("PREFECT_", "NO_PROXY", "no_proxy")
        prefect = {name: value for name, value in self.environment().items() if name.startswith(ours)}
        with _settings(prefect), pytest.MonkeyPatch.context() as patch:
            # Prefect never closes the client it asks with here: a ResourceWarning in some later test.
            patch.setattr("prefect.results._read_server_default_result_storage_block_id", lambda: None)
            yield
            drain_client(5)

    def pool(self, name: str) -> str:
        """A process pool of this name; made where there is none."""
        template = self._get(f"/work_pools/{POOL}")["base_job_template"]
        body = {"name": name, "type": "process", "base_job_template": template}
        answer = self.api.post("/work_pools/", json=body)
        assert answer.status_code in (201, 409), answer.text
        return name

    @contextlib.contextmanager
    def worker(
        self, pool: str = POOL, limit: int = 0, argv: tuple[str, ...] = (), **environment: str
    ) -> Iterator[Worker]:
        """A worker that is online; it and all that it started are ended afterwards. `argv`: another way to start it."""
        name = f"{self.mark[:8]}-{next(self._workers)}"
        words = (*(argv or worker_argv(pool)), "--name", name, *(("--limit", str(limit)) if limit else ()))
        made = Worker(self.folder, name, words, self.environment(TMPDIR=str(self.folder), **environment))
        try:
            begun = lambda: self._online(pool, name) or not made.alive  # noqa: E731 - a name for the line below
            until(begun, 60, made.log, "the worker is online", 0.1)
            assert made.alive, f"the worker ended: {tail(made.log)}"
            yield made
        finally:
            made.end()

    def deploy(
        self, entrypoint: str, name: str, *, folder: Path = ROOT, pool: str = POOL, **options: Any
    ) -> str:
        """A deployment of `folder`/`entrypoint` for a pool; `options` as Flow.deploy takes them. Its id."""
        with self.here():
            from prefect import Flow

            flow = cast("Flow[..., Any]", Flow.from_source(source=str(folder), entrypoint=entrypoint))
            quiet: Json = {"build": False, "push": False, "print_next_steps": False, "ignore_warnings": True}
            return str(flow.deploy(name, work_pool_name=pool, **quiet, **options))

    def start(
        self, deployment: str, parameters: Json | None = None, env: Mapping[str, str] | None = None
    ) -> str:
        """A run of a deployment, as its form or a pipeline orders one; `env` is added to its process. Its id."""
        body = {
            "parameters": parameters or {},
            "state": {"type": "SCHEDULED"},
            "enforce_parameter_schema": True,
            "job_variables": {"env": dict(env)} if env else {},
        }
        return str(self._post(f"/deployments/{deployment}/create_flow_run", body)["id"])

    def wait(self, run: str, *states: str, timeout_s: float = 240) -> Json:
        """The flow run once it is in one of these (names or types); without any: once it ended.

        Fails in time, and at once where it ended in another state, with its last log lines.
        """
        wanted = states or FINAL

        def reached() -> bool:
            now = self.run(run)
            return bool({now["state_name"], now["state_type"]} & {*wanted, *FINAL})

        try:
            until(reached, timeout_s, self.log, f"run {run} is {' or '.join(wanted)}", 0.1)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._said(run)}") from None
        now = self.run(run)
        assert {now["state_name"], now["state_type"]} & set(wanted), f"ended not {wanted}: {self._said(run)}"
        return now

    def run(self, run: str) -> Json:
        """The flow run as it is now."""
        return self._get(f"/flow_runs/{run}")

    def logs(self, run: str) -> list[str]:
        """Its log lines, oldest first. They reach the server in batches, seconds after the run's end."""
        chosen = {"logs": {"flow_run_id": {"any_": [run]}}, "sort": "TIMESTAMP_ASC"}
        return [line["message"] for line in self._all("/logs/filter", chosen)]

    def wait_log(self, run: str, line: str, timeout_s: float = 240) -> None:
        """Until this line of the run has reached the server."""
        until(lambda: line in self.logs(run), timeout_s, self.log, f"the line {line!r}", 0.2)

    def artifacts(self, run: str) -> list[Json]:
        """Its artifacts: key, type, description, data."""
        return self._all("/artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [run]}}})

    def events(self, prefix: str, run: str = "") -> list[Json]:
        """Events whose name begins so, oldest first; with `run`, those of or about it. They appear within 2 s."""
        chosen: Json = {"event": {"prefix": [prefix]}, "order": "ASC"}
        if run:
            chosen["any_resource"] = {"id": [f"prefect.flow-run.{run}"]}
        return cast("list[Json]", self._post("/events/filter", {"filter": chosen, "limit": 50})["events"])

    def wait_events(self, prefix: str, run: str = "", count: int = 1, timeout_s: float = 240) -> list[Json]:
        """The events, once there are this many."""
        enough = lambda: len(self.events(prefix, run)) >= count  # noqa: E731 - a name for the line below
        until(enough, timeout_s, self.log, f"{count} events {prefix}*", 0.2)
        return self.events(prefix, run)

    def resume(self, run: str, answers: Json | None = None) -> Json:
        """What the form of a paused run sends; the server's answer ("status" ACCEPT or REJECT)."""
        body: Json = {"run_input": answers} if answers is not None else {}
        return cast("Json", self._post(f"/flow_runs/{run}/resume", body))

    def set_state(self, run: str, kind: str, name: str = "", force: bool = False) -> Json:
        """Ask for a state: "CANCELLING" is what the button Cancel sends."""
        state = {"type": kind, "name": name or kind.capitalize()}
        return cast("Json", self._post(f"/flow_runs/{run}/set_state", {"state": state, "force": force}))

    def close(self) -> None:
        """End everything that bears this world's mark."""
        self.api.close()
        self.server.stop()
        end_marked(WORLD_MARK, self.mark)

    def _said(self, run: str) -> str:
        now = self.run(run)
        logs = "\n".join(self.logs(run)[-15:])
        workers = "\n".join(tail(path, 15) for path in sorted(self.folder.glob(f"{self.mark[:8]}-*.log")))
        state = f"{now['name']}: {now['state_name']}: {now['state']['message']}"
        return f"{state}\n{logs}\n-- workers --\n{workers}"

    def _online(self, pool: str, name: str) -> bool:
        answer = self.api.post(f"/work_pools/{pool}/workers/filter", json={})
        found = answer.json() if answer.status_code == 200 else []
        return any(item["name"] == name and item["status"] == "ONLINE" for item in found)

    def _all(self, path: str, chosen: Json) -> list[Json]:
        found: list[Json] = []
        while page := cast("list[Json]", self._post(path, {**chosen, "offset": len(found), "limit": 200})):
            found += page
        return found

    def _get(self, path: str) -> Json:
        answer = self.api.get(path)
        assert answer.is_success, f"GET {path}: {answer.status_code} {answer.text}"
        return cast("Json", answer.json())

    def _post(self, path: str, body: Json) -> Any:
        answer = self.api.post(path, json=body)
        assert answer.is_success, f"POST {path}: {answer.status_code} {answer.text}"
        return answer.json()


@contextlib.contextmanager
def a_world(cache: Path, auth: str = "", settings: Mapping[str, str] | None = None) -> Iterator[World]:
    """A world of one's own. `auth` is USER:PASSWORD of the API; `settings` are added to the server's."""
    mark = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="prelaunch-world-") as name:
        folder = Path(name)
        environment = {**_of_server(folder / "home", auth), **(settings or {}), WORLD_MARK: mark}
        with migrated(cache, environment) as (database, home):
            shutil.copytree(home, folder / "home")
            server = Server(folder, {**environment, **of_database(database)})
            world = World(folder, database, server, mark, auth)
            try:
                server.start()
                yield world
            finally:
                world.close()


def settings_of(file: str) -> dict[str, str]:
    """The settings of a file in deployments/server: NAME=VALUE lines, as systemd and compose read them."""
    lines = (SETTINGS / file).read_text(encoding="utf-8").splitlines()
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}


@pytest.fixture(scope="session")
def world_cache(pytestconfig: pytest.Config) -> Path:
    """Where the migrated template is kept from one test session to the next."""
    return pytestconfig.cache.mkdir("prefect")


@pytest.fixture(scope="session")
def world(world_cache: Path) -> Iterator[World]:
    """The server of this session."""
    with a_world(world_cache) as made:
        yield made


@pytest.fixture
def at_world(world: World) -> Iterator[World]:
    """The server, and this process's Prefect set to use it."""
    with world.here():
        yield world


@pytest.fixture(scope="session")
def world_worker(world: World) -> Iterator[World]:
    """The server, and a worker of the pool "prelaunch" that nobody ends."""
    with world.worker():
        yield world


@pytest.fixture
def new_world(world_cache: Path) -> Iterator[Callable[..., World]]:
    """Makes a World of the test's own, as `a_world` does; all are ended with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda **options: stack.enter_context(a_world(world_cache, **options))


def _of_server(home: Path, auth: str) -> dict[str, str]:
    """What the product's server.env says, without a person's own settings; events are written at once."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    private = server_environment(Path("unused"), auth, home, kept)
    places = ("PREFECT_HOME", "PREFECT_PROFILE", "PREFECT_PROFILES_PATH")
    names = ("DO_NOT_TRACK", *places, "PREFECT_SERVER_EPHEMERAL_ENABLED")
    said = {**settings_of("server.env"), "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_FLUSH_INTERVAL": "1"}
    if auth:
        said["PREFECT_SERVER_API_AUTH_STRING"] = auth
    return {**kept, **{name: private[name] for name in names}, **said}


def _basic(auth: str) -> httpx.BasicAuth | None:
    user, _, password = auth.partition(":")
    return httpx.BasicAuth(user, password) if auth else None
