"""`prelaunch replay STORE --policy NEW`: which past verdicts would be different under another policy, and why."""

from __future__ import annotations

import argparse
from pathlib import Path

from checks.exit_codes import Exit
from checks.facts.builtin import builtin
from flows.cli.output import json_text, write_stderr, write_stdout
from flows.cli.rejection import report_rejection
from tasks.reports.baseline import read_baseline
from tasks.reports.listings import gate_markdown, gate_text
from tasks.reports.read import DEFAULT, InputError, policy_of
from tasks.reports.replay import ReplayResult, ReplayTotals, gate_row, replay
from tasks.reports.store_argument import (
    chosen_cluster,
    cluster_note,
    open_named_store,
    require_gates,
    typed_store,
)
from tasks.store.base import StoreError, StoreMissing

SHIPPED = "the shipped one of each report's type"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """STORE --policy FILE --cluster C --baseline FILE --format text|json|markdown."""
    parser.description = (
        "Judges every report that a store keeps again, and lists each past verdict that would change and why. "
        "Exit codes: 0 none would change, 1 some would, 2 rejected, 3 something could not be compared (it is named), or "
        "nothing was, 5 the store failed. 3 comes before 1: a list that is not whole proves nothing."
    )
    parser.add_argument(
        "store", metavar="STORE", nargs="?", default=DEFAULT, type=typed_store,
        help=f"a folder, s3://bucket/prefix, or a gate file that names a store (default {DEFAULT})",
    )  # fmt: skip
    parser.add_argument(
        "--policy", type=Path, metavar="NEW",
        help="policy, TOML or JSON (default: that of the gate file, else the current shipped policy of each report's type)",
    )  # fmt: skip
    parser.add_argument(
        "--cluster", help="only gates of this cluster (default: all, or that of the gate file)"
    )
    parser.add_argument("--baseline", type=Path, metavar="FILE", help="also compare with this baseline")
    parser.add_argument(
        "--format",
        choices=("text", "json", "markdown"),
        default="text",
        help="format of stdout (default text)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Replay, one report in memory at a time; lines appear as they are found."""
    try:
        kept = open_named_store(arguments.store)
        file = arguments.policy or kept.policy
        policy = policy_of(file)
        baseline = read_baseline(arguments.baseline) if arguments.baseline else None
        require_gates(kept)
    except InputError as error:
        return report_rejection(arguments.format, error)
    except StoreError as error:
        return failed(arguments.format, error)
    total, rows, seen = ReplayTotals(), list[dict[str, object]](), dict[tuple[object, ...], str]()
    by = f"{policy.name} ({file})" if policy is not None else SHIPPED
    cluster = chosen_cluster(kept, arguments.cluster)
    try:
        for one in replay(kept.store, policy, builtin(), baseline, cluster):
            total.add(one)
            if arguments.format == "json":
                rows += [gate_row(one)] if one.fate is not ReplayResult.SAME else []
            else:
                write_stdout((gate_text if arguments.format == "text" else gate_markdown)(one, seen))
    except StoreError as error:
        return failed(arguments.format, error)
    _show_sum(arguments.format, total, rows, by)
    if arguments.policy is None:
        write_stderr(f"policy: {by}")
    own = () if arguments.policy is None else ("--policy", str(arguments.policy))
    if note := cluster_note(kept, arguments.cluster, "replay", "STORE", *own):
        write_stderr(f"prelaunch: {note}")
    return int(_code(total))


def failed(form: str, error: StoreError) -> int:
    """The exit code if the store failed: 2 if there is no such bucket, else that of a service's error."""
    code = report_rejection(form, InputError("store", str(error)))
    return code if isinstance(error, StoreMissing) else int(Exit.NO_CAPACITY)


def _show_sum(form: str, total: ReplayTotals, rows: list[dict[str, object]], by: str) -> None:
    if form == "json":
        counts = {fate.value: total.fates[fate] for fate in ReplayResult}
        moves = dict(sorted(total.moves.items()))
        sums: dict[str, object] = {"summary": total.line, "policy": by, "counts": counts, "moves": moves}
        document = {**sums, "gates": rows, "error": None}
        write_stdout(json_text(document))
    else:
        write_stdout(f"{total.line}\n" if form == "text" else f"\n{total.line}\n")
    if not total.compared:
        write_stderr("prelaunch: nothing was compared")


def _code(total: ReplayTotals) -> Exit:
    if total.fates[ReplayResult.NOT_COMPARED] or total.fates[ReplayResult.NO_VERDICT] or not total.compared:
        return Exit.CANNOT_TELL
    return Exit.NO_GO if total.fates[ReplayResult.CHANGED] else Exit.GO
