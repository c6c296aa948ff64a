"""A real Prefect server for tests: the fixtures `prefect_backend` and `template_dir`, which tests/conftest.py alone imports.

A module that imported them would make a fixture of its own, and so a server that runs until the end of the session.

Not autouse: only tests that run a flow pay for it (2 s a worker; 7 s where no template was kept before). Each
pytest-xdist worker has a server and a database of its own; they share the template in pytest's cache folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import certifi
import pytest

from checks.process.tree import alive, start_ticks
from tasks.orchestration.server.server import EmbeddedServer

RUNNING: list[tuple[int, int | None]] = []  # the server's pid and when it started


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Fail the test that ended this worker's server: every later test that wants it would fail in its place."""
    yield
    ended = [pid for pid, started in RUNNING if not alive(pid, started)]
    if ended:
        RUNNING.clear()
        pytest.fail(f"this test ended the Prefect server of this worker, pid {ended[0]}")


@pytest.fixture(scope="session")
def template_dir(pytestconfig: pytest.Config) -> Path:
    """Where the migrated template is kept from one test session to the next."""
    return pytestconfig.cache.mkdir("prefect")


@pytest.fixture(scope="session")
def prefect_backend(tmp_path_factory: pytest.TempPathFactory, template_dir: Path) -> Iterator[EmbeddedServer]:
    """A server of this session, and this process's Prefect set to use it."""
    server = EmbeddedServer(tmp_path_factory.mktemp("prefect_backend"), template_dir)
    server.start()
    pid = server.pid or 0
    RUNNING[:] = [(pid, start_ticks(pid))]
    environment = server.client_environment() | _one_certificate(tmp_path_factory.mktemp("certificate"))
    environment["PREFECT_LOGGING_COLORS"] = "false"  # to look for them took a twentieth of a gate's time
    try:
        with _settings(environment), pytest.MonkeyPatch.context() as patch:
            # Prefect never closes the client it asks with here: a ResourceWarning in some later test.
            patch.setattr("prefect.results._read_server_default_result_storage_block_id", lambda: None)
            server.wait_ready()
            yield server
            server.stop()
    finally:
        RUNNING.clear()
        server.stop()


def _one_certificate(folder: Path) -> dict[str, str]:
    """Each of a gate's seven clients reads the authorities' certificates, 0.03 s of CPU each, for a server that has no TLS."""
    path, end = folder / "certificate.pem", "-----END CERTIFICATE-----\n"
    first = Path(certifi.where()).read_text(encoding="utf-8").partition(end)[0]
    path.write_text(first + end, encoding="utf-8")
    return {"PREFECT_API_SSL_CERT_FILE": str(path)}


@contextmanager
def _settings(environment: Mapping[str, str]) -> Iterator[None]:
    """Prefect's settings in this process for the time of the block, imported before or not."""
    before = dict(os.environ)
    os.environ.update(environment)
    from prefect.context import refresh_global_settings_context

    refresh_global_settings_context()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        refresh_global_settings_context()
