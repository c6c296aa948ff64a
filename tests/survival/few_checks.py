#!/usr/bin/env python3
"""The product with a few of its checks: `few_checks.py -m checks run|gate ...` on a node, `few_checks.py gate ...` for the command.

The catalogue is a part of the real one, so that a gate of several hosts costs seconds. What stands in for something else: of
the ranks there is one a node, started without torchrun, in whose place of torch there is nothing; its one check adds numbers.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from unittest import mock

# After the folders that the caller chose: on a host of SageMaker the code comes through a channel.
if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from checks.check import Context, Measurement, check
from checks.model import Scope
from checks.policy import CheckPolicy, Policy, Rule

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = (
    "system.identity",
    "system.resources",
    "system.error_counters",  # on SageMaker, whose hosts show no kernel log, it is asked for
    "mounts.responsive",
    "network.names",
    "network.reachability",
    "network.pairs",
    "network.mtu",
    "network.counters",
    # A test may have more of them; its jobs inherit the variable.
    *filter(None, os.environ.get("PRELAUNCH_FEW_ALSO", "").split(",")),
)
# The least with which a gate can pass; a test may take these and others of its own, in this process and in its jobs.
LEAST = ("system.identity", "system.error_counters", "network.names", "network.reachability")
ONLY = "PRELAUNCH_FEW_ONLY"
if ONLY in os.environ:
    NAMES = tuple(os.environ[ONLY].split(","))
ADDS = "tests.survival.few_checks:adds"


SICK = "PRELAUNCH_FEW_SICK"


@check("site.adds", Scope.RANK, timeout_s=10, metrics=("total",))
def adds(context: Context) -> Measurement:
    """Adds numbers; wrongly on a node for which a file lies in the folder that SICK names."""
    sick, node = os.environ.get(SICK, ""), os.environ.get("PRELAUNCH_ENGINE_NODE") or context.node
    wrong = bool(sick) and Path(sick, node).exists()
    return Measurement({"total": sum(range(100)) + int(wrong)})


def policy(rules: Policy) -> Policy:
    """The policy's lines for the few checks."""
    lines = {name: rules.checks[name] for name in NAMES}
    total = Rule("total", "a test", equals=4950)
    return replace(rules, checks={**lines, adds.name: CheckPolicy(rules=(total,))})


def policy_document() -> dict[str, Any]:
    """The shipped policy for machines without accelerators, for the few checks alone: the document of a policy file."""
    made: dict[str, Any] = json.loads((ROOT / "checks" / "policies" / "local.json").read_text())
    made["checks"] = {name: made["checks"][name] for name in NAMES}
    made["checks"][adds.name] = {"rules": [{"metric": "total", "equals": 4950, "source": "a test"}]}
    return made


def kind_gate_file(folder: Path, python: Path, options: str, image: str, training: str) -> Path:
    """The shipped gate file for a cluster of kind with these checks; `options` and `training` are lines of its tables."""
    changes = {
        'placement = "in_job"': f'python = "{python}"\ngrace_s = 1.0\n{options}',
        "one_pod_per_node = false": "one_pod_per_node = true",
        'image = "prelaunch:cpu"': f'image = "{image}"',
        'command = ["/opt/train/train_tiny.py", "--steps", "20"]': training,
        'distributed = "torchrun"': 'distributed = "none"',
    }
    return gate_file(ROOT / "deployments" / "gates" / "kind-cpu.toml", folder, changes)


def gate_file(shipped: Path, folder: Path, changes: Mapping[str, str]) -> Path:
    """The shipped gate file below `folder` with these checks, one rank a node, and the changes; each has to be possible once."""
    rules = folder / "few.json"
    rules.write_text(json.dumps(policy_document()))
    text = shipped.read_text()
    common = {
        "ranks_per_node = 2": "ranks_per_node = 1",
        '"../policies/local.toml"': json.dumps(str(rules)),
        "[checks]\n": f'[checks]\nextra = ["{ADDS}"]\n',
        'path = ".prelaunch"': f"path = {json.dumps(str(folder / 'store'))}",
    }
    for old, new in {**common, **changes}.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = folder / "gate.toml"
    path.write_text(text)
    return path


def interpreter(path: Path, sick: Path | None = None) -> Path:
    """A program at `path` that is Python, but with the few checks. In `sick` lie the names of nodes that compute wrongly."""
    own = f"{SICK}={sick} " if sick else ""
    own += f"{ONLY}={os.environ[ONLY]} " if ONLY in os.environ else ""
    path.write_text(f'#!/bin/sh\n{own}exec "{sys.executable}" "{Path(__file__).resolve()}" "$@"\n')
    path.chmod(0o755)
    return path


def take_least(patch: pytest.MonkeyPatch, *more: str) -> None:
    """Let a test do with the least checks and `more`, in this process and in its jobs."""
    patch.setitem(globals(), "NAMES", (*LEAST, *more))
    patch.setenv(ONLY, ",".join(NAMES))


@contextmanager
def chosen() -> Iterator[None]:
    """Meanwhile this process makes bundles of the few checks, and reads their reports."""
    from checks import catalog

    few = tuple(check for check in catalog.CATALOG if check.name in NAMES)
    with mock.patch.object(catalog, "CATALOG", few):
        yield


def choose() -> None:
    """From here on the catalogue of this process is the small one, and its ranks do without torchrun."""
    from checks import catalog
    from checks.runner import rank_stage

    catalog.CATALOG = tuple(check for check in catalog.CATALOG if check.name in NAMES)
    rank_stage.may_fork = lambda *given: False
    rank_stage.torchrun = lambda node_context, command: (
        sys.executable, __file__, "rank", str(node_context.node_rank), str(node_context.bundle.declared.nodes), *command[2:]
    )  # fmt: skip


def rank(node_rank: str, ranks: str, arguments: list[str]) -> int:
    """The one rank of a node."""
    choose()
    from checks.runner import rank_process as module

    os.environ.update(RANK=node_rank, LOCAL_RANK="0", WORLD_SIZE=ranks)
    sys.modules["torch"] = sys.modules["torch.distributed"] = ModuleType("nothing")
    return module.main(arguments)


def main() -> int:
    """A node's `-m checks run` or `-m checks gate`, the gate's command, or the real interpreter for everything else."""
    if sys.argv[1:3] == ["-m", "checks"]:
        choose()
        from checks.cli import main as node

        return node(sys.argv[3:])
    if sys.argv[1:2] == ["rank"]:
        return rank(sys.argv[2], sys.argv[3], sys.argv[4:])
    if sys.argv[1:2] == ["gate"]:
        choose()
        from flows.cli.main import main as command

        return command(sys.argv[1:])
    return os.execv(sys.executable, [sys.executable, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
