"""Prefect's settings on both sides of the embedded server. This module does not import Prefect.

Environment variables outrank every other source that Prefect reads (.env, prefect.toml, pyproject.toml, profile),
so what is set here applies whatever a person's profile says.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

from checks.process.environment import home_folder

_LOOPBACK = "127.0.0.1,localhost"
_CONSOLE_LEVEL = "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"

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
    """The server that a person chose, or None. Looks where Prefect looks, in its order.

    `directory` is the working directory: Prefect reads .env, prefect.toml and pyproject.toml there. An
    empty value means none, as it does to Prefect: `PREFECT_API_URL= prelaunch gate ...` asks for the
    embedded server.
    """
    names = {name.lower(): value for name, value in environ.items()}
    dotenv = _read_dotenv(directory / ".env")
    project = _read_toml(directory / "prefect.toml")
    tool = _read_toml(directory / "pyproject.toml").get("tool", {})
    tables = (project, tool.get("prefect", {}) if isinstance(tool, dict) else {})
    urls = (
        names.get("prefect_api_url"),
        dotenv.get("PREFECT_API_URL"),
        *(_text(table, "api", "url") for table in tables),
        _profile(environ, _profiles_path(environ, dotenv, tables, directory)).get("PREFECT_API_URL"),
    )
    return next((url for url in urls if url is not None), None) or None


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
    services = {f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in _SERVICES_OFF}
    return {
        **inherited,
        **services,
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


def _profiles_path(
    environ: Mapping[str, str],
    dotenv: Mapping[str, str],
    tables: tuple[Mapping[str, object], ...],
    directory: Path,
) -> Path:
    """Where Prefect would look for profiles; mirrors prefect.settings.sources._get_profiles_path (3.8.8)."""
    configured = (
        environ.get("PREFECT_PROFILES_PATH"),
        dotenv.get("PREFECT_PROFILES_PATH"),
        *(_text(table, "profiles_path") for table in tables),
    )
    home = environ.get("PREFECT_HOME") or (home_folder() or directory) / ".prefect"
    return directory / next((path for path in configured if path), Path(home) / "profiles.toml")


def _profile(environ: Mapping[str, str], path: Path) -> dict[str, str]:
    """The active profile's settings; {} if there is none: Prefect's default profile names no server."""
    profiles = _read_toml(path)
    active = environ.get("PREFECT_PROFILE") or profiles.get("active")
    every = profiles.get("profiles")
    settings = every.get(active) if isinstance(every, dict) else None
    return {name: str(value) for name, value in settings.items()} if isinstance(settings, dict) else {}


def _text(table: Mapping[str, object], *keys: str) -> str | None:
    value: object = table
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else None


def _read_toml(path: Path) -> dict[str, object]:
    """The file's tables; {} if it is absent or broken (Prefect itself reports a broken one at import)."""
    try:
        return dict(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}


def _read_dotenv(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    from dotenv import dotenv_values  # Prefect's own reader, 10 ms: paid only where the file exists

    return {name.upper(): value for name, value in dotenv_values(path).items() if value is not None}
