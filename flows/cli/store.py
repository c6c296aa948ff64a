"""`prelaunch store list|index|prune`: lists the verdicts of a store, builds their index, and deletes old ones."""

from __future__ import annotations

import argparse
import os
import time
from datetime import UTC, datetime

from checks.documents.report import plain
from checks.exit_codes import Exit
from flows.cli.output import json_text, rejection, write_stderr, write_stdout
from flows.cli.rejection import report_rejection
from flows.cli.replay import failed
from tasks.reports.listings import listed_text, pruned_text
from tasks.reports.read import InputError
from tasks.reports.store_argument import DEFAULT, NamedStore, open_named_store, require_gates
from tasks.store.base import StoreError
from tasks.store.history import listed, moment, rebuild
from tasks.store.index import IndexFailed
from tasks.store.prune import Pruning, planned, removed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The three actions."""
    actions = parser.add_subparsers(metavar="ACTION", title="actions", required=True, dest="action")
    parser.description = (
        "Lists, indexes and removes what is in a store. STORE is a folder, s3://bucket/prefix, or the gate file that names "
        "one; PRELAUNCH_INDEX is the "
        "URL of its index where no gate file says it. Exit codes: 0 done, 2 rejected, 3 something could not be read and is "
        "named, 5 the store or the index failed."
    )
    show = actions.add_parser("list", help="list every verdict, oldest first", allow_abbrev=False)
    show.add_argument("--cluster", default="", help="only verdicts of this cluster")
    show.add_argument(
        "--since",
        default="",
        metavar="TIME",
        help="only verdicts of this time or later: 2026-11-20, or 2026-11-20T08:00:00Z",
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
    prune.add_argument("--keep-refused", action="store_true", help="keep every gate whose answer was not GO")
    prune.add_argument(
        "--delete",
        action="store_true",
        help="remove the listed gates; without this option nothing is removed",
    )
    for action, run_action in ((show, _list), (index, _index), (prune, _prune)):
        action.add_argument("store", metavar="STORE", nargs="?", default=DEFAULT, help=f"default {DEFAULT}")
        action.add_argument(
            "--format", choices=("text", "json"), default="text", help="format of stdout (default text)"
        )
        action.set_defaults(run_action=run_action)


def run(arguments: argparse.Namespace) -> int:
    """List, index or prune."""
    try:
        kept = open_named_store(arguments.store, os.environ)
        require_gates(kept)
        return int(arguments.run_action(arguments, kept))
    except InputError as error:
        return report_rejection(arguments.format, error)
    except StoreError as error:
        return failed(arguments.format, error)
    except IndexFailed as error:
        if arguments.format == "json":
            write_stdout(json_text(rejection(None, None, str(error))))
        write_stderr(f"prelaunch: {error}")
        return int(Exit.NO_CAPACITY)


def _list(arguments: argparse.Namespace, kept: NamedStore) -> int:
    since = _instant(arguments.since) if arguments.since else ""
    found = listed(kept.store, kept.index())
    chosen = [
        record
        for record in found.records
        if record.judged_at >= since and arguments.cluster in ("", record.cluster)
    ]
    if arguments.format == "json":
        write_stdout(json_text({"verdicts": plain(chosen), "problems": list(found.problems), "error": None}))
    else:
        write_stdout(listed_text(chosen))
    for problem in [*found.problems, *([found.index_problem] if found.index_problem else [])]:
        write_stderr(f"prelaunch: {problem}")
    return int(Exit.CANNOT_TELL if found.problems else Exit.GO)


def _index(arguments: argparse.Namespace, kept: NamedStore) -> int:
    index = kept.index()
    done = rebuild(kept.store, index)
    if arguments.format == "json":
        write_stdout(json_text({"index": index.name, **_table(done), "error": None}))
    else:
        write_stdout(f"{index.name}: {done.rows} verdicts of {kept.address}\n")
        for gate_id in done.made:
            write_stdout(f"  a record was made for {gate_id}, whose cluster is not known\n")
    for problem in done.problems:
        write_stderr(f"prelaunch: {problem}")
    return int(Exit.CANNOT_TELL if done.problems else Exit.GO)


def _prune(arguments: argparse.Namespace, kept: NamedStore) -> int:
    plan = planned(kept.store, arguments.older_than, arguments.keep_refused, time.time())
    said = removed(kept.store, kept.index(), plan.old) if arguments.delete and plan.old else ""
    if arguments.format == "json":
        write_stdout(json_text(_pruned(plan, arguments.delete)))
    else:
        write_stdout(pruned_text(plan, arguments.delete))
    if said:
        write_stderr(f"prelaunch: {said}")
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
    when = moment(text if "T" in text else f"{text}T00:00:00Z")
    if when is None:
        raise InputError("--since", f"{text!r:.40} is not a time. Write 2026-11-20 or 2026-11-20T08:00:00Z.")
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
