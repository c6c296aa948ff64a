"""Nothing that a notifier does reaches further than itself: one that hangs, or raises what it may not, is a NotifyError."""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable
from typing import TypeVar

from tasks.notifiers.base import NotifyError
from tasks.redact import redact

R = TypeVar("R")


def guarded(function: Callable[[], R], limit_s: float) -> R:
    """What the function returns. Raises NotifyError alone, without secrets, after `limit_s` at the latest.

    A call that hangs is left in a daemon thread: it ends with the process.
    """
    done: list[R] = []
    failed: list[Exception] = []

    def call() -> None:
        try:
            done.append(function())
        except Exception as error:  # noqa: BLE001 - whatever it is, the next way is tried and this is said
            failed.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(call,), name="notify", daemon=True)
    thread.start()
    thread.join(limit_s)
    if done:
        return done[0]
    if not failed:
        raise NotifyError(f"no answer within {limit_s:g} s. It may still arrive.")
    raise NotifyError(_said(failed[0])) from None


def _said(error: Exception) -> str:
    """In words: what no notifier may raise is a defect, and is named by its type."""
    text = " ".join(str(error).split())[:500]
    return redact(text if isinstance(error, NotifyError) else f"{type(error).__name__}: {text}", os.environ)
