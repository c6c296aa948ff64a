"""Reads the state of the kernel's clock with adjtimex(2). Nothing is set."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass

STA_UNSYNC = 0x0040
STA_NANO = 0x2000
TIME_ERROR = 5


@dataclass(frozen=True)
class ClockState:
    """`offset_s` is still to be corrected; `max_error_s` is the kernel's bound, 16 s once nobody keeps it."""

    synchronised: bool
    offset_s: float
    max_error_s: float


class _Timex(ctypes.Structure):
    """struct timex of <sys/timex.h>; what follows `status` is not read."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_long * 32),
    )


def read_state() -> ClockState:
    """The state now. Raises OSError (EPERM where a sandbox forbids it, ENOSYS where there is none)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "adjtimex"):
        raise OSError(38, "the C library has no adjtimex")
    timex = _Timex()
    state = libc.adjtimex(ctypes.byref(timex))
    if state < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return state_of(state, timex.status, timex.offset, timex.maxerror)


def state_of(state: int, status: int, offset: int, maxerror: int) -> ClockState:
    """The meaning of adjtimex's numbers: offset in ns with STA_NANO, else us; maxerror always in us."""
    synchronised = not status & STA_UNSYNC and state != TIME_ERROR
    return ClockState(synchronised, offset / (1e9 if status & STA_NANO else 1e6), maxerror / 1e6)
