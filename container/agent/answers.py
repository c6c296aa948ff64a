"""Brings a person's answer to the checks that wait for it on this host: <prefix>/<attempt>.json -> out/<attempt>/answer.json."""

from __future__ import annotations

import threading
from pathlib import Path

from checks.documents.answer import ANSWER, ANSWER_BYTES, ASKING, load_answer
from checks.process.whole_file import write_whole
from checks.value_types import DecodeError
from container.agent.files import inputs
from container.agent.files.exit_record import say

LOOK_S = 0.5
FIRST_S, MOST_S = 2.0, 15.0


class Answers:
    """A thread that fetches the answer. It asks only while this host waits, and until it has an answer to this attempt."""

    def __init__(self, source: str, gate_id: str, folder: Path, node: str) -> None:
        self._place = f"{source.rstrip('/')}/{folder.name}.json"
        self._gate_id, self._folder = gate_id, folder
        self._asking, self._started = folder / ASKING / node, folder / "started" / node
        self._closing = threading.Event()
        self._said = ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        if source:
            self._thread.start()

    def close(self) -> None:
        """Stop asking."""
        self._closing.set()

    def _run(self) -> None:
        wait = LOOK_S
        while not self._closing.wait(wait):
            if self._started.exists():
                return
            if not self._asking.exists():
                wait = LOOK_S
            elif self._brought():
                return
            else:
                wait = FIRST_S if wait < FIRST_S else min(wait * 1.3, MOST_S)

    def _brought(self) -> bool:
        try:
            data = inputs.fetch(self._place, ANSWER_BYTES)
            load_answer(data, self._gate_id, self._folder.name)
            write_whole(self._folder / ANSWER, data)
        except inputs.InputMissing:
            return False
        except (inputs.FetchError, DecodeError, OSError) as error:
            self._say(f"no answer from {self._place}: {error}")
            return False
        say(f"an answer came: {self._place}")
        return True

    def _say(self, message: str) -> None:
        if message != self._said:
            self._said = message
            say(message)
