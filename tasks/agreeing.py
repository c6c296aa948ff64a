"""Where the nodes decide by themselves: whether they came to the gate's own verdict, and a person's word for them."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path

from checks import asked
from checks.decode import DecodeError
from checks.model import Answer
from checks.report import dump_plain
from tasks.ask import ask
from tasks.collect import iso
from tasks.gatefile import Mode
from tasks.launchers.base import JobStatus
from tasks.outcome import Judged
from tasks.progress import Progress, tell
from tasks.question import Answer as PersonsAnswer
from tasks.session import Session
from tasks.starts import Starts
from tasks.store import verdictfile
from tasks.store.verdictfile import KeptVerdict
from tasks.threads import to_end
from tasks.watch import GRACE_S, fetch, follow

LOG = logging.getLogger("prelaunch")
# The nodes go on, hold, or end: the further to the right, the stricter.
STRICTNESS = {Answer.GO: 0, Answer.ASK: 1, Answer.NO_GO: 2, Answer.CANNOT_TELL: 2}


async def agree(session: Session, judged: Judged, starts: Starts) -> None:
    """Compare the gate's verdict with the nodes'. A difference is recorded; if the gate is the stricter one the job ends."""
    nodes = await _said(session, judged, starts)
    mine = judged.verdict
    others = {
        node: said for node, said in nodes.items() if (said.level, said.answer) != (mine.level, mine.answer)
    }
    starts.refusing = any(STRICTNESS[said.answer] > 1 for said in nodes.values())
    if not others:
        return
    words = ", ".join(f"{node} {said.answer.value} ({said.level.value})" for node, said in others.items())
    said = f"the gate says {mine.answer.value} ({mine.level.value}), its nodes: {words}"
    most = max(STRICTNESS[said.answer] for said in nodes.values())
    stricter = STRICTNESS[mine.answer] > most
    stop = stricter and session.setting.gate.policy.mode is not Mode.OBSERVE
    LOG.warning("the verdicts of start %s differ: %s", judged.report.attempt, said)
    await to_end(_record, session, judged, nodes, stop)
    starts.stopped = stop
    if stop:
        starts.notes.append(f"{said}; the gate is the stricter one, so the job was ended")
        await to_end(session.setting.launcher.cancel, session.checking)
        session.let_go(session.checking)
    elif others and most != STRICTNESS[mine.answer]:
        starts.notes.append(said)


async def answered(session: Session, judged: Judged, starts: Starts, minutes: int) -> PersonsAnswer | None:
    """A person's answer, handed over to the nodes that hold for it; where none comes in time they are told to refuse."""
    job, session.answer = session.checking, None  # an answer of before was about another start
    holds = judged.verdict.answer is Answer.ASK and not starts.refusing and not starts.stopped
    if not holds or not minutes or session.setting.gate.policy.mode is Mode.OBSERVE:
        return None
    answer = await ask(session, judged, minutes)
    word = asked.Word.LAUNCH if answer is not None and answer.launches else asked.Word.REFUSE
    by = answer.who if answer is not None else "nobody"
    why = answer.note or answer.reason if answer is not None else f"nobody answered in {minutes} minutes"
    attempt = judged.report.attempt
    data = asked.make(session.gate_id, attempt, word, by, why, iso(time.time()))
    await to_end(session.setting.launcher.answer, job, attempt, data)
    tell(Progress("checks", f"{word.value}: told to the nodes, on the word of {by}"))
    return answer


async def _said(session: Session, judged: Judged, starts: Starts) -> Mapping[str, KeptVerdict]:
    """What each node decided, as far as it can be seen; waited for while the start is on its way."""
    job, token = session.checking, judged.report.attempt
    folder, nodes = session.folder / job / token / "verdicts", session.setting.declared.nodes

    async def look(status: JobStatus) -> None:
        await to_end(fetch, session, job)

    def enough(status: JobStatus) -> bool:
        return len(_read(folder)) >= nodes or bool(starts.next(status))

    limit = session.setting.gate.checks.network_s + GRACE_S
    if token and len(_read(folder)) < nodes:
        await follow(session, job, limit, look, enough, ends=False)
    return _read(folder) if token else {}


def _read(folder: Path) -> dict[str, KeptVerdict]:
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            found[path.stem] = verdictfile.load(path.read_bytes())
        except (OSError, DecodeError) as error:
            LOG.warning("the verdict of %s cannot be read: %s", path.stem, error)
    return found


def _record(session: Session, judged: Judged, nodes: Mapping[str, KeptVerdict], stop: bool) -> None:
    """Raises StoreError."""
    attempt = judged.report.attempt
    record = {
        "attempt": attempt,
        "gate": {"level": judged.verdict.level, "answer": judged.verdict.answer},
        "nodes": {node: {"level": said.level, "answer": said.answer} for node, said in nodes.items()},
        "stopped": stop,
    }
    key = f"gates/{session.gate_id}/attempts/{attempt}/disagreement.json"
    session.setting.store.put(key, dump_plain(record))
