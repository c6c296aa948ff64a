"""The machines that were checked, held for the training (POOLED), and what was seen of it: the proof of the placement.

PoolLost            they are gone, or somebody else's, for the second time
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from tasks import reuse
from tasks.costing import price_for
from tasks.launchers.base import Hold, JobState, JobStatus, Keeping, LaunchError, Placement
from tasks.lease import CHECK, TRAIN
from tasks.left import left
from tasks.outcome import Judged
from tasks.progress import Progress, tell
from tasks.render.clean import one_line
from tasks.session import Session
from tasks.stop import StopWatch, guard
from tasks.threads import to_end

ROUNDS = 2
# AWS says that a pool becomes available "some time after" its job completed, and no more than that.
COMING_S = 600.0
# How long after the training runs the engine may take to say whose the pool is.
PROOF_S = 60.0
IDENTITIES = (("gpu_uuids", "GPU UUIDs"), ("boot_id", "boot id"), ("pool_token", "token"))


class PoolLost(LaunchError):
    """The machines that were checked cannot be had any more; the message says who has them."""


async def held(session: Session, judged: Judged) -> bool:
    """Whether the training may be submitted; False: the machines are gone, and the checks begin again.

    Raises PoolLost where that happened before.
    """
    if session.setting.launcher.placement is not Placement.POOLED or judged.reused:
        return True
    if session.keeper.lease.adopted and not (await left(session)).train.absent:
        return True  # it was submitted before its gate died: whatever became of the pool since, it is not begun twice
    check, train = session.keeper.lease.job(CHECK), session.keeper.lease.job(TRAIN)
    hold = await _known(session, check)
    if hold.keeping is Keeping.READY or (hold.keeping is Keeping.TAKEN and hold.by == train):
        return True
    said = f"the machines of {check} {_lost(hold)}"
    if session.rounds >= ROUNDS:
        raise PoolLost(
            f"{said}, after {session.rounds} rounds of checks. Give the pool a role_arn or volume_gb that nobody "
            "else uses, and look at keep_alive_s and the quota for warm pools."
        )
    tell(Progress("pool", f"{said}: checking again from the start"))
    await to_end(_again, session)
    return False


class PoolProof:
    """Whether the running training has the pool, asked of the engine until it says so or its time is up."""

    def __init__(self, session: Session, job: str) -> None:
        self.session, self.job = session, job
        self.check = session.keeper.lease.job(CHECK)
        pooled = session.setting.launcher.placement is Placement.POOLED
        self.settled = not pooled or session.judged is None or bool(session.judged.reused)
        self._since: float | None = None

    async def look(self, status: JobStatus) -> None:
        """Ask, if it runs or ran."""
        if not self.settled and (status.state is JobState.RUNNING or status.state.final):
            await to_end(self._ask, status.state.final)

    def _ask(self, last: bool) -> None:
        self._since = self._since or time.monotonic()
        hold = _asked(self.session, self.check)
        late = last or time.monotonic() - self._since > PROOF_S
        if hold.keeping is Keeping.TAKEN and hold.by == self.job:
            self._settle(f"pool of {self.check} reused by {self.job}")
        elif hold.keeping in (Keeping.TAKEN, Keeping.GONE, Keeping.NOTHING):
            self._settle(f"not the pool's machines ({_lost(hold)}): the nodes check again in place")
        elif late:
            # The training runs without it, so it is paid for in vain: the end of the gate releases it.
            said = "the pool was still kept as the training ran"
            self.session.proof.append(f"not the pool's machines ({said}): the nodes check again in place")
            self.settled = True
            self.session.release()

    def _settle(self, proof: str) -> None:
        self.session.proof.append(proof)
        self.session.let_go(self.check)
        self.settled = True


def pool_waits(session: Session) -> bool:
    """Whether the machines that passed still wait for the training. They are released once the gate file's time is up."""
    check, keeps_s = session.keeper.lease.job(CHECK), session.setting.launcher.keeps_s
    since_s = session.kept_s(check)
    if since_s is None:
        return False
    if keeps_s is not None and since_s > keeps_s:
        session.release()
        return False
    return _asked(session, check).keeping in (Keeping.READY, Keeping.COMING)


def kept_now(session: Session) -> str:
    """What the machines cost that wait for the training, and for how long they do; "" where none wait."""
    since_s, keeps_s = session.kept_s(session.keeper.lease.job(CHECK)), session.setting.launcher.keeps_s
    if since_s is None:
        return ""
    most = "" if keeps_s is None else f", for {max(0.0, keeps_s - since_s) / 60:.0f} more minutes at most"
    return f"{_nodes(session)} are kept meanwhile: {_usd(session, 1.0)} an hour{most}."


def kept_so_far(session: Session) -> str:
    """What they have cost by now; "" where none wait."""
    since_s = session.kept_s(session.keeper.lease.job(CHECK))
    if since_s is None:
        return ""
    said = _usd(session, since_s / 3600)
    return f"{_nodes(session)} were kept for it for {since_s / 60:.1f} minutes ({said})."


def _nodes(session: Session) -> str:
    nodes = session.setting.declared.nodes
    return f"{nodes} node{'s' if nodes > 1 else ''}"


def _usd(session: Session, hours: float) -> str:
    declared = session.setting.declared
    price = price_for(declared.instance_type, session.setting.terms)
    if price is None:
        return f"at a price of {declared.instance_type} that is not known"
    return f"{declared.nodes * hours * price.usd_per_node_hour:,.0f} USD"


def handed_over(session: Session, job: str) -> None:
    """The training outlives the gate before anything was seen of it; its pool must, too."""
    check = session.keeper.lease.job(CHECK)
    if session.setting.launcher.placement is Placement.POOLED and not (
        session.judged and session.judged.reused
    ):
        said = "was not waited for; its nodes compare themselves, and check again in place where they differ"
        session.proof.append(f"pool of {check} was ready when {job} was submitted; that it got it {said}")
    session.let_go(check)
    session.let_go(job)


def confirmed(session: Session, judged: Judged, folder: Path) -> None:
    """What the training's nodes said of themselves, from the folder of its attempt."""
    nodes = session.setting.declared.nodes
    started = len(list((folder / "started").glob("*")))
    checked = any((folder / "verdicts").glob("*.json")) or any((folder / "nodes").glob("*.json"))
    if session.in_job:
        if started >= nodes:
            session.proof.append(f"all {nodes} hosts checked themselves and trained, in one start of one job")
    elif checked:
        session.proof.append("not all hosts are the machines that passed: they checked again in place")
    elif started >= nodes:
        known = [
            word
            for key, word in IDENTITIES
            if judged.report.nodes and all(node.identity.get(key) for node in judged.report.nodes)
        ]
        session.proof.append(f"all {nodes} hosts confirmed: {', '.join(known) or 'host'}")


async def _known(session: Session, check: str) -> Hold:
    """What the engine says once it knows; what it does not know in time is lost."""
    stop, begun = StopWatch(), time.monotonic()
    while True:
        await guard(session, stop)
        hold = await to_end(_asked, session, check)
        if hold.keeping is not Keeping.COMING or time.monotonic() - begun > COMING_S:
            return hold
        tell(Progress("pool", f"waiting for the machines of {check}: {hold.said}"))
        await asyncio.sleep(session.setting.launcher.poll_s)


def _asked(session: Session, check: str) -> Hold:
    """An engine that does not answer is asked again."""
    try:
        return session.setting.launcher.hold(check)
    except LaunchError as error:
        return Hold(Keeping.COMING, one_line(str(error)))


def _lost(hold: Hold) -> str:
    said = f" ({hold.said})" if hold.said else ""
    if hold.keeping is Keeping.TAKEN:
        return f"were taken by {hold.by or 'another job'}{said}"
    if hold.keeping is Keeping.COMING:
        return f"were not ready within {COMING_S:.0f} s{said}"
    return f"are kept no more{said}"


def _again(session: Session) -> None:
    """From the start: what passed, passed on machines that are gone. Raises LaunchError, LeaseLost, StoreError."""
    session.rounds += 1
    reuse.forget(session)
    session.begin_again()
