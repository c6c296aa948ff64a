"""A person's answer to nodes that wait for an approval, as a file: out/<attempt>/answer.json.

It is for one attempt of one gate: an answer to an earlier start of the job starts nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated

from checks.documents.decode import decode, parse_json
from checks.documents.report import Version, dump_plain
from checks.model import SCHEMA_VERSION
from checks.value_types import DecodeError, Text

ANSWER, ASKING = "answer.json", "asking"
ANSWER_BYTES = 1 << 16
POLL_S = 0.5


class AnswerWord(Enum):
    """What the person said."""

    LAUNCH = "launch"
    REFUSE = "refuse"


@dataclass(frozen=True)
class GateAnswer:
    """Who said what, and why, to which attempt. `by` and `why` are for people; `at` is ISO 8601."""

    schema_version: Version
    gate_id: str
    attempt: str
    word: AnswerWord
    by: Annotated[str, Text(r"(?s).*", 500)]
    why: Annotated[str, Text(r"(?s).*", 2000)]
    at: str


def dump_answer(gate_id: str, attempt: str, answer: AnswerWord, by: str, reason: str, at: str) -> bytes:
    """The file's bytes."""
    return dump_plain(GateAnswer(SCHEMA_VERSION, gate_id, attempt, answer, by[:500], reason[:2000], at))


def load_answer(data: bytes, gate_id: str, attempt: str) -> GateAnswer:
    """The answer, if it is to this attempt. Raises DecodeError for one that is not, or is garbled."""
    answer = decode(GateAnswer, parse_json(data, ANSWER_BYTES))
    if (answer.gate_id, answer.attempt) != (gate_id, attempt):
        raise DecodeError(f"it is to attempt {answer.attempt!r:.80} of gate {answer.gate_id!r:.80}")
    return answer


def wait_for_answer(
    folder: Path,
    gate_id: str,
    attempt: str,
    seconds: float,
    say: Callable[[str], None],
    hopeless: Callable[[], bool] = lambda: False,
) -> GateAnswer | None:
    """The answer in folder/<attempt>, waited for; None where none came in time, or waiting became `hopeless`.

    An answer that cannot be read is logged, and waiting continues.
    """
    path, deadline, problem = folder / attempt / ANSWER, time.monotonic() + seconds, ""
    while True:
        try:
            return load_answer(path.read_bytes(), gate_id, attempt)
        except FileNotFoundError:
            pass
        except (OSError, DecodeError) as error:
            if str(error) != problem:
                problem = str(error)
                say(f"{path} cannot be used: {error}")
        if time.monotonic() >= deadline or hopeless():
            return None
        time.sleep(min(POLL_S, max(deadline - time.monotonic(), 0.0)))
