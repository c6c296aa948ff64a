"""Faults for the survival tests, as a site's extra checks: each breaks something real in the process it runs in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from checks.check import Body, Check, CheckError, Context, Measurement, check
from checks.model import Scope

FAULTY_RANK = 1


def _node(name: str, timeout_s: float = 30.0) -> Callable[[Body], Check]:
    return check(name, Scope.NODE, timeout_s=timeout_s, metrics=("value",))


def _rank(name: str) -> Callable[[Body], Check]:
    return check(name, Scope.RANK, timeout_s=10, metrics=("value",))


def _count(context: Context) -> dict[str, object]:
    return {"count": 40, "ranks_had_run": (context.scratch / "ranks").exists()}


def _fail(context: Context) -> dict[str, object]:
    raise CheckError("the counters cannot be read")


@check("sabotage.counts", Scope.NODE, timeout_s=10, metrics=("delta", "before_the_ranks"), before=_count)
def counts(context: Context) -> Measurement:
    """Compares what it sees after the ranks with what its first look saw before them."""
    if context.before is None:
        raise CheckError("there is nothing to compare with: the first look failed")
    return Measurement(
        {
            "delta": 42 - int(str(context.before["count"])),
            "before_the_ranks": not context.before["ranks_had_run"],
            "after_the_ranks": (context.scratch / "ranks" / "rank-0.jsonl").exists(),
        }
    )


@check("sabotage.blind", Scope.NODE, timeout_s=10, metrics=("delta",), before=_fail)
def blind(context: Context) -> Measurement:
    """Its first look fails."""
    if context.before is None:
        raise CheckError("there is nothing to compare with: the first look failed")
    return Measurement({"delta": 0})


@_node("sabotage.raises")
def raises(context: Context) -> Measurement:
    """Raises."""
    raise ZeroDivisionError("deliberate")


@_node("sabotage.hangs", timeout_s=1.0)
def hangs(context: Context) -> Measurement:
    """Never returns, and ignores SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(3600)


@_node("sabotage.waits", timeout_s=120.0)
def waits(context: Context) -> Measurement:
    """Measures once the test has made the file that the environment names: until then the gate lasts."""
    while not os.path.exists(os.environ["PRELAUNCH_SABOTAGE_WAITS_FOR"]):
        time.sleep(0.1)
    return Measurement({"value": 1.0})


@_node("sabotage.nan")
def nan(context: Context) -> Measurement:
    """Returns NaN."""
    return Measurement({"value": float("nan")})


@_node("sabotage.gigabyte")
def gigabyte(context: Context) -> Measurement:
    """Prints 10^9 bytes, then measures."""
    sys.stdout.buffer.writelines([b"x" * 1_000_000] * 1000)
    sys.stdout.flush()
    return Measurement({"value": 1.0})


@_node("sabotage.exits")
def exits(context: Context) -> Measurement:
    """Ends its process with the exit code of success, without a result."""
    os._exit(0)


@_node("sabotage.daemon")
def daemon(context: Context) -> Measurement:
    """Measures, and leaves a process of another session behind."""
    left = subprocess.Popen(("sleep", "600"), start_new_session=True)
    return Measurement({"value": left.pid})


@_rank("sabotage.wrong_sums")
def wrong_sums(context: Context) -> Measurement:
    """From now on, one rank's all-reduce yields one wrong element."""
    return _replace_all_reduce(context, _corrupt)


@_rank("sabotage.in_store")
def in_store(context: Context) -> Measurement:
    """Leaves a thread that is in a call of torch's store when its process ends, as one that writes a last note may be."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    store = TCPStore("127.0.0.1", 0, None, True, timedelta(seconds=5), wait_for_workers=False)

    def look() -> None:
        while True:
            with suppress(RuntimeError):
                store.wait(["nothing"], timedelta(seconds=0.2))

    threading.Thread(target=look, daemon=True).start()
    return Measurement({"value": 1})


@_rank("sabotage.frozen")
def frozen(context: Context) -> Measurement:
    """One rank is stopped by SIGSTOP in the middle of its third all-reduce."""
    return _replace_all_reduce(
        context, lambda tensor: os.kill(os.getpid(), signal.SIGSTOP), after=3, before=True
    )


def _corrupt(tensor: Any) -> None:
    tensor.view(-1)[-1] += 1


def _replace_all_reduce(
    context: Context, fault: Callable[[Any], None], after: int = 0, before: bool = False
) -> Measurement:
    import torch.distributed as dist

    assert context.rank_place is not None
    if context.rank_place.rank != FAULTY_RANK:
        return Measurement({"value": 0.0})
    healthy, calls = dist.all_reduce, 0

    def all_reduce(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if before and calls > after:
            fault(tensor)
        work = healthy(tensor, *args, **kwargs)
        if not before and tensor.numel() > 1:
            if work is not None:
                work.wait()
            fault(tensor)
        return work

    dist.all_reduce = all_reduce
    return Measurement({"value": 1.0})
