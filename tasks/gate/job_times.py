"""How long a job has waited for machines, run, and been silent, and what follows from that."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tasks.gate.jobs import is_unanswered
from tasks.gate.progress import Progress, report_progress
from tasks.gate.session import Session
from tasks.launchers.base import JobState, JobStatus, Launcher, Trouble
from tasks.notifiers.deliver import page_owner
from tasks.text.redact import redacted

HOUR_S = 3600.0
# Judgement: for how long an engine may forget a job that it has listed (a controller that fails over, an API server that is restored)
# until the job counts as deleted: one that may train, and one that only checks.
FORGETS_TRAINING_S, FORGETS_CHECKS_S = 600.0, 60.0


@dataclass
class JobTimes:
    """How long a job has waited for its machines without a break, run, been without a known state, and been unknown to its engine; in
    seconds. `ran` says that it has run before; `listed` is what the engine said of it last, where it has said anything.
    """

    ran: bool = False
    waited_s: float = 0.0
    ran_s: float = 0.0
    silent_s: float = 0.0
    absent_s: float = 0.0
    was_absent: bool = False
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
        self.ran = self.ran or status.state is JobState.RUNNING
        self.waited_s = self.waited_s + seconds if pending else 0.0
        self.ran_s += 0.0 if pending else seconds
        self.silent_s = self.silent_s + seconds if is_unanswered(status) else 0.0
        self.absent_s = self.absent_s + seconds * self.was_absent if status.absent else 0.0
        self.was_absent = status.absent

    def reason_to_end(self, launcher: Launcher, status: JobStatus, limit_s: float, trains: bool) -> str:
        """Why the gate waits no longer, "" while it does. Silence of the engine is no such reason for a job that `trains`, nor is a
        wait for other machines once it ran.
        """
        if self.ran_s > limit_s:
            return f"it was still {status.state.value} after {limit_s:.0f} s"
        if self.waited_s > launcher.start_s and not (trains and self.ran):
            return f"it did not start within {launcher.start_s:.0f} s"
        if self.absent_s > launcher.silence_s and self.listed is None:
            return f"the engine has had no such job for {launcher.silence_s:.0f} s"
        if self.silent_s > launcher.silence_s and not trains:
            return f"the engine reported nothing about it for {launcher.silence_s:.0f} s"
        return ""


class TrainingNotices:
    """Says that nothing is heard of a training, or that it waits for machines again."""

    def __init__(self, session: Session, job: str) -> None:
        silent = (
            f"nothing has been heard of job {job}",
            "It may run on, and it is not ended: the gate asks until the job's time limit",
        )
        waits = (
            f"job {job} ran, and waits for machines again",
            "It is not ended. Cancel it in the engine if none will come",
        )
        self._silence = HourlyNotices(session, silent, f"the engine answers again about job {job}")
        self._wait = HourlyNotices(session, waits, f"the engine no longer says that job {job} waits")

    def see(self, times: JobTimes, detail: str) -> None:
        """Take in what is known of the job now."""
        self._wait.see(times.waited_s if times.ran else 0.0, detail)
        self._silence.see(times.silent_s, detail)


class HourlyNotices:
    """Says once and then hourly that a training may not run (`begins`: what, and what follows), tells its owner after an hour, and
    says when that is over (`ends`).
    """

    def __init__(self, session: Session, begins: tuple[str, str], ends: str) -> None:
        self._session, self._begins, self._ends = session, begins, ends
        self._hours = -1

    def see(self, lasts_s: float, detail: str) -> None:
        """Take in for how long that state has lasted; 0 where the training is not in it."""
        before, hours = self._hours, int(lasts_s // HOUR_S) if lasts_s else -1
        if hours == before:
            return
        self._hours = hours
        since = f" for {hours} h" if hours else ""
        line = f"{self._begins[0]}{since} ({detail}). {self._begins[1]}"
        report_progress(Progress("training", line if hours >= 0 else self._ends, lasting=True))
        if before <= 0 < hours:
            context = self._session.context
            title = redacted(f"gate {context.gate.name}: {line}")
            remedy = "Look at the job in the engine's console; if the engine is silent, at the gate's network and credentials."
            page_owner(context.gate, context.file, context.store, self._session.gate_id, title, (remedy,))
