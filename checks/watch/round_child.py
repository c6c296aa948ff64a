"""The process of one round: it measures the given checks one after another, and writes a line of JSON for each.

A check that hangs is given up and the next one begins, because it has a thread of its own. The process that started this one ends it
at the round's deadline. The catalogue is not imported: importing all checks would take more time than a round.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from checks.check import Check, Context, imported
from checks.documents.report import dump_plain
from checks.model import ErrorKind, Observation
from checks.process.machine_state import replace_whole
from checks.process.observe import errored, probe
from checks.process.tree import become_subreaper, die_with_parent
from checks.runner.node_context import NodeContext, before_path, open_node_context

# A check that is safe beside a job ends at once. One that takes longer hangs, whatever its deadline in a gate is.
PATIENCE_S = 15.0
NICE = 10


def main(argv: list[str]) -> int:
    """argv: BUNDLE ROSTER NODE SCRATCH RESULT PATH..., the paths of the checks."""
    die_with_parent()
    become_subreaper()
    os.nice(NICE)
    bundle, roster, node, scratch, result, *paths = argv
    checks = [imported(path) for path in paths]
    node_context = open_node_context(Path(bundle), Path(roster), node, Path(scratch), paths[0])
    with open(result, "ab") as file:
        for check in checks:
            file.write(dump_plain(_observed(check, node_context)))
            file.flush()
    # A thread that is blocked in the kernel must not keep this process.
    os._exit(0)


def _observed(check: Check, node_context: NodeContext) -> Observation:
    found: list[Observation] = []
    patience_s = min(check.timeout_s, PATIENCE_S)
    context = replace(node_context.check_context(check), timeout_s=patience_s)
    thread = threading.Thread(
        target=lambda: found.append(_measured(check, context, node_context)), daemon=True
    )
    thread.start()
    thread.join(patience_s)
    if found:
        return found[0]
    said = f"the check did not end within {patience_s:g} s"
    return errored(check.name, node_context.node, said, patience_s, kind=ErrorKind.DEADLINE)


def _measured(check: Check, context: Context, node_context: NodeContext) -> Observation:
    """The observation. What a check that compares saw in this round is the first measurement of the next one.

    The first measurement is made before the comparison, so that an event between the two is counted twice and never lost.
    """
    if check.before is None:
        return probe(check, context, node_context.node)
    path = before_path(node_context.scratch, check.name)
    last = _before(path)
    try:
        look = check.before(replace(context, before=last))
        seen: Mapping[str, object] = json.loads(json.dumps(dict(look), allow_nan=False))
    except Exception as error:  # noqa: BLE001 - one check's crash costs one observation
        path.unlink(missing_ok=True)
        said = f"its counters could not be read: {error}"
        return errored(check.name, node_context.node, said, 0.0, kind=ErrorKind.RAISED)
    row = probe(check, replace(context, before=last or seen, look=seen), node_context.node)
    replace_whole(path, json.dumps(seen).encode())
    return row


def _before(path: Path) -> Mapping[str, object] | None:
    try:
        seen = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return seen if isinstance(seen, dict) else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
