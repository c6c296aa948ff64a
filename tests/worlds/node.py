"""One node of a world, inside its container: runs checks in forks of a process that has imported them, as asked line by line.

`python -m tests.worlds.node BUNDLE ROSTER NODE SCRATCH` answers each line of its standard input with one line: the observations of
the node's own checks (checks.runner.isolated_child.main, as the runner starts it), or of its ranks'
(checks.runner.rank_process.RankSession).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from checks.check import Check, RankPlace
from checks.documents.decode import decode, parse_json
from checks.documents.report import dump_plain
from checks.model import Observation, Scope
from checks.process.observe import errored
from checks.runner import isolated_child, node_run, rank_process, rank_stage, schedule
from checks.runner.node_context import NodeContext, before_path, open_node_context
from checks.runner.watchers import Watchers
from container.agent.machine import dcgm_host_engine

ATTEMPT = "world"


def main(argv: list[str]) -> int:
    """Until the input ends."""
    import torch.distributed  # noqa: F401 - the fake: each fork has it

    bundle, roster, node, scratch = argv
    node_context = open_node_context(Path(bundle), Path(roster), node, Path(scratch))
    responder = node_run.open_responder(node_context)
    dcgm_host_engine.ensure(node_context.bundle.declared.gpus_per_node)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    watches = Watchers(node_context)
    first = dump_plain(node_run.first_report(node_context, ATTEMPT)).decode()
    print(first.replace("\n", " "), file=out, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        os.environ.update(asked.get("environment", {}))
        # The deadline counts from here: a container is asked many times.
        begun_at = time.monotonic()
        node_context = open_node_context(Path(bundle), Path(roster), node, Path(scratch), begun_at=begun_at)
        of_ranks = asked["do"] == "ranks"
        rows = _ranks(node_context, asked) if of_ranks else _checks(node_context, argv, asked, watches)
        for name in asked.get("environment", {}):
            os.environ.pop(name)
        print(json.dumps([json.loads(dump_plain(row)) for row in rows]), file=out, flush=True)
    watches.stop_all()
    responder.close()
    return 0


def _checks(
    node_context: NodeContext, argv: Sequence[str], asked: dict[str, Any], watches: Watchers
) -> list[Observation]:
    """The observations of the node's checks that are asked for; "before": their first looks."""
    first = asked["do"] == "before"
    own = [check for check in node_context.planned() if check.scope is Scope.NODE]
    wanted = [check for check in own if check.name in asked["checks"]]
    if first:
        watches.start([check for check in wanted if check.closing])
        wanted = [check for check in wanted if check.before is not None]
    rows: list[Observation] = []

    def run(check: Check) -> Observation:
        scratch, name = node_context.scratch, check.name
        path = before_path(scratch, name) if first else scratch / f"{name}.json"
        if not first:
            watches.stop(name)
        path.unlink(missing_ok=True)
        words = [*(["--before"] if first else []), name, check.path, *argv, str(path), f"{check.timeout_s:g}"]
        os.waitpid(_fork(lambda: isolated_child.main(words)), 0)
        if first:
            _make_older(path)
            return errored(name, node_context.node, "a first look", 0.0)
        if not path.exists():
            return errored(name, node_context.node, "its process left no result", 0.0)
        return decode(Observation, parse_json(path.read_bytes(), 8 << 20))

    schedule.run_all([check for check in wanted if not check.serial], run, rows.extend, 3)
    for check in wanted:
        if check.serial:
            rows.append(run(check))
    if first:
        watches.ready()
    return [] if first else rows


def _make_older(path: Path) -> None:
    """A first look that was a minute ago: DCGM's watches need so long, and a hundred worlds do not wait for it."""
    if path.exists():
        seen = json.loads(path.read_bytes())
        if "at_s" in seen:
            path.write_text(json.dumps({**seen, "at_s": seen["at_s"] - 60.0}))


def _ranks(node_context: NodeContext, asked: dict[str, Any]) -> list[Observation]:
    """The observations of all ranks of the node, of the rank checks that are asked for."""
    folder = node_context.scratch / "ranks"
    shutil.rmtree(folder, ignore_errors=True)
    plan = tuple(line for line in node_context.plan if line.check in asked["checks"])
    chosen, declared = replace(node_context, plan=plan), node_context.bundle.declared
    per_node, first = declared.ranks_per_node, node_context.node_rank * declared.ranks_per_node
    children = []
    for local in range(per_node):
        told = {
            "RANK": first + local,
            "LOCAL_RANK": local,
            "WORLD_SIZE": declared.ranks,
            "LOCAL_WORLD_SIZE": per_node,
            "MASTER_ADDR": node_context.roster.members[0].address,
            "MASTER_PORT": asked["port"],
        }
        children.append(_fork(lambda told=told: _rank(chosen, told)))
    for child in children:
        os.waitpid(child, 0)
    found = rank_stage.read(folder, range(first, first + per_node))
    return [row for state in found.values() for row in state.observations]


def _rank(node_context: NodeContext, told: dict[str, Any]) -> int:
    os.environ.update({name: str(value) for name, value in told.items()})
    rank = rank_process.rank_place(node_context.bundle.declared.gpus_per_node)
    assert isinstance(rank, RankPlace)
    file = rank_process.RankFile(node_context.scratch / "ranks" / f"rank-{rank.rank}.jsonl")
    rank_process.RankSession(node_context, rank, file).run()
    return 0


def _fork(run: Any) -> int:
    """A child that runs it and ends."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        code = run()
    finally:
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
