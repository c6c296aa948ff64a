"""The child process of one node check, of its first measurement or of its watcher. Its result is a file."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from checks.documents.report import dump_plain
from checks.facts.builtin import builtin
from checks.policy import CheckPolicy
from checks.process.tree import die_with_parent
from checks.process.whole_file import write_whole
from checks.runner import repeated_measurement, watchers
from checks.runner.node_context import before_path, open_node_context, read_before, watch_path


def prepare() -> None:
    """Read what all checks read, before any of them is forked."""
    builtin()


def main(argv: list[str]) -> int:
    """argv: [--before|--watch] NAME PATH BUNDLE ROSTER NODE SCRATCH RESULT TIMEOUT_S. The check is imported from PATH."""
    die_with_parent()
    how, argv = (argv[0], argv[1:]) if argv[0] in ("--before", "--watch") else ("", argv)
    name, path, bundle, roster, node, scratch, result, timeout_s = argv
    node_context = open_node_context(Path(bundle), Path(roster), node, Path(scratch), path)
    [check] = node_context.checks
    if check.name != name:
        raise SystemExit(f"{path} is {check.name}, not {name}")
    if how == "--watch" and check.watch is not None:
        watchers.watch(check.watch(node_context.check_context(check)), Path(result), sys.stdin.buffer)
    elif how == "--before" and check.before is not None:
        values = check.before(replace(node_context.check_context(check), timeout_s=float(timeout_s)))
        write_whole(Path(result), json.dumps(dict(values), allow_nan=False).encode())
    else:
        before = read_before(before_path(Path(scratch), name))
        watched = watchers.watched(watch_path(Path(scratch), name)) if check.watch else None
        context = node_context.check_context(check, before=before, watched=watched)
        context = replace(context, timeout_s=float(timeout_s))
        line = node_context.bundle.policy.checks.get(name, CheckPolicy())
        write_whole(Path(result), dump_plain(repeated_measurement.observed(check, context, node, line)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
