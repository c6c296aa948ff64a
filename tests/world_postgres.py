"""PostgreSQL for the world of tests.world, from a migrated template that is kept in pytest's cache folder.

The migrations of Prefect's server take 15 s; a copy of what they made takes less than one. The template is keyed on the
versions of both and on the work pool's file, so that another version makes another.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

from tests.tasks.store.postgres import Postgres, binary, postgres
from tests.world_processes import PREFECT, Server

SERVER_DATABASE = "prefect"
POOL = "prelaunch"
POOL_FILE = Path(__file__).parents[1] / "deployments" / "server" / "pool.json"


@contextlib.contextmanager
def migrated(cache: Path, environment: Mapping[str, str]) -> Iterator[tuple[Postgres, Path]]:
    """A server that holds Prefect's tables, the pool "prelaunch", and a home folder for Prefect.

    The home is the template's: it must be copied. `environment` is what Prefect's server gets to migrate with.
    """
    made = _template(cache, environment)
    with postgres(template=made / "data") as running:
        yield running, made / "home"


def _template(cache: Path, environment: Mapping[str, str]) -> Path:
    """Its folder; made first where there is none. One process makes it, the others wait."""
    installed = Path(binary("postgres")).parent.parent.name
    pool = hashlib.sha256(POOL_FILE.read_bytes()).hexdigest()[:8]
    folder = cache / f"world-of-postgresql-{installed}-prefect-{version('prefect')}-{pool}"
    with open(cache / "world.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "finished").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            _make(folder, environment)
            (folder / "finished").touch()
    return folder


def _make(folder: Path, environment: Mapping[str, str]) -> None:
    import psycopg

    home = folder / "home"
    home.mkdir()
    with postgres(keep=folder / "data") as running:
        with psycopg.connect(running.url.replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {SERVER_DATABASE}")
        server = Server(folder, {**environment, **of_database(running), "PREFECT_HOME": str(home)})
        try:
            server.start()
            words = (*PREFECT, "--no-prompt", "work-pool", "create", POOL, "--type", "process")
            from_file = ("--base-job-template", str(POOL_FILE))
            own = {"PREFECT_HOME": str(home), "PREFECT_API_URL": server.url}
            client, null = {**environment, **own, **_password(environment)}, subprocess.DEVNULL
            subprocess.run((*words, *from_file), env=client, cwd=folder, check=True, stdout=null)
        finally:
            server.stop()


def of_database(running: Postgres) -> dict[str, str]:
    """What tells Prefect's server its database."""
    return {"PREFECT_SERVER_DATABASE_CONNECTION_URL": running.database(SERVER_DATABASE, "asyncpg")}


def _password(environment: Mapping[str, str]) -> dict[str, str]:
    auth = environment.get("PREFECT_SERVER_API_AUTH_STRING")
    return {"PREFECT_API_AUTH_STRING": auth} if auth else {}
