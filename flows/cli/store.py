"""`prelaunch store list|index|prune`: lists the verdicts of a store, builds their index, and deletes old ones."""

from __future__ import annotations

import argparse
import re
import time
from datetime import UTC, datetime

from checks.documents.report import plain
from checks.exit_codes import Exit
from checks.judge.clocks import seconds_of
from checks.model import ANSWER_WORDS, LINK, Answer, Level, node_of
from checks.value_types import DecodeError
from flows.cli.output import json_text, rejection, write_stderr, write_stdout
from flows.cli.rejection import report_rejection
from flows.cli.store_options import add_cluster, add_format, add_store
from tasks.gate.outcome import Decision, Ending
from tasks.gate.record.end import KeptEnd, kept_ends
from tasks.launchers.base import JobState
from tasks.reports.fleet.reading import needed_gates
from tasks.reports.listings import NO_OUTCOME, listed_text, pruned_text, unjudged_text
from tasks.reports.read import InputError
from tasks.reports.store_argument import (
    NamedStore,
    UnknownNode,
    chosen_cluster,
    cluster_note,
    open_named_store,
    require_gates,
    require_known_node,
)
from tasks.store.base import Store, StoreError
from tasks.store.history import listed, rebuild
from tasks.store.index import IndexFailed
from tasks.store.layout import verdict_key
from tasks.store.prune import Pruning, planned, removed
from tasks.store.records import Record, findings_line, load, stamped_at
from tasks.text.inert import one_line

UNITS_S = {"m": 60, "h": 3600, "d": 86_400}
# Every state that a gate may have seen last: a gate need not wait for the training's end.
TRAINING_WORDS = {
    JobState.PENDING: "the training was waiting when the gate ended",
    JobState.RUNNING: "the training ran when the gate ended",
    JobState.SUCCEEDED: "the training succeeded",
    JobState.FAILED: "the training failed",
    JobState.CANCELLED: "the training was cancelled",
    JobState.UNKNOWN: "how the training ended is not known",
}
UNENDED = f'"{NO_OUTCOME}" in the column "decided": the gate still runs, or was ended before it could keep how it ended (outcome.json)'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The three actions."""
    actions = parser.add_subparsers(metavar="ACTION", title="actions", required=True, dest="action")
    parser.description = (
        "Lists, indexes and removes what is in a store. STORE is a folder, s3://bucket/prefix, or the gate file that names "
        "one. Exit codes: 0 done, 2 rejected, 3 something could not be read and is "
        "named, 5 the store or the index failed."
    )
    show = actions.add_parser("list", help="list every verdict, oldest first", allow_abbrev=False)
    add_cluster(show, "verdicts")
    show.add_argument(
        "--since",
        default="",
        metavar="TIME",
        help="only verdicts of this time or later: 2026-11-20, 2026-11-20T08:00:00Z, or an age such as 30m, 2h or 3d",
    )
    show.add_argument(
        "--node",
        default="",
        metavar="NAME",
        help="only verdicts that condemn this node, have a finding about it, or whose training failed on it",
    )
    index = actions.add_parser("index", help="rebuild the index from the store", allow_abbrev=False)
    index.add_argument("--rebuild", action="store_true", required=True, help="replace the rows of this store")
    prune = actions.add_parser(
        "prune", help="list old gates, and remove them with --delete", allow_abbrev=False
    )
    prune.add_argument(
        "--older-than",
        type=_days,
        required=True,
        metavar="DAYS",
        help="only gates that are older than this number of days",
    )
    add_cluster(prune)
    prune.add_argument("--keep-refused", action="store_true", help="keep every gate whose answer was not GO")
    prune.add_argument(
        "--delete",
        action="store_true",
        help="remove the listed gates; without this option nothing is removed",
    )
    for action, run_action in ((show, _list), (index, _index), (prune, _prune)):
        add_store(action)
        add_format(action)
        action.set_defaults(run_action=run_action)


def run(arguments: argparse.Namespace) -> int:
    """List, index or prune."""
    try:
        kept = open_named_store(arguments.store)
        require_gates(kept)
        return int(arguments.run_action(arguments, kept))
    except (InputError, StoreError) as error:
        return report_rejection(arguments.format, error)
    except IndexFailed as error:
        if arguments.format == "json":
            write_stdout(json_text(rejection(None, None, str(error))))
        write_stderr(f"prelaunch: {error}")
        return int(Exit.NO_CAPACITY)


def _list(arguments: argparse.Namespace, kept: NamedStore) -> int:
    since = _instant(arguments.since) if arguments.since else ""
    found = listed(kept.store, kept.index())
    cluster = chosen_cluster(kept, arguments.cluster)
    chosen = [one for one in found.records if one.judged_at >= since and cluster in (None, one.cluster)]
    problems = list(found.problems)
    decided = kept_ends(kept.store, [record.gate_id for record in chosen])
    of_node = {gate_id: end.failure for gate_id, end in decided.items() if end.failure}
    if arguments.node:
        of_node = {
            gate_id: why for gate_id, why in of_node.items() if decided[gate_id].node == arguments.node
        }
        said = {one.gate_id: _about_node(kept.store, one, arguments.node, problems) for one in chosen}
        of_node |= {one: text for one, text in said.items() if text is not None and one not in of_node}
        chosen = [record for record in chosen if record.gate_id in of_node]
        if not chosen and not problems:
            _require_known(kept, arguments, problems)
    late = () if arguments.node else [one for one in found.unjudged if _began(one) >= since]
    ends = kept_ends(kept.store, late)
    unjudged = {one: end for one, end in ends.items() if cluster in (None, end.cluster)}
    if arguments.format == "json":
        rows = [
            {
                **_table(one),
                **_decision_json(decided.get(one.gate_id)),
                "node_finding": of_node.get(one.gate_id) if arguments.node else None,
            }
            for one in chosen
        ]
        ended = [
            {
                "gate_id": gate_id,
                "began_at": _began(gate_id),
                "cluster": end.cluster or None,
                "ending": end.ending.value,
                "reason": end.reason,
            }
            for gate_id, end in unjudged.items()
        ]
        write_stdout(json_text({"verdicts": rows, "unjudged": ended, "problems": problems, "error": None}))
    else:
        texts = {one.gate_id: text for one in chosen if (text := _decision_text(decided.get(one.gate_id)))}
        write_stdout(listed_text(chosen, texts, of_node))
        write_stdout(
            unjudged_text([(_began(gate_id), gate_id, end.reason) for gate_id, end in unjudged.items()])
        )
        if len(texts) < len(chosen):
            write_stderr(f"prelaunch: {UNENDED}")
    for problem in [*problems, *([found.index_problem] if found.index_problem else [])]:
        write_stderr(f"prelaunch: {problem}")
    _say_cluster(arguments, kept, "store", "list", "STORE")
    return int(Exit.CANNOT_TELL if problems else Exit.GO)


def _say_cluster(arguments: argparse.Namespace, kept: NamedStore, *words: str) -> None:
    if note := cluster_note(kept, arguments.cluster, *words):
        write_stderr(f"prelaunch: {note}")


def _require_known(kept: NamedStore, arguments: argparse.Namespace, problems: list[str]) -> None:
    """Raise InputError for a node that no gate knows; where some gates cannot be read, that is a problem."""
    try:
        require_known_node(kept, arguments.node, arguments.store, "--node")
        write_stderr(f"prelaunch: no verdict names the node {one_line(arguments.node, 80)}")
    except UnknownNode as error:
        if error.complete:
            raise
        problems.append(error.message)


def _about_node(store: Store, record: Record, node: str, problems: list[str]) -> str | None:
    """The node's own first finding, or that there is none about it; None unless the verdict condemns the node or has a finding about
    it. What cannot be read is a problem, and is not listed.
    """
    condemned = node in record.condemned
    if record.level is Level.PASS and not condemned:
        return None
    try:
        data = store.get(verdict_key(record.gate_id))
        if data is None:
            raise DecodeError("it is missing")
        found = load(data).findings
    except DecodeError as error:
        problems.append(f"{store.place(verdict_key(record.gate_id))}: {error}")
        return f"its findings about {node} cannot be read" if condemned else None
    own = [one for one in found if node in {node_of(end.strip()) for end in one.subject.split(LINK)}]
    if not own:
        return f"no finding about {node}" if condemned else None
    return findings_line(own)


def _began(gate_id: str) -> str:
    """When a gate began, as its id says; "" for an id of another form."""
    at = stamped_at(gate_id)
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _decision_text(ended: KeptEnd | None) -> str:
    """Such as "launched, by the policy; the training failed" and "overridden, by U0456EFGH (Slack)"; "" where it is not known."""
    if ended is None:
        return ""
    decision, answer = ended.decision, ended.answer
    if ended.ending is Ending.CANCELLED:
        return (
            "cancelled"
            if ended.training is None
            else f"launched, and cancelled; {TRAINING_WORDS[ended.training]}"
        )
    if decision is None:
        return ""
    if decision is Decision.AWAITING:
        return "left to a person, and nobody decided"
    word = ANSWER_WORDS[Answer.CANNOT_TELL].lower() if decision is Decision.CANNOT_TELL else decision.value
    by = "the policy" if answer is None else answer.by
    said = (
        word.replace("_", " ") if decision is Decision.NOT_LAUNCHED else f"{word.replace('_', ' ')}, by {by}"
    )
    where = f" on {one_line(ended.node, 60)}" if ended.node and ended.training is JobState.FAILED else ""
    return said if ended.training is None else f"{said}; {TRAINING_WORDS[ended.training]}{where}"


def _decision_json(ended: KeptEnd | None) -> dict[str, object]:
    if ended is None or ended.decision is None:
        return {"decision": None, "decided_by": None, "training": None, "training_node": None}
    by = "policy" if ended.answer is None else ended.answer.by
    training = ended.training.value if ended.training is not None else None
    return {
        "decision": ended.decision.value,
        "decided_by": by,
        "training": training,
        "training_node": ended.node or None,
    }


def _index(arguments: argparse.Namespace, kept: NamedStore) -> int:
    index = kept.index()
    done = rebuild(kept.store, index)
    if arguments.format == "json":
        write_stdout(json_text({"index": index.name, **_table(done), "error": None}))
    else:
        write_stdout(
            f"{index.name}: {done.rows} verdicts of {kept.address}, {done.with_nodes} with the rows of their nodes\n"
        )
    for problem in done.problems:
        write_stderr(f"prelaunch: {problem}")
    return int(Exit.CANNOT_TELL if done.problems else Exit.GO)


def _prune(arguments: argparse.Namespace, kept: NamedStore) -> int:
    now = time.time()
    needed = needed_gates(kept.store, kept.index(), now)
    cluster = chosen_cluster(kept, arguments.cluster)
    plan = planned(kept.store, arguments.older_than, arguments.keep_refused, now, needed, cluster)
    said = removed(kept.store, kept.index(), plan.old) if arguments.delete and plan.old else ""
    if arguments.format == "json":
        write_stdout(json_text(_pruned(plan, arguments.delete)))
    else:
        write_stdout(pruned_text(plan, arguments.delete))
    if said:
        write_stderr(f"prelaunch: {said}")
    older = (
        "--older-than",
        f"{arguments.older_than:g}",
        *(["--keep-refused"] if arguments.keep_refused else []),
    )
    _say_cluster(arguments, kept, "store", "prune", "STORE", *older)
    return int(Exit.GO)


def _pruned(plan: Pruning, deleted: bool) -> dict[str, object]:
    stays = [{"gate_id": gate_id, "why": why} for gate_id, why in plan.stays]
    return {"deleted": deleted, "old": plain(plan.old), "stays": stays, "error": None}


def _table(done: object) -> dict[str, object]:
    table = plain(done)
    return table if isinstance(table, dict) else {}


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = 0.0
    if not 0 < days < 100_000:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a number of days above 0, such as 30")
    return days


def _instant(text: str) -> str:
    """A time, or an age before now, as records have it. Raises InputError."""
    age = re.fullmatch(r"([1-9][0-9]{0,5})([mhd])", text)
    when = seconds_of(text if "T" in text else f"{text}T00:00:00Z")
    if age:
        when = time.time() - int(age[1]) * UNITS_S[age[2]]
    if when is None:
        said = f"{text!r:.40} is not a time. Write 2026-11-20, 2026-11-20T08:00:00Z, or an age such as 30m, 2h or 3d."
        raise InputError("--since", said)
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
