"""What a signal does to a coroutine in the foreground: it is acknowledged, and the coroutine ends what it started."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from tasks.orchestration import foreground


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

    with pytest.raises(foreground.FlowInterrupted) as stopped:
        foreground.Foreground(hangs).run()

    assert (signal.SIGTERM, ["all"]) == (stopped.value.number, ended)
    assert capfd.readouterr().err.splitlines() == [
        "prelaunch: SIGTERM received: ending what was started",
        "prelaunch: SIGINT once more: ending what was started",
    ]


def test_a_time_limit_ends_it_as_a_signal_does(capfd: pytest.CaptureFixture[str]) -> None:
    """Nobody sent a signal, so none is named."""

    async def hangs() -> None:
        await asyncio.sleep(60)

    foreground.hold_signals(0.1)
    try:
        with pytest.raises(foreground.FlowInterrupted) as stopped:
            foreground.Foreground(hangs).run()
    finally:
        foreground.release_signals()

    assert foreground.TIME_IS_UP == stopped.value.number
    assert "prelaunch: the time limit is reached: ending what was started\n" == capfd.readouterr().err
    assert (0.0, 0.0) == signal.getitimer(signal.ITIMER_REAL)


def test_a_time_limit_that_is_not_needed_ends_nothing() -> None:
    """A request that was rejected in time is not ended by the signal afterwards."""
    foreground.hold_signals(60)
    foreground.release_signals()

    assert (0.0, 0.0) == signal.getitimer(signal.ITIMER_REAL)
