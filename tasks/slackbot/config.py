"""The configuration of `prelaunch serve slack`, deployments/slack.toml (pydantic): which gates it may start, and for whom.

Errors are like those of a gate file: file, key, what is wrong, and the nearest valid key.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from tasks.gate_file.model import Gate
from tasks.gate_file.people import NotifyTable, Reference, Url, UserId
from tasks.gate_file.read import GateFileError, plain_error, read_toml
from tasks.gate_file.read import read_gate_file as read_gate
from tasks.store.base import Store, StoreError
from tasks.store.open import absolute, open_store

GateName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]


class AllowedGate(NotifyTable):
    """One gate that Slack may start: `deployment` is "flow/name", `gate_file` is relative to this file's folder. `remedy` is the
    deployment that repairs what the gate condemned, "" if Slack may not start it.

    `users` may start it. Who may answer its questions says the gate file.
    """

    deployment: Annotated[str, Field(pattern=r"^[^/\s]+/[^/\s]+$", max_length=200)]
    gate_file: Annotated[str, Field(min_length=1, max_length=4096)]
    remedy: Annotated[str, Field(pattern=r"^([^/\s]+/[^/\s]+)?$", max_length=200)] = ""
    users: tuple[UserId, ...] = ()


class SlackApp(NotifyTable):
    """The whole file. Secrets are references: "env:NAME" or "block:secret/NAME"."""

    app_token: Reference = "env:SLACK_APP_TOKEN"  # noqa: S105 - where it is, not what it is
    bot_token: Reference = "env:SLACK_BOT_TOKEN"  # noqa: S105 - the same
    api_url: Url = "https://slack.com/api/"
    gates: Annotated[dict[GateName, AllowedGate], Field(min_length=1)]


@dataclass(frozen=True)
class ListedGate:
    """A gate of the list under its name, and where its gate file is on this machine."""

    name: str
    table: AllowedGate
    file: Path

    def gate(self) -> Gate:
        """The gate file as it is now: who may answer is asked anew each time. Raises GateFileError."""
        return read_gate(self.file)

    def store(self) -> Store:
        """Where its questions, answers and verdicts lie. Raises GateFileError, StoreError."""
        return open_store(absolute(self.gate().store.path))


@dataclass(frozen=True)
class Config:
    """The file, read and checked: every gate file it names can be read."""

    app: SlackApp
    gates: tuple[ListedGate, ...]

    def find_gate(self, name: str) -> ListedGate | None:
        """The gate of that name."""
        return next((gate for gate in self.gates if gate.name == name), None)


def read_config(path: Path) -> Config:
    """Read and check everything that the file names; nobody is asked anything. Raises GateFileError."""
    try:
        table, _ = read_toml(path, "a file such as deployments/slack.toml")
        app = SlackApp.model_validate_json(json.dumps(table, default=str))
    except ValidationError as error:
        raise plain_error(str(path), error, SlackApp) from None
    return Config(app, tuple(_allowed(path, name, table) for name, table in app.gates.items()))


def _allowed(path: Path, name: str, table: AllowedGate) -> ListedGate:
    file = (path.resolve().parent / Path(table.gate_file).expanduser()).resolve()
    allowed = ListedGate(name, table, file)
    try:
        allowed.store()
    except (GateFileError, StoreError) as error:
        raise GateFileError(str(path), f"gates.{name}.gate_file", str(error).rstrip(".")) from error
    return allowed
