"""One life of the agent: bundle, roll call, checks (and a command), one merged report, one exit code."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

from checks.exchange import ExchangeError
from checks.journal import now, write_whole
from checks.processes import become_subreaper
from checks.report import dump_plain
from checks.roster import Member
from container.agent import fetch, hostengine, leave, places, roll, start, supervise
from container.agent.leave import Record, say
from container.agent.mirror import Mirror
from container.agent.roll import Desk, Life, Roll
from container.agent.settings import Settings
from container.agent.settle import NAME, Attempt, Settlement
from container.agent.signals import Signals
from container.agent.start import Scene

EXIT_NO_GO, EXIT_REJECTED, EXIT_CANNOT_TELL = 1, 2, 3
UNKNOWN = "no-bundle"
SETTLE_S = 15.0  # how long reports may take to come together after a signal, of SageMaker's 120 s


@dataclass(frozen=True)
class Ended:
    """The exit code, and the reason where that is not 0."""

    code: int
    reason: str


def reject(root: Path, reason: str) -> None:
    """Say why it did not go well, in the log and where SageMaker looks."""
    say(reason)
    leave.write_failure(root, reason)


def live(settings: Settings, signals: Signals) -> int:
    """From the bundle to the exit code. Whatever happens, a record and, where it did not go well, a reason is left."""
    become_subreaper()
    for stale in (leave.failure_path(settings.root), settings.out / NAME):
        _remove(stale)  # of a life before this one
    number = uuid.uuid4().hex
    record = Record(UNKNOWN, number, settings.node or os.uname().nodename, now())
    scratch: Path | None = None
    try:
        scratch = Path(tempfile.mkdtemp(prefix="prelaunch-agent-"))
        return _leave(settings, signals, *_live(settings, signals, record, scratch))
    except OSError as error:
        said = f"cannot_tell: {error.filename or 'the agent'}: {error.strerror or error}"
        return _leave(settings, signals, record, None, Ended(EXIT_CANNOT_TELL, said))
    except Exception as error:  # noqa: BLE001 - the last resort: Python's own exit code would read as no-go
        said = f"cannot_tell: an error of the agent itself: {type(error).__name__}: {error}"
        return _leave(settings, signals, record, None, Ended(EXIT_CANNOT_TELL, said))
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def _live(
    settings: Settings, signals: Signals, record: Record, scratch: Path
) -> tuple[Record, Mirror | None, Ended]:
    try:
        bundle, data = fetch.fetch_bundle(settings.bundle, settings.root)
        record = replace(record, gate_id=bundle.gate_id)
        hosts = places.find(settings, bundle)
        record = replace(record, node=hosts.node)
        passed = fetch.fetch(settings.confirm, fetch.PASS_BYTES) if settings.confirm else b""
    except (fetch.FetchError, places.PlaceUnknown) as error:
        return record, None, Ended(EXIT_REJECTED, str(error))
    write_whole(scratch / "bundle.json", data)
    write_whole(scratch / "pass.json", passed)
    scene = Scene(settings, signals, bundle, hosts, scratch, bool(settings.confirm))
    own = Life(record.attempt, start.own_address(hosts))
    desk = _open_desk(scene, own.address)
    try:
        return _attempt(scene, record, own, desk)
    except roll.NotOnTheRoll as error:
        return record, None, Ended(EXIT_CANNOT_TELL, f"cannot_tell: {error}")
    finally:
        desk.close()


def _attempt(scene: Scene, record: Record, own: Life, desk: Desk) -> tuple[Record, Mirror | None, Ended]:
    settings, hosts = scene.settings, scene.hosts
    called = _call_roll(scene, own, desk)
    absent = tuple(name for name in hosts.names if name not in called.members)
    record = replace(record, attempt=settings.attempt or called.token, missing=absent, reason=called.alone)
    say(
        f"attempt {record.attempt}: {len(called.members)} of {len(hosts.names)} hosts. {called.alone}".rstrip()
    )
    agents = tuple(
        start.agent(scene, name, called.members[name].address) for name in hosts.names if name not in absent
    )
    attempt = Attempt(
        scene.bundle, record.attempt, hosts.node, hosts.names, agents, desk, called, settings.out
    )
    _forget(attempt, hosts.is_first)
    leave.write_record(attempt.folder, record)
    mirror = Mirror(attempt.folder, _destination(settings, record))
    if scene.signals.number:
        return record, mirror, _interrupted(scene.signals)
    return record, mirror, _check(scene, attempt)


def _check(scene: Scene, attempt: Attempt) -> Ended:
    signals, settlement = scene.signals, Settlement(attempt)
    write_whole(scene.scratch / "roster.json", dump_plain(start.roster(scene, attempt.roll)))
    environment = start.environment(scene, attempt.token, os.environ)
    if done := hostengine.ensure(scene.bundle.declared.gpus_per_node):
        say(done)
    try:
        code = supervise.run(start.arguments(scene), environment, signals, scene.settings.patience_s)
    except OSError as error:
        settlement.finish(f"its checks could not be started: {error}")
        return Ended(EXIT_CANNOT_TELL, f"cannot_tell: the checks could not be started: {error}")
    settlement.finish(_last_words(code, signals, attempt))
    begun = time.monotonic()
    answer = settlement.wait(
        lambda: bool(signals.number) and time.monotonic() - max(begun, signals.at) > SETTLE_S
    )
    if signals.number:
        return _interrupted(signals)
    if scene.settings.command:
        return _after_gate(code, attempt)
    if code == 0:
        return Ended(answer.code, answer.said if answer.code else "")
    rejected = code == EXIT_REJECTED
    worst = EXIT_REJECTED if rejected else EXIT_NO_GO if answer.code == EXIT_NO_GO else EXIT_CANNOT_TELL
    return Ended(worst, f"the checks ended with exit code {code}; {answer.said}")


def _after_gate(code: int, attempt: Attempt) -> Ended:
    """The command's own exit code, or the gate's where it did not start."""
    if (attempt.folder / "started" / attempt.node).exists():
        return Ended(code, f"the command ended with exit code {code}" if code else "")
    try:
        said = (attempt.folder / "failure" / attempt.node).read_text(errors="replace").strip()
    except OSError:
        said = f"the gate ended with exit code {code} and left no reason"
    return Ended(code or EXIT_CANNOT_TELL, f"the command was not started: {said}")


def _leave(settings: Settings, signals: Signals, record: Record, mirror: Mirror | None, ended: Ended) -> int:
    folder = settings.out / record.attempt
    code, reason = ended.code, ended.reason or record.reason
    if code and not settings.command:
        leave.write_reason(folder, record.node, reason)
    leave.write_record(folder, leave.ended(record, code, signals.name, reason))
    mirror = mirror or Mirror(folder, _destination(settings, record))
    problem = mirror.close(settings.upload_s)
    if problem:
        say(f"not copied: {problem}")
        if not code and not settings.command:
            code, reason = EXIT_CANNOT_TELL, f"cannot_tell: the report could not be copied: {problem}"
            leave.write_record(folder, leave.ended(record, code, signals.name, reason))
    if code:
        reject(settings.root, reason)
    return code


def _call_roll(scene: Scene, own: Life, desk: Desk) -> Roll:
    settings, hosts = scene.settings, scene.hosts
    if settings.attempt:  # the launcher gave every host the same one
        return Roll({name: Life("", start.listed_address(hosts, name)) for name in hosts.names})
    if hosts.is_first:
        return roll.keep(desk, hosts.names, (hosts.node, own), settings.join_s, scene.signals)

    def first() -> Member | None:
        found = start.listed_address(hosts, hosts.first)
        return start.agent(scene, hosts.first, found) if found else None

    return roll.answer(first, scene.bundle.gate_id, (hosts.node, own), settings.join_s, scene.signals)


def _open_desk(scene: Scene, own_address: str) -> Desk:
    hosts = scene.hosts
    desk = Desk(scene.bundle.gate_id, hosts.node, "")
    if len(hosts.names) > 1:
        me = start.agent(scene, hosts.node, own_address)
        try:
            desk.listen(me.address, me.probe_port)
        except ExchangeError as error:
            say(str(error))  # the others will not reach it, and say so
    return desk


def _interrupted(signals: Signals) -> Ended:
    return Ended(128 + signals.number, f"ended by {signals.name}; the reports are as far as they came")


def _last_words(code: int, signals: Signals, attempt: Attempt) -> str:
    if signals.number:
        return f"its agent was ended by {signals.name}"
    started = (attempt.folder / "started" / attempt.node).exists()
    return f"its checks ended with exit code {code}" if code and not started else ""


def _forget(attempt: Attempt, first: bool) -> None:
    """A launcher may give a container that starts again the token of its life before: what that one left proves nothing."""
    folder, node = attempt.folder, attempt.node
    own = [folder / "nodes" / f"{node}.json", folder / "verdicts" / f"{node}.json"]
    own += [folder / "started" / node, folder / "failure" / node]
    for stale in (*own, folder / NAME) if first else own:
        _remove(stale)


def _destination(settings: Settings, record: Record) -> str:
    """<prefix>/<gate id>/<attempt token>, "" for nowhere."""
    gate = record.gate_id if record.gate_id != UNKNOWN else settings.job or UNKNOWN
    return f"{settings.upload.rstrip('/')}/{gate}/{record.attempt}" if settings.upload else ""


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        say(f"{path} cannot be removed: {error.strerror}")
