"""`prelaunch fleet replay STORE --policy NEW`: which past verdicts would be different under another policy, and why."""

from __future__ import annotations

import argparse

from checks.documents.report import plain
from checks.exit_codes import Exit
from checks.facts.builtin import builtin
from flows.cli.fleet import say_cluster
from flows.cli.output import write_result, write_stderr, write_stdout
from flows.cli.shared_arguments import add_baseline, add_cluster, add_format, add_policy, add_store
from tasks.gate_file.references import read_baseline
from tasks.reports.listings import gate_text
from tasks.reports.read import policy_of
from tasks.reports.replay import ReplayResult, ReplayTotals, replay
from tasks.reports.store_argument import chosen_cluster, open_named_store, require_gates

SHIPPED = "the shipped one of each report's type"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """STORE --policy FILE --cluster C --baseline FILE --format text|json."""
    parser.description = (
        "Judges every report in a store again, and lists each past verdict that would change, and why. "
        "Exit codes: 0 none would change, 1 some would, 2 rejected, 3 a report could not be compared (it is named), or there was "
        "none to compare, 5 the store failed. If 1 and 3 both apply it is 3, because the list is not complete."
    )
    add_store(parser)
    add_policy(
        parser, "(default: that of the gate file, else the current shipped policy of each report's type)"
    )
    add_cluster(parser)
    add_baseline(parser)
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Replay, one report in memory at a time; lines appear as they are found."""
    source = open_named_store(arguments.store)
    file = arguments.policy or source.policy
    policy = policy_of(file)
    baseline = read_baseline(arguments.baseline) if arguments.baseline else None
    require_gates(source)
    total, gates = ReplayTotals(), list[object]()
    by = f"{policy.name} ({file})" if policy is not None else SHIPPED
    cluster = chosen_cluster(source, arguments.cluster)
    for result in replay(source.store, policy, builtin(), baseline, cluster):
        total.add(result)
        if arguments.format == "json":
            gates += [plain(result)] if result.fate is not ReplayResult.SAME else []
        else:
            write_stdout(gate_text(result))
    counts = {fate.value: total.fates[fate] for fate in ReplayResult}
    moves = dict(sorted(total.moves.items()))
    sums: dict[str, object] = {"summary": total.line, "policy": by, "counts": counts, "moves": moves}
    write_result(arguments.format, {**sums, "gates": gates, "error": None}, f"{total.line}\n")
    if not total.compared:
        write_stderr("prelaunch: nothing was compared")
    if arguments.policy is None:
        write_stderr(f"policy: {by}")
    say_cluster([arguments.store], arguments.cluster)
    return int(_code(total))


def _code(total: ReplayTotals) -> Exit:
    if total.fates[ReplayResult.NOT_COMPARED] or total.fates[ReplayResult.NO_VERDICT] or not total.compared:
        return Exit.CANNOT_TELL
    return Exit.NO_GO if total.fates[ReplayResult.CHANGED] else Exit.GO
