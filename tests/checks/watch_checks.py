"""Checks that watch, for tests: one that sees a file appear, one that cannot begin, one that hangs in its first look."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from checks.check import CheckError, Context, Measurement, check
from checks.model import Scope

POKE = "poke"


def watch(context: Context) -> Iterator[Mapping[str, object] | None]:
    yield {"begun": True}
    while True:
        time.sleep(0.02)
        poke = context.scratch / POKE
        found = poke.exists()
        poke.unlink(missing_ok=True)
        yield {"poked": True} if found else None


def cannot(context: Context) -> Iterator[Mapping[str, object] | None]:
    raise CheckError("there is nothing to watch")
    yield None


@check("toy.watching", Scope.NODE, timeout_s=20, metrics=("pokes",), watch=watch)
def watching(context: Context) -> Measurement:
    """Counts what its watch recorded."""
    if context.watched is None:
        raise CheckError("nobody watched")
    return Measurement({"pokes": sum("poked" in record for record in context.watched)})


@check("toy.cannot", Scope.NODE, timeout_s=20, metrics=("pokes",), watch=cannot)
def refused(context: Context) -> Measurement:
    """As the other one."""
    return Measurement(watching.body(context).metrics)  # type: ignore[union-attr]
