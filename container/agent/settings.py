"""The agent's settings: from its arguments, otherwise from PRELAUNCH_* in the environment. Pure.

SettingsError      a value cannot be used; nothing was started. The message has the remedy
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

JOIN_S = 180.0  # containers of one job start within a few minutes of each other (judgement)
# SageMaker kills 120 s after SIGTERM. Reports that come together late and the last upload take up to 60 of them; behind a
# command the reports came together long ago, so that a checkpoint may take longer.
GRACE_S, COMMAND_GRACE_S = 40.0, 75.0
MOST_ASKED_S = 28 * 86400.0  # a training job's longest run ("CreateTrainingJob": MaxRuntimeInSeconds)
PORT = 28470  # below the kernel's ephemeral ports, which begin at 32768
FLAGS = ("pooled", "keep", "observe", "shared")
TEXTS = (
    *("bundle", "upload", "confirm", "answers", "node", "hosts", "python", "exchange_key"),
    *("interface", "pod", "pod_address", "termination_log"),
)


class SettingsError(Exception):
    """A setting cannot be used. The message names it and the remedy."""


class Verb(Enum):
    """What the agent does: the checks alone, the checks and then a command, or a command without checks."""

    CHECK = "check"
    GATE = "gate"
    EXEC = "exec"


@dataclasses.dataclass(frozen=True)
class Settings:
    """`bundle` "" looks in SageMaker's input channels, `upload` "" copies nowhere, `command` () only checks.
    `exchange_key` "" looks beside the bundle. An `upload` of LOG writes the files to the log instead.

    `hosts` are the names of all hosts where a person gives them, with `node` as this one's. The agent listens on `port`, the
    checks on the next one, the rendezvous is the one after. `python` runs the checks, "" is the agent's own. `interface` is the
    network interface of the collectives where the engine names none. With `shared` the hosts read the key from one folder, which
    may start them again: each takes a copy, and the key stays.

    Of a pod `pods` is how many the job has, `pod` its number among them, and `pod_address` the DNS name of each, in which % stands
    for the number. `termination_log` is the file of which Kubernetes keeps the text when the container has ended.

    With `keep` the machine gets a token that the next job on it can show, with `pooled` the token that it shows is looked
    for. Nodes hold `ask_s` for a person's answer, which lies below `answers`, a folder or an s3:// prefix. Slurm counts `restarts`.
    """

    root: Path
    out: Path
    bundle: str = ""
    upload: str = ""
    command: tuple[str, ...] = ()
    verb: Verb = Verb.CHECK
    confirm: str = ""
    pooled: bool = False
    keep: bool = False
    observe: bool = False
    ask_s: float = 0.0
    answers: str = ""
    node: str = ""
    hosts: str = ""
    job: str = ""
    python: str = ""
    exchange_key: str = ""
    interface: str = ""
    shared: bool = False
    join_s: float = JOIN_S
    grace_s: float = 0.0
    port: int = PORT
    pods: int = 0
    pod: str = ""
    pod_address: str = ""
    termination_log: str = ""
    restarts: str = ""

    @property
    def patience_s(self) -> float:
        """How long after a signal the checks or the command may take to end."""
        return self.grace_s or (COMMAND_GRACE_S if self.command else GRACE_S)


def make(root: Path, arguments: Mapping[str, str | None], environment: Mapping[str, str]) -> Settings:
    """The settings. Raises SettingsError."""

    def find(name: str) -> str:
        return arguments.get(name) or environment.get(f"PRELAUNCH_{name.upper()}", "")

    command = parse_command("PRELAUNCH_COMMAND", find("command"))
    fields: dict[str, Any] = {name: find(name) for name in TEXTS}
    fields |= {name: _flag(name, find(name)) for name in FLAGS}
    return Settings(
        root=root,
        out=Path(find("out") or root / "output" / "data"),
        command=command,
        verb=Verb.GATE if command else Verb.CHECK,
        job=environment.get("TRAINING_JOB_NAME", ""),
        restarts=environment.get("SLURM_RESTART_COUNT", ""),
        ask_s=_number("ask_s", find("ask_s"), 0.0, most=MOST_ASKED_S),
        join_s=_number("join_s", find("join_s"), JOIN_S),
        grace_s=_number("grace_s", find("grace_s"), 0.0),
        port=int(_number("port", find("port"), PORT, 1, 65533)),
        pods=int(_number("pods", find("pods"), 0.0, most=100_000)),
        **fields,
    )


def parse_command(source: str, text: str) -> tuple[str, ...]:
    """A JSON list of words; () for no text. Raises SettingsError, which says where it was `named`."""
    if not text:
        return ()
    try:
        command = json.loads(text)
    except ValueError:
        command = None
    if not isinstance(command, list) or not command or not all(isinstance(entry, str) for entry in command):
        message = f'{source} is no JSON list of words: {text!r:.80}. Write ["python3", "train.py"].'
        raise SettingsError(message)
    return tuple(command)


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("", "0", "1", "false", "true"):
        raise SettingsError(f"PRELAUNCH_{name.upper()} is {text!r:.40}. Write 1 or 0.")
    return text.lower() in ("1", "true")


def _number(name: str, text: str, otherwise: float, least: float = 0.0, most: float = 86400.0) -> float:
    try:
        value = float(text or otherwise)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        message = f"PRELAUNCH_{name.upper()} is {text!r:.40}, not a number from {least:g} to {most:g}."
        raise SettingsError(message)
    return value
