"""The exit code of a verdict, and of several."""

from __future__ import annotations

from collections.abc import Sequence

from checks.exit_codes import EXIT_CODES, Exit
from checks.model import Verdict

# Several files in one call: the worst, in this order.
_WORST = (Exit.REJECTED, Exit.NO_GO, Exit.CANNOT_TELL, Exit.GO)


def exit_code(verdict: Verdict) -> int:
    """0 go, 1 no-go (and a question that nobody has answered), 3 cannot tell."""
    return int(EXIT_CODES[verdict.answer])


def worst_code(codes: Sequence[int]) -> int:
    """The one exit code of several inputs; 3 for none, since nothing was judged."""
    return next((int(code) for code in _WORST if code in codes), int(Exit.CANNOT_TELL))
