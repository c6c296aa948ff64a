"""The starts of one job: where checks and training are one, its engine may start it again after a no-go."""

from __future__ import annotations

from tasks.launchers.base import JobStatus


class Starts:
    """Those that were judged, in their order, and how many of them trained nothing.

    Of the last one: `notes` are for the reason of the gate's outcome, `refusing` says that nodes refused by themselves,
    `stopped` that the gate ended the job.
    """

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.no_gos = 0
        self.notes: list[str] = []
        self.refusing = self.stopped = False

    def next(self, status: JobStatus) -> str:
        """The first start that was not judged yet, "" where there is none."""
        known = (*status.earlier, status.attempt)
        return next((token for token in known if token and token not in self.tokens), "")

    def judged(self, token: str) -> None:
        """This start has its verdict."""
        self.tokens.append(token)
        self.notes.clear()
        self.refusing = self.stopped = False

    def no_go(self, most: int) -> bool:
        """Count a start that trained nothing; whether it was the last one allowed."""
        self.no_gos += 1
        if self.no_gos >= most:
            self.notes.append(f"no-go {self.no_gos} of {most}: the job was ended")
        return self.no_gos >= most

    @property
    def said(self) -> str:
        """The notes, "" for none."""
        return "; ".join(self.notes)
