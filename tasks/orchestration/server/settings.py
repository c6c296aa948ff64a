"""Prefect's settings on both sides of the embedded server. This module does not import Prefect.

Environment variables outrank every other source that Prefect reads (.env, prefect.toml, pyproject.toml, profile),
so what is set here applies whatever a person's profile says.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from checks.process.environment import home_folder

_LOOPBACK = "127.0.0.1,localhost"
_CONSOLE_LEVEL = "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"
# What stands in a file that configures Prefect, and how Prefect is asked.
_PREFECT = re.compile(rb"PREFECT_|tool\.prefect", re.IGNORECASE)
_ASK = "from prefect.settings import get_current_settings; print(get_current_settings().api.url or '')"

# Nobody schedules, triggers or watches on a server that lives as long as one gate. Each of these polls or
# writes: writes meet the flow's own in SQLite, and what polls takes CPU from the node that is being
# measured.
_SERVICES_OFF = (
    "CANCELLATION_CLEANUP",
    "CLEANUP_RECONCILER",
    "EVENT_LOGGER",
    "EVENT_PERSISTER",
    "FOREMAN",
    "LATE_RUNS",
    "PAUSE_EXPIRATIONS",
    "REPOSSESSOR",
    "SCHEDULER",
    "TRIGGERS",
)


def configured_api_url(environ: Mapping[str, str], directory: Path) -> str | None:
    """The server that a person chose, or None. An empty value means none, as it does to Prefect: `PREFECT_API_URL= prelaunch gate ...`
    asks for the embedded server.

    `directory` is the working directory. Where a file may choose a server, a process of its own asks Prefect, which takes a second:
    Prefect's settings cannot be changed in a process that has imported it. Prefect itself reports files that it cannot read.
    """
    for name, value in environ.items():
        if name.lower() == "prefect_api_url":
            return value or None
    home = environ.get("PREFECT_HOME") or (home_folder() or directory) / ".prefect"
    names = (".env", "prefect.toml", "pyproject.toml", Path(home) / "profiles.toml")
    if "PREFECT_PROFILES_PATH" not in environ and not any(_may_choose(directory / name) for name in names):
        return None
    ask = (sys.executable, "-P", "-W", "ignore", "-c", _ASK)
    reply = subprocess.run(ask, cwd=directory, env=environ, capture_output=True, text=True, check=False)
    return reply.stdout.strip() or None


def client_environment(
    url: str, auth: str, home: Path, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """What to set before Prefect is imported, so that it talks to the server at `url` and to nothing else.

    `home` takes the place of ~/.prefect, so that a person's profile changes nothing. Log lines still reach
    the server at the person's PREFECT_LOGGING_LEVEL. On stderr there are none unless the person sets
    PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL: the terminal belongs to the live progress, and even a refusal is
    an ERROR to Prefect.
    """
    return {
        **_private(home),
        "PREFECT_API_URL": url,
        "PREFECT_API_AUTH_STRING": auth,
        "PREFECT_API_KEY": "",
        "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "false",
        "PREFECT_CLIENT_CUSTOM_HEADERS": "{}",
        "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false",
        # The server itself repeats what SQLite refused. What is left is a dead server, which never comes
        # back: Prefect's five retries would take a minute for every request.
        "PREFECT_CLIENT_MAX_RETRIES": "1",
        _CONSOLE_LEVEL: environ.get(_CONSOLE_LEVEL, "CRITICAL"),
        "PREFECT_TELEMETRY_ENABLE_RESOURCE_METRICS": "false",
        # httpx and websockets send even loopback through a proxy that the environment names.
        "NO_PROXY": _bypass(environ.get("NO_PROXY", "")),
        "no_proxy": _bypass(environ.get("no_proxy", "")),
    }


def server_environment(
    database: Path, auth: str, home: Path, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The whole environment of the server process: the person's own Prefect settings do not reach it."""
    inherited = {name: value for name, value in environ.items() if not name.upper().startswith("PREFECT_")}
    return {
        **inherited,
        **{f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in _SERVICES_OFF},
        **_private(home),
        "PREFECT_SERVER_API_AUTH_STRING": auth,
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{database}",
        "PREFECT_SERVER_DATABASE_MIGRATE_ON_START": "false",
        "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
        # What is told of tasks is written once a second, and at the server's end. A transaction for each event took two fifths of the
        # server's CPU during a gate. Prefect cuts the interval to whole seconds, and with 0 it would never rest.
        "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
        "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
        "PREFECT_SERVER_EVENTS_STREAM_OUT_ENABLED": "false",
        "PREFECT_SERVER_LOGS_STREAM_OUT_ENABLED": "false",
        "PREFECT_SERVER_UI_ENABLED": "false",
        "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
        "PREFECT_LOGGING_LEVEL": "WARNING",
        "PREFECT_LOGGING_COLORS": "false",
    }


def _private(home: Path) -> dict[str, str]:
    """What both sides are told: no telemetry, no profile but the built-in one, no second server."""
    return {
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
        "PREFECT_HOME": str(home),
        "PREFECT_PROFILE": "ephemeral",
        "PREFECT_PROFILES_PATH": str(home / "profiles.toml"),
    }


def _bypass(proxies: str) -> str:
    return f"{proxies},{_LOOPBACK}" if proxies else _LOOPBACK


def _may_choose(path: Path) -> bool:
    try:
        data = path.read_bytes()
    except OSError:
        return False
    return path.name == "prefect.toml" or _PREFECT.search(data) is not None
