"""The process of one round: it measures the given checks one after another, and writes a line of JSON for each.

A check that hangs is given up and the next one begins, because it has a thread of its own. What it leaves behind is ended. A process
that is blocked in the kernel cannot be ended: its check is not run again before it is gone, so that no round adds another one. The
process that started this one ends it at the round's deadline. The catalogue is not imported: importing all checks would take more time
than a round.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from checks.check import Check, Context, imported
from checks.documents.report import dump_plain
from checks.model import ErrorKind, Observation
from checks.process.observe import errored, probe
from checks.process.tree import alive, become_subreaper, end_children, start_ticks
from checks.process.whole_file import write_whole
from checks.runner.deadline import NotInTime, limited
from checks.runner.node_context import NodeContext, before_path, open_node_context, read_before

# A check that is safe beside a job ends at once. One that takes longer hangs, whatever its deadline in a gate is.
PATIENCE_S = 15.0
NICE = 10
KILL_S = 1.0


def main(argv: list[str]) -> int:
    """argv: BUNDLE ROSTER NODE SCRATCH RESULT PATH..., the paths of the checks."""
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
    left = node_context.scratch / f"{check.name}.left.json"
    if blocked := _still_there(left):
        reason = f"not run, because processes of an earlier round cannot be ended: {', '.join(blocked)}"
        return errored(check.name, node_context.node, reason, 0.0)
    observation, hangs = _in_time(check, node_context)
    remaining = {pid: start_ticks(pid) for pid in end_children(0.0, KILL_S)} if _has_children() else {}
    if hangs:  # its thread may keep this process
        remaining[os.getpid()] = start_ticks(os.getpid())
    if remaining:
        write_whole(left, json.dumps(remaining).encode())
    return observation


def _still_there(left: Path) -> list[str]:
    """The processes that the check left behind in an earlier round, as far as they are still there."""
    left_behind = read_before(left) or {}
    running = [pid for pid, ticks in left_behind.items() if isinstance(ticks, int) and alive(int(pid), ticks)]
    if left_behind and not running:
        left.unlink(missing_ok=True)
    return running


def _has_children() -> bool:
    """Whether this process has any, by the kernel's own short list (Linux, filesystems/proc.rst, 3.7)."""
    try:
        return any(path.read_bytes().strip() for path in Path("/proc/self/task").glob("*/children"))
    except OSError:  # a thread ended meanwhile, or this kernel has no such list
        return True


def _in_time(check: Check, node_context: NodeContext) -> tuple[Observation, bool]:
    """The observation, and whether the check still runs."""
    patience_s = min(check.timeout_s, PATIENCE_S)
    context = replace(node_context.check_context(check), timeout_s=patience_s)
    try:
        return limited(patience_s, lambda: _measured(check, context, node_context)), False
    except (NotInTime, SystemExit):
        reason = f"the check did not end within {patience_s:g} s"
    return errored(check.name, node_context.node, reason, patience_s, error_kind=ErrorKind.DEADLINE), True


def _measured(check: Check, context: Context, node_context: NodeContext) -> Observation:
    """The observation. What a check that compares saw in this round is the first measurement of the next one.

    The first measurement is made before the comparison, so that an event between the two is counted twice and never lost. If it cannot
    be made, or not be kept, the next round compares with the last one that there is, so that the growth of a blind round is found.
    """
    if check.before is None:
        return probe(check, context, node_context.node)
    path = before_path(node_context.scratch, check.name)
    last = read_before(path)
    try:
        values = check.before(replace(context, before=last))
        numbers: Mapping[str, object] = json.loads(json.dumps(dict(values), allow_nan=False))
    except Exception as error:  # noqa: BLE001 - one check's crash costs one observation
        reason = f"its counters could not be read: {error}"
        return errored(check.name, node_context.node, reason, 0.0, error_kind=ErrorKind.RAISED)
    observation = probe(check, replace(context, before=last or numbers, current=numbers), node_context.node)
    with contextlib.suppress(OSError):
        write_whole(path, json.dumps(numbers).encode())
    return observation


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
