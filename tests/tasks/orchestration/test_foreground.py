"""What a signal does to a coroutine in the foreground: it is acknowledged, and the coroutine ends what it started."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from tasks.orchestration.foreground import Foreground, Interrupted


def test_every_signal_is_acknowledged(capfd: pytest.CaptureFixture[str]) -> None:
    """Also a second one, which changes nothing: whoever sent it sees that somebody is at work."""
    ended = []

    async def hangs() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.sleep(60)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.6)
            ended.append("all")

    with pytest.raises(Interrupted) as stopped:
        Foreground(hangs).run()

    assert (signal.SIGTERM, ["all"]) == (stopped.value.number, ended)
    assert capfd.readouterr().err.splitlines() == [
        "prelaunch: SIGTERM received: ending what was started",
        "prelaunch: SIGINT once more: ending what was started",
    ]
