"""How long a job has waited for machines, run, and been silent, and what follows from that."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from tasks.gate.progress import Progress, report_progress
from tasks.gate.session import Session, is_unanswered
from tasks.launchers.base import JobState, JobStatus, Launcher, Trouble
from tasks.notifiers.deliver import page_owner
from tasks.text.redact import redact

HOUR_S = 3600.0
# Judgement: for how long an engine may forget a job that it has listed (a controller that fails over, an API server that is restored)
# until the job counts as deleted: one that may train, and one that only checks.
FORGETS_TRAINING_S, FORGETS_CHECKS_S = 600.0, 60.0


@dataclass
class JobTimes:
    """How long a job has waited for its machines without a break, run, been without a known state, and been unknown to its engine; in
    seconds. `listed` is what the engine said of it last, where it has said anything.
    """

    waited_s: float = 0.0
    ran_s: float = 0.0
    silent_s: float = 0.0
    absent_s: float = 0.0
    listed: JobStatus | None = None

    def settle(self, status: JobStatus, seconds: float, trains: bool) -> JobStatus:
        """The status, after the job has spent that time in it. A job that was listed, and that its engine has not had any more for
        long enough, was deleted: that is its end.
        """
        self.add(status, seconds)
        if status.state is not JobState.UNKNOWN:
            self.listed = status
        limit_s = FORGETS_TRAINING_S if trains else FORGETS_CHECKS_S
        if self.listed is None or self.absent_s <= limit_s:
            return status
        reason = (
            f"the engine has had no such job for {limit_s:.0f} s, so somebody has deleted it: {status.detail}"
        )
        return replace(self.listed, state=JobState.CANCELLED, trouble=Trouble.STOPPED, detail=reason)

    def add(self, status: JobStatus, seconds: float) -> None:
        """Add the time that the job spent in that state."""
        pending = status.state is JobState.PENDING
        self.waited_s = self.waited_s + seconds if pending else 0.0
        self.ran_s += 0.0 if pending else seconds
        self.silent_s = self.silent_s + seconds if is_unanswered(status) else 0.0
        self.absent_s = self.absent_s + seconds if status.absent else 0.0

    def reason_to_end(self, launcher: Launcher, status: JobStatus, limit_s: float, trains: bool) -> str:
        """Why the gate waits no longer, "" while it does. Silence of the engine is no such reason for a job that `trains`."""
        if self.ran_s > limit_s:
            return f"it was still {status.state.value} after {limit_s:.0f} s"
        if self.waited_s > launcher.start_s:
            return f"it did not start within {launcher.start_s:.0f} s"
        if self.absent_s > launcher.silence_s and self.listed is None:
            return f"the engine has had no such job for {launcher.silence_s:.0f} s"
        if self.silent_s > launcher.silence_s and not trains:
            return f"the engine reported nothing about it for {launcher.silence_s:.0f} s"
        return ""


class SilenceNotices:
    """Says once and then hourly that nothing is heard of a training, and tells its owner after an hour."""

    def __init__(self, session: Session, job: str) -> None:
        self._session, self._job = session, job
        self._hours: int | None = None
        self._notified = False

    def see(self, silent_s: float, detail: str) -> None:
        """Take in for how long nothing has been heard; 0 where the engine has answered."""
        if not silent_s:
            if self._hours is not None:
                self._say(f"the engine answers again about job {self._job}")
            self._hours, self._notified = None, False
            return
        hours = int(silent_s // HOUR_S)
        if self._hours is not None and hours <= self._hours:
            return
        self._hours = hours
        since = f" for {hours} h" if hours else ""
        line = (
            f"nothing has been heard of job {self._job}{since} ({detail}). It may run on, and it is not ended: the gate asks until "
            "the job's own time limit"
        )
        self._say(line)
        if hours and not self._notified:
            self._notified = True
            self._tell_owner(line)

    def _say(self, line: str) -> None:
        report_progress(Progress("training", line, lasting=True))

    def _tell_owner(self, line: str) -> None:
        context, gate_id = self._session.context, self._session.gate_id
        title = redact(f"gate {context.gate.name}: {line}", os.environ)
        remedy = (
            "Look at the job in the engine's console, and at the network and the credentials of the gate."
        )
        page_owner(context.gate, context.file, context.store, gate_id, title, (remedy,))
