"""What the store keeps of a run's messages in Slack, so that any process goes on in the same one: gates/<id>/slack.json.

Two processes that post a run's first message at one moment leave two: the lease of the cluster keeps that from happening.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from checks.decode import DecodeError, decode, parse_json
from checks.model import SCHEMA_VERSION
from checks.report import Version, dump_plain
from tasks.notifiers.base import Means

FILE_BYTES = 1 << 20


class State(StrEnum):
    """Who may write into the run's messages: progress only while RUNNING."""

    RUNNING = "running"
    ASKING = "asking"
    FINAL = "final"


@dataclass(frozen=True)
class Posted:
    """One message: the channel's id and the message's ts; `done` are the effects that are had once, by name."""

    channel: str
    ts: str
    done: tuple[str, ...] = ()


@dataclass(frozen=True)
class Record:
    """The messages of a run by the channel that the gate file names.

    `key` is the last question's, `asked` the channel of the message that asks it ("" once it is answered), `blocks` the JSON
    of that message without its question, `heard` the digest of the last answer.
    """

    schema_version: Version = SCHEMA_VERSION
    state: State = State.RUNNING
    messages: Mapping[str, Posted] = field(default_factory=dict)
    key: str = ""
    asked: str = ""
    heard: str = ""
    text: str = ""
    blocks: str = "[]"

    def with_message(self, name: str, posted: Posted) -> Record:
        """The record with the message of that channel."""
        return replace(self, messages={**self.messages, name: posted})


def read_record(means: Means, gate_id: str) -> tuple[Record, bytes | None]:
    """What is kept, and its bytes; an empty record where nothing is, or what cannot be read. Raises NotifyError."""
    data = means.read(_key(gate_id))
    if data is None:
        return Record(), None
    try:
        return decode(Record, parse_json(data, FILE_BYTES)), data
    except DecodeError:
        return Record(), data  # a message more is better than a page less


def keep_record(means: Means, gate_id: str, record: Record) -> bytes:
    """Keep it; returns its bytes. Raises NotifyError."""
    data = dump_plain(record)
    means.write(_key(gate_id), data)
    return data


def change_record(means: Means, gate_id: str, old: bytes | None, record: Record) -> bytes | None:
    """Keep it if nobody else wrote since; returns its bytes, None where somebody did. Raises NotifyError."""
    data = dump_plain(record)
    return data if means.replace(_key(gate_id), old, data) else None


def _key(gate_id: str) -> str:
    return f"gates/{gate_id}/slack.json"
