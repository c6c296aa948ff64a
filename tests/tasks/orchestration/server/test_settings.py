"""Which server a person chose, and what both sides of the embedded one are told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tasks.orchestration.server.http_client import client_fault
from tasks.orchestration.server.settings import client_environment, configured_api_url, server_environment

URL = "http://prefect.example:4200/api"
PROFILES = f"""
active = "team"
[profiles.team]
PREFECT_API_URL = "{URL}"
"""

# name -> (environment, files in the working directory, the server that is chosen); home/ is Prefect's
CASES: dict[str, tuple[dict[str, str], dict[str, str], str | None]] = {
    "nothing": ({}, {}, None),
    "environment": ({"PREFECT_API_URL": URL}, {}, URL),
    "environment_in_lower_case": ({"prefect_api_url": URL}, {}, URL),
    "emptied": ({"PREFECT_API_URL": ""}, {"home/profiles.toml": PROFILES}, None),
    "dotenv": ({}, {".env": f"PREFECT_API_URL='{URL}'\n"}, URL),
    "prefect_toml": ({}, {"prefect.toml": f'[api]\nurl = "{URL}"'}, URL),
    "pyproject": ({}, {"pyproject.toml": f'[tool.prefect.api]\nurl = "{URL}"'}, URL),
    "profile": ({}, {"home/profiles.toml": PROFILES}, URL),
    "profiles_elsewhere": ({"PREFECT_PROFILES_PATH": "mine.toml"}, {"mine.toml": PROFILES}, URL),
    "profiles_by_toml": ({}, {"prefect.toml": 'profiles_path = "mine.toml"', "mine.toml": PROFILES}, URL),
    "broken_profiles": ({}, {"home/profiles.toml": "active = ["}, None),
}


def _arrange(root: Path, name: str) -> tuple[dict[str, str], Path, str | None]:
    environ, files, chosen = CASES[name]
    directory = root / name
    for path, text in {"home/.keep": "", **files}.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text)
    return {"PREFECT_HOME": str(directory / "home"), **environ}, directory, chosen


@pytest.mark.parametrize("name", CASES)
def test_finds_the_server_that_a_person_configured(tmp_path: Path, name: str) -> None:
    """A configured server is used, wherever Prefect lets it be configured."""
    environ, directory, chosen = _arrange(tmp_path, name)

    assert configured_api_url(environ, directory) == chosen


def test_looking_for_a_server_imports_no_prefect() -> None:
    """The decision to start the embedded server costs milliseconds, not Prefect's import."""
    program = "import sys, tasks.orchestration.server.server, tasks.orchestration.server.settings; print('prefect' in sys.modules)"

    done = subprocess.run((sys.executable, "-c", program), capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


def test_embedded_server_environments_keep_no_proxy_and_disable_telemetry() -> None:
    """A proxy keeps what it was told to leave alone, and loopback besides. Neither side counts anybody. The embedded server never
    opens the database that a person configured for another.
    """
    proxied = {"NO_PROXY": "intranet.example", "HTTP_PROXY": "http://proxy.example:3128"}
    own = {"PREFECT_API_DATABASE_CONNECTION_URL": "postgresql+asyncpg://prod", "PATH": "/bin"}
    client = client_environment("http://127.0.0.1:1/api", "a:b", Path("/state"), proxied)
    server = server_environment(Path("/state/db.sqlite"), "a:b", Path("/state"), own)

    assert "intranet.example,127.0.0.1,localhost" == client["NO_PROXY"]
    assert "127.0.0.1,localhost" == client["no_proxy"]
    for side in (client, server):
        assert ("1", "false") == (side["DO_NOT_TRACK"], side["PREFECT_SERVER_ANALYTICS_ENABLED"])
    assert "PREFECT_API_DATABASE_CONNECTION_URL" not in server and "/bin" == server["PATH"]
    assert "sqlite+aiosqlite:////state/db.sqlite" == server["PREFECT_SERVER_DATABASE_CONNECTION_URL"]


def test_a_user_without_a_home_has_no_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container with --user 12345 and no HOME there is no configured server, and what is missing is said."""
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", _nobody)

    assert configured_api_url({}, tmp_path) is None
    assert "Set HOME to a folder" in client_fault() and "Set HOME" in client_fault(proxied=False)


def _nobody(uid: int) -> None:
    raise KeyError(f"getpwuid(): uid not found: {uid}")
