"""`prelaunch store list|index|prune`: the verdicts that a store keeps, the index of them, and the old ones."""

from __future__ import annotations

import argparse
import os
import time
from datetime import UTC, datetime

from checks.report import plain
from flows.cli.output import Exit, json_text, rejection, write_stderr, write_stdout
from flows.cli.rejected import rejected
from flows.cli.replay import failed
from tasks.history import listed, moment, rebuild
from tasks.inputs import InputError
from tasks.keeping import DEFAULT, Named, named, require_kept
from tasks.pruning import Pruning, planned, removed
from tasks.render.history import listed_text, pruned_text
from tasks.store.base import StoreError
from tasks.store.index import IndexFailed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The three actions."""
    actions = parser.add_subparsers(metavar="ACTION", title="actions", required=True, dest="action")
    parser.description = (
        "What a store keeps. STORE is a folder, s3://bucket/prefix, or the gate file that names one; PRELAUNCH_INDEX is the "
        "URL of its index where no gate file says it. Exit codes: 0 done, 2 rejected, 3 something could not be read and is "
        "named, 5 the store or the index failed."
    )
    show = actions.add_parser("list", help="every verdict, oldest first", allow_abbrev=False)
    show.add_argument("--cluster", default="", help="of this cluster alone")
    show.add_argument(
        "--since",
        default="",
        metavar="TIME",
        help="judged then or later: 2026-11-20, or 2026-11-20T08:00:00Z",
    )
    index = actions.add_parser("index", help="make the index anew from the store", allow_abbrev=False)
    index.add_argument("--rebuild", action="store_true", required=True, help="replace this store's rows")
    prune = actions.add_parser("prune", help="what is old, and with --delete remove it", allow_abbrev=False)
    prune.add_argument(
        "--older-than", type=_days, required=True, metavar="DAYS", help="judged more days ago than this"
    )
    prune.add_argument("--keep-refused", action="store_true", help="keep every gate that did not answer go")
    prune.add_argument("--delete", action="store_true", help="remove it; without this nothing is")
    for action, run_action in ((show, _list), (index, _index), (prune, _prune)):
        action.add_argument("store", metavar="STORE", nargs="?", default=DEFAULT, help=f"default {DEFAULT}")
        action.add_argument(
            "--format", choices=("text", "json"), default="text", help="what stdout gets (default text)"
        )
        action.set_defaults(run_action=run_action)


def run(arguments: argparse.Namespace) -> int:
    """List, index or prune."""
    try:
        kept = named(arguments.store, os.environ)
        require_kept(kept)
        return int(arguments.run_action(arguments, kept))
    except InputError as error:
        return rejected(arguments.format, error)
    except StoreError as error:
        return failed(arguments.format, error)
    except IndexFailed as error:
        if arguments.format == "json":
            write_stdout(json_text(rejection(None, None, str(error))))
        write_stderr(f"prelaunch: {error}")
        return int(Exit.NO_CAPACITY)


def _list(arguments: argparse.Namespace, kept: Named) -> int:
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


def _index(arguments: argparse.Namespace, kept: Named) -> int:
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


def _prune(arguments: argparse.Namespace, kept: Named) -> int:
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
        raise argparse.ArgumentTypeError(f"{text!r:.40} is no number of days above 0, such as 30")
    return days


def _instant(text: str) -> str:
    when = moment(text if "T" in text else f"{text}T00:00:00Z")
    if when is None:
        raise InputError("--since", f"{text!r:.40} is no time: write 2026-11-20 or 2026-11-20T08:00:00Z.")
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
