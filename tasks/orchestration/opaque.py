"""Parameters of tasks that Prefect takes as they are."""

from __future__ import annotations

from typing import TypeVar, cast

T = TypeVar("T")


def opaque(value: T) -> T:
    """The value for a parameter of a task, in which Prefect does not look for futures; the task gets the value itself.

    Prefect walks through every field of every dataclass that it passes to a task, three times for each task: of a report of 512
    p5.48xlarge that takes 9.6 s of CPU each time, in which the gate's event loop does nothing else.
    """
    from prefect.utilities.annotations import quote

    return cast(T, quote(value))
