"""One run of the agent: bundle, roll call, checks (and a command), one merged report, one exit code."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePath

from checks import image_requirements
from checks.bundle import Bundle, dump
from checks.check import Check
from checks.documents.answer import ANSWER, ASKING
from checks.documents.report import MERGED_FILE, dump_plain
from checks.exchange.exchange import ExchangeError
from checks.exchange.secret_key import Service
from checks.exit_codes import Exit
from checks.facts.builtin import builtin
from checks.model import Skip
from checks.process.environment import of_chosen
from checks.process.tree import become_subreaper
from checks.process.whole_file import write_whole
from checks.roster import Member, Roster
from checks.runner.in_job.spares import without_spares
from checks.runner.journal import now
from checks.version import BUILD_IMAGE, ENGINE
from container.agent import check_command, host_work
from container.agent.check_command import AgentContext
from container.agent.files import exit_record, inputs
from container.agent.files.exit_record import ExitRecord, say
from container.agent.files.log_lines import LOG, LogFiles
from container.agent.files.mirror import Mirror
from container.agent.files.scratch import make, remove, remove_abandoned
from container.agent.host_work import Ended
from container.agent.hosts import address, roll_call, roster_source
from container.agent.hosts.roll_call import AttemptMembers, ContainerStart, RollCallResponder
from container.agent.settings import Settings, Verb
from container.agent.supervisor import Signals

UNKNOWN = "no-bundle"
SPARE = "spare"  # tasks/launchers/slurm/job.sh looks for it
UPLOAD_S = 40.0  # of the 120 s that SageMaker leaves after SIGTERM


def reject(root: Path, reason: str) -> None:
    """Say what went wrong, in the log and in the file that SageMaker shows."""
    say(reason)
    exit_record.write_failure(root, reason)


def live(settings: Settings, signals: Signals) -> int:
    """Run from the bundle to the exit code. Whatever happens, a record is left and, if something went wrong, the reason."""
    become_subreaper()
    for stale in (exit_record.failure_path(settings.root), settings.out / MERGED_FILE):
        _remove(stale)  # of a life before this one
    node = settings.node or os.uname().nodename
    record = ExitRecord(UNKNOWN, uuid.uuid4().hex, node, now(), restarts=settings.restarts)
    scratch: Path | None = None
    try:
        remove_abandoned()
        scratch = make()
        return _leave(settings, signals, *_live(settings, signals, record, scratch))
    except OSError as error:
        reason = f"cannot_tell: {error.filename or 'the agent'}: {error.strerror or error}"
        return _leave(settings, signals, record, None, Ended(Exit.CANNOT_TELL, reason))
    except Exception as error:  # noqa: BLE001 - the last resort: Python's own exit code would read as no-go
        reason = f"cannot_tell: an error of the agent itself: {type(error).__name__}: {error}"
        return _leave(settings, signals, record, None, Ended(Exit.CANNOT_TELL, reason))
    finally:
        if scratch is not None:
            remove(scratch)


def _live(
    settings: Settings, signals: Signals, record: ExitRecord, scratch: Path
) -> tuple[ExitRecord, Mirror | None, Ended]:
    bare = settings.verb is Verb.EXEC
    try:
        bundle, data = (inputs.usable_bundle if bare else inputs.fetch_bundle)(settings.bundle, settings.root)
        record = replace(record, gate_id=bundle.gate_id if bundle else settings.job or UNKNOWN)
        hosts = roster_source.find(settings, bundle)
        record = replace(record, node=hosts.node)
        secret, key_path = inputs.fetch_key(settings, len(hosts.names), scratch)
        passed = inputs.fetch(settings.confirm, inputs.PASS_BYTES) if settings.confirm else b""
    except (inputs.FetchError, roster_source.PlaceUnknown) as error:
        return record, None, Ended(Exit.REJECTED, str(error))
    if bundle is not None and not bare and (fault := image_fault(bundle)):
        return record, None, Ended(Exit.REJECTED, fault)
    write_whole(scratch / "bundle.json", data)
    write_whole(scratch / "pass.json", passed)
    access = secret.access(Service.AGENT, record.gate_id, hosts.node)
    context = AgentContext(settings, signals, record.gate_id, bundle, hosts, scratch, access, key_path)
    own = ContainerStart(record.attempt, check_command.own_address(hosts))
    responder = _open_responder(context, own.address)
    try:
        return _attempt(context, record, own, responder)
    except roll_call.NotInAttempt as error:
        return record, None, Ended(Exit.CANNOT_TELL, f"cannot_tell: {error}")
    finally:
        responder.close()


def _attempt(
    context: AgentContext, record: ExitRecord, own: ContainerStart, responder: RollCallResponder
) -> tuple[ExitRecord, Mirror | None, Ended]:
    settings, hosts, bundle = context.settings, context.hosts, context.bundle
    called = _call_roll(context, own, responder)
    absent = tuple(name for name in hosts.names if name not in called.members)
    record = replace(record, attempt=called.token, missing=absent, reason=called.reason)
    say(
        f"attempt {record.attempt}: {len(called.members)} of {len(hosts.names)} hosts. {called.reason}".rstrip()
    )
    mirror, roster = _begin(context, record), check_command.roster(context, called)
    write_whole(context.scratch / "roster.json", dump_plain(roster))
    if context.signals.number:
        return record, mirror, host_work.interrupted(context.signals)
    if bundle is None or settings.verb is Verb.EXEC:
        return record, mirror, _execute(context, record)
    ended = host_work.check(context, record.attempt, bundle)
    choice = None if context.signals.number else host_work.take_choice(context)
    if choice is not None and hosts.node not in choice.nodes:
        if choice.attempt == record.attempt:  # the others start: the engine may have this one back
            write_whole(settings.root / SPARE, b"")
        return record, mirror, Ended(Exit.GO, "this node is left out of the training")
    if choice is not None:
        left = replace(roster, members=tuple(each for each in roster.members if each.name in choice.nodes))
        return _without_spares(context, bundle, (record, mirror, choice.attempt), left)
    if ended.code and called.reason:
        ended = replace(ended, reason=f"{ended.reason}; {called.reason}")
    return record, mirror, ended


def _begin(context: AgentContext, record: ExitRecord) -> Mirror:
    """Begin a start of the job: the folder is mirrored from now on, and has this host's record."""
    settings, hosts = context.settings, context.hosts
    folder = settings.out / record.attempt
    _forget(folder, hosts.node, hosts.is_first)
    # A command without checks may write anywhere below; what it did not write is no part of this attempt.
    mirror = _mirror(settings, record, settings.out if settings.verb is Verb.EXEC else folder)
    exit_record.write_record(folder, record)
    return mirror


def _without_spares(
    context: AgentContext, bundle: Bundle, start: tuple[ExitRecord, Mirror, str], roster: Roster
) -> tuple[ExitRecord, Mirror | None, Ended]:
    """End this `start` of the job, and run the checks again on the nodes of the roster, as a start with its own token."""
    record, mirror, attempt = start
    reason = f"the checks run again on {', '.join(member.name for member in roster.members)}"
    say(reason)
    folder = context.settings.out / record.attempt
    exit_record.write_record(folder, exit_record.ended(record, Exit.GO, "", reason))  # it fails no training
    if problem := mirror.close(UPLOAD_S):
        say(f"not copied: {problem}")
    bundle = replace(bundle, declared=without_spares(bundle.declared))
    write_whole(context.scratch / "bundle.json", dump(bundle))
    write_whole(context.scratch / "roster.json", dump_plain(roster))
    os.environ.update(of_chosen(os.environ, [member.name for member in roster.members], record.node))
    record = replace(record, attempt=attempt, started_at=now(), missing=(), reason="")
    again = replace(context, bundle=bundle)
    return record, _begin(again, record), host_work.check(again, attempt, bundle)


def _execute(context: AgentContext, record: ExitRecord) -> Ended:
    """Run on all hosts or on none, because a command that meets its peers would wait for a missing host."""
    if record.missing or record.reason:
        reason = record.reason or f"{', '.join(record.missing[:8])}: no answer to the roll call"
        return Ended(Exit.CANNOT_TELL, f"cannot_tell: the command was not started: {reason}")
    return host_work.execute(context, record.attempt)


def _leave(
    settings: Settings, signals: Signals, record: ExitRecord, mirror: Mirror | None, ended: Ended
) -> int:
    folder = settings.out / record.attempt
    code, reason = ended.code, ended.reason or record.reason
    started, failure = folder / "started" / record.node, folder / "failure" / record.node
    if code and not any(map(os.path.exists, (started, failure))):
        exit_record.write_reason(folder, record.node, reason)
    exit_record.write_record(folder, exit_record.ended(record, code, signals.name, reason))
    problem = (mirror or _mirror(settings, record, folder)).close(UPLOAD_S)
    if problem:
        report = PurePath("nodes") / f"{record.node}.json"
        with suppress(OSError):
            data = (folder / report).read_bytes()
            _log_files(record, PurePath(record.attempt)).put(report, data, last=True)
        say(f"not copied: {problem}")
        if not code and not settings.command:
            code, reason = Exit.CANNOT_TELL, f"cannot_tell: the report could not be copied: {problem}"
            exit_record.write_record(folder, exit_record.ended(record, code, signals.name, reason))
    exit_record.write_termination(
        settings.termination_log, exit_record.ended(record, code, signals.name, reason)
    )
    if code and os.path.exists(exit_record.failure_path(settings.root)):
        say(reason)  # the command gave its own reason: `live` has removed that of a life before
    elif code:
        reject(settings.root, reason)
    return code


def _call_roll(context: AgentContext, own: ContainerStart, responder: RollCallResponder) -> AttemptMembers:
    settings, hosts = context.settings, context.hosts
    if hosts.is_first:
        return roll_call.keep(responder, hosts.names, (hosts.node, own), settings.join_s, context.signals)

    def first() -> Member | None:
        found_address = address.resolve(hosts.resolvable(hosts.first))
        return Member(hosts.first, found_address, settings.port) if found_address else None

    return roll_call.answer(first, context.access, (hosts.node, own), settings.join_s, context.signals)


def _open_responder(context: AgentContext, own_address: str) -> RollCallResponder:
    hosts = context.hosts
    responder = RollCallResponder(context.access, "")
    if len(hosts.names) > 1:
        try:
            responder.listen(own_address, context.settings.port)
        except ExchangeError as error:
            say(str(error))  # the others will not reach it, and say so
    return responder


def _forget(folder: Path, node: str, first: bool) -> None:
    """Remove what an earlier start left: one that comes again during the roll call gets the same token, and proves nothing by that."""
    own = [folder / "nodes" / f"{node}.json", folder / "verdicts" / f"{node}.json"]
    own += [folder / subfolder / node for subfolder in ("started", "failure", ASKING)]
    for stale in (*own, folder / MERGED_FILE, folder / ANSWER) if first else own:
        _remove(stale)


def _mirror(settings: Settings, record: ExitRecord, folder: Path) -> Mirror:
    """<prefix>/<gate id>/<attempt token>, or the log; of a command without checks the whole folder, to <prefix>/<gate id>.

    Of a job of SageMaker without a place to copy to only the log shows what the checks saw.
    """
    whole = folder == settings.out
    if settings.upload == LOG or (settings.job and not settings.upload and not whole):
        top = PurePath() if whole else PurePath(record.attempt)
        return Mirror(folder, LOG, whole, _log_files(record, top))
    if not settings.upload:
        return Mirror(folder, "")
    gate = record.gate_id if record.gate_id != UNKNOWN else settings.job or UNKNOWN
    target = f"{settings.upload.rstrip('/')}/{gate}"
    return Mirror(folder, target if whole else f"{target}/{record.attempt}", from_now=whole)


def _log_files(record: ExitRecord, top: PurePath) -> LogFiles:
    return LogFiles((record.gate_id, record.attempt, record.node), top, MERGED_FILE)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        say(f"{path} cannot be removed: {error.strerror}")


def image_fault(bundle: Bundle) -> str:
    """What this image lacks for the checks of the bundle, with the remedy; "" if it lacks nothing that they must have."""
    if (other := bundle.facts != builtin().digest) or bundle.version not in (ENGINE, ""):
        tables = ", with other tables of facts" if other else ""
        return f"the image has Prelaunch {ENGINE}, and the gate {bundle.version or 'an earlier version'}{tables}. {BUILD_IMAGE}"
    from checks.catalog import CATALOG

    modules = image_requirements.needed(check for check in CATALOG if _is_required(check, bundle))
    for name in (name for name in modules if name in image_requirements.BROUGHT):
        try:
            image_requirements.load(name)
        except ImportError as error:
            return f"the image cannot import {name}, which the checks of GPUs need: {error}. Install nvidia-ml-py in it. {BUILD_IMAGE}"
    return ""


def _is_required(check: Check, bundle: Bundle) -> bool:
    """Whether the gate refuses without this check."""
    line = bundle.policy.checks.get(check.name)
    if line is None or check.name in bundle.skip or not bundle.declared.gpus_per_node:
        return False
    return line.required and bundle.profile in line.profiles and not line.accepts(Skip.TOOL_MISSING)
