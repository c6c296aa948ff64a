"""Exit codes, the same in every verb."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from checks.model import Answer, Verdict


class Exit(IntEnum):
    """Exit codes, the same in every verb."""

    GO = 0
    NO_GO = 1
    REJECTED = 2
    CANNOT_TELL = 3
    JOB_FAILED = 4  # after a go: the engine refused the training, or it failed
    NO_CAPACITY = 5  # for the checks, or, after a go, for the training
    INTERRUPTED = 130
    TERMINATED = 143


_EXITS = {
    Answer.GO: Exit.GO,
    Answer.NO_GO: Exit.NO_GO,
    # A question that nobody has answered yet is not a go.
    Answer.ASK: Exit.NO_GO,
    Answer.CANNOT_TELL: Exit.CANNOT_TELL,
}
# Several files in one call: the worst, in this order.
_WORST = (Exit.REJECTED, Exit.NO_GO, Exit.CANNOT_TELL, Exit.GO)


def exit_code(verdict: Verdict) -> int:
    """0 go, 1 no-go (and a question that nobody has answered), 3 cannot tell."""
    return int(_EXITS[verdict.answer])


def worst_code(codes: Sequence[int]) -> int:
    """The one exit code of several inputs; 3 for none, since nothing was judged."""
    return next((int(code) for code in _WORST if code in codes), int(Exit.CANNOT_TELL))
