"""`prelaunch fleet store list|index|prune`: lists the verdicts of a store, rebuilds the history of its nodes, and deletes old ones."""

from __future__ import annotations

import argparse
import re
import time
from datetime import UTC, datetime

from checks.command_line import InputError, number
from checks.documents.report import plain, plain_table
from checks.exit_codes import Exit
from checks.judge.clocks import seconds_of
from flows.cli.fleet import say_cluster
from flows.cli.output import json_text, write_result, write_stderr, write_stdout
from flows.cli.shared_arguments import add_cluster, add_format, add_store
from tasks.gate.outcome import Decision, Ending
from tasks.gate.record.end import KeptEnd, kept_ends
from tasks.launchers.base import JobState
from tasks.reports.fleet.reading import needed_gates
from tasks.reports.listings import NO_OUTCOME, listed_text, pruned_text, unjudged_text
from tasks.reports.store_argument import NamedStore, chosen_cluster, open_named_store, require_gates
from tasks.store.history import listed, rebuild
from tasks.store.layout import HISTORY
from tasks.store.prune import planned, remove
from tasks.store.records import stamped_at
from tasks.text.inert import one_line

UNITS_S = {"m": 60, "h": 3600, "d": 86_400}
UNENDED = f'"{NO_OUTCOME}" in the column "decided": the gate still runs, or was ended before it could keep how it ended (outcome.json)'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The three actions."""
    actions = parser.add_subparsers(metavar="ACTION", title="actions", required=True, dest="action")
    parser.description = (
        "Lists, indexes and removes what is in a store. STORE is a folder, s3://bucket/prefix, or the gate file that names "
        "one. Exit codes: 0 done, 2 rejected, 3 something could not be read and is "
        "named, 5 the store failed."
    )
    show = actions.add_parser("list", help="list every verdict, oldest first", allow_abbrev=False)
    add_cluster(show, "verdicts")
    text = "only verdicts of this time or later: 2026-11-20, 2026-11-20T08:00:00Z, or an age such as 30m, 2h or 3d"
    show.add_argument("--since", default="", metavar="TIME", help=text)
    text = "rebuild the node history from the kept verdicts"
    index = actions.add_parser("index", help=text, allow_abbrev=False)
    text = "replace the present history (required)"
    index.add_argument("--rebuild", action="store_true", required=True, help=text)
    text = "list old gates, and remove them with --delete"
    prune = actions.add_parser("prune", help=text, allow_abbrev=False)
    text = "only gates that are older than this number of days"
    prune.add_argument(
        "--older-than", type=number(0, 100_000, "days"), required=True, metavar="DAYS", help=text
    )
    add_cluster(prune)
    prune.add_argument("--keep-refused", action="store_true", help="keep every gate whose answer was not GO")
    text = "remove the listed gates; without this option nothing is removed"
    prune.add_argument("--delete", action="store_true", help=text)
    for action, run_action in ((show, _list), (index, _index), (prune, _prune)):
        add_store(action)
        add_format(action)
        action.set_defaults(run_action=run_action)


def run(arguments: argparse.Namespace) -> int:
    """List, index or prune."""
    source = open_named_store(arguments.store)
    require_gates(source)
    return int(arguments.run_action(arguments, source))


def _list(arguments: argparse.Namespace, source: NamedStore) -> int:
    since = _instant(arguments.since) if arguments.since else ""
    listing = listed(source.store)
    cluster = chosen_cluster(source, arguments.cluster)
    chosen = [item for item in listing.records if item.judged_at >= since and cluster in (None, item.cluster)]
    problems = list(listing.problems)
    decided = kept_ends(source.store, [record.gate_id for record in chosen])
    of_node = {gate_id: end.failure for gate_id, end in decided.items() if end.failure}
    ends = kept_ends(source.store, [gate for gate in listing.unjudged if _began(gate) >= since])
    unjudged = {gate: end for gate, end in ends.items() if cluster in (None, end.cluster)}
    if arguments.format == "json":
        entries = [{**plain_table(item), **_decision_json(decided.get(item.gate_id))} for item in chosen]
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
        write_stdout(json_text({"verdicts": entries, "unjudged": ended, "problems": problems, "error": None}))
    else:
        texts = {item.gate_id: text for item in chosen if (text := _decision_text(decided.get(item.gate_id)))}
        write_stdout(listed_text(chosen, texts, of_node))
        write_stdout(
            unjudged_text([(_began(gate_id), gate_id, end.reason) for gate_id, end in unjudged.items()])
        )
        if len(texts) < len(chosen):
            write_stderr(f"prelaunch: {UNENDED}")
    for problem in problems:
        write_stderr(f"prelaunch: {problem}")
    say_cluster([arguments.store], arguments.cluster)
    return int(Exit.CANNOT_TELL if problems else Exit.GO)


def _began(gate_id: str) -> str:
    """When a gate began, as its id says; "" for an id of another form."""
    at = stamped_at(gate_id)
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _decision_text(ended: KeptEnd | None) -> str:
    """Such as "launched, by the policy; training failed on node-1" and "overridden, by U0456EFGH (Slack)"; "" where it is not known.

    The state of the training is the one that the gate saw last.
    """
    if ended is None:
        return ""
    training = "" if ended.training is None else f"; training {ended.training.value}"
    if ended.training is JobState.FAILED and ended.node:
        training += f" on {one_line(ended.node, 60)}"
    if ended.ending is Ending.CANCELLED:
        return f"launched, and cancelled{training}" if training else "cancelled"
    if ended.decision is None:
        return ""
    if ended.decision is Decision.AWAITING:
        return "left to a person, and nobody decided"
    name = "the policy" if ended.answer is None else ended.answer.by
    by = "" if ended.decision is Decision.NOT_LAUNCHED else f", by {name}"
    return f"{ended.decision.value.replace('_', ' ')}{by}{training}"


def _decision_json(ended: KeptEnd | None) -> dict[str, object]:
    if ended is None or ended.decision is None:
        return {"decision": None, "decided_by": None, "training": None, "training_node": None}
    by = "policy" if ended.answer is None else ended.answer.by
    return {
        "decision": ended.decision.value,
        "decided_by": by,
        "training": ended.training.value if ended.training is not None else None,
        "training_node": ended.node or None,
    }


def _index(arguments: argparse.Namespace, source: NamedStore) -> int:
    done = rebuild(source.store)
    location = source.store.location(HISTORY)
    text = f"{location}: {done.rows} verdicts, {done.with_nodes} with the rows of their nodes\n"
    write_result(arguments.format, {"index": location, **plain_table(done), "error": None}, text)
    for problem in done.problems:
        write_stderr(f"prelaunch: {problem}")
    return int(Exit.CANNOT_TELL if done.problems else Exit.GO)


def _prune(arguments: argparse.Namespace, source: NamedStore) -> int:
    now = time.time()
    needed = needed_gates(source.store, now)
    cluster = chosen_cluster(source, arguments.cluster)
    plan = planned(source.store, arguments.older_than, arguments.keep_refused, now, needed, cluster)
    if arguments.delete:
        remove(source.store, plan.old)
    stays = [{"gate_id": gate_id, "why": reason} for gate_id, reason in plan.stays]
    document = {"deleted": arguments.delete, "old": plain(plan.old), "stays": stays, "error": None}
    write_result(arguments.format, document, pruned_text(plan, arguments.delete))
    say_cluster([arguments.store], arguments.cluster)
    return int(Exit.GO)


def _instant(text: str) -> str:
    """A time, or an age before now, as records have it; 1970 for an earlier one. Raises InputError."""
    age = re.fullmatch(r"([1-9][0-9]{0,5})([mhd])", text)
    when = seconds_of(text if "T" in text else f"{text}T00:00:00Z")
    if age:
        when = time.time() - int(age[1]) * UNITS_S[age[2]]
    if when is None:
        message = f"{text!r:.40} is not a time. Write 2026-11-20, 2026-11-20T08:00:00Z, or an age such as 30m, 2h or 3d."
        raise InputError("--since", message)
    return datetime.fromtimestamp(max(when, 0.0), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
