"""A command of `prelaunch` in this process, and what it left."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from flows.cli.main import main


class Ended(NamedTuple):
    """What one run of the command left."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, object]:
        """The one JSON document on stdout."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


Run = Callable[..., Ended]
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Iterator[Run]:
    """The command in this process."""
    before = signal.getsignal(signal.SIGTERM)

    def runner(*words: object) -> Ended:
        code = main([str(word) for word in words])
        out, err = capfdbinary.readouterr()
        return Ended(code, out.decode(), err.decode())

    yield runner
    signal.signal(signal.SIGTERM, before)
