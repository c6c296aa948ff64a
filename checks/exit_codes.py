"""The exit codes of every program of this project: of `prelaunch`, of the checks on a node, and of the container's agent."""

from __future__ import annotations

from enum import Enum, IntEnum


class Exit(IntEnum):
    """The meaning of an exit code. A question that nobody has answered yet ends in NO_GO, too."""

    GO = 0
    NO_GO = 1
    REJECTED = 2  # before anything started
    CANNOT_TELL = 3
    JOB_FAILED = 4  # after a go: the engine refused the training, or it failed
    NO_CAPACITY = 5  # for the checks, or, after a go, for the training
    NOT_FOUND = 127  # there is no such program, as a shell says it
    INTERRUPTED = 130
    TERMINATED = 143

    def __str__(self) -> str:
        return str(self.value)  # Python 3.10 would write the name


class RejectionKind(str, Enum):
    """Why a gate ended with REJECTED: a pipeline asks again for BUSY, and for nothing else."""

    REQUEST = "request"  # the file, the command line, or a value in them is wrong
    BUSY = "busy"  # another gate holds the lock of the cluster
    STORE = "store"  # the store, and the lock in it, cannot be read or written
    ENGINE = "engine"  # the engine refuses the jobs, or lacks what they need
