"""A shipped gate file's nodes (two at most) as containers that stay, for many faults one after another, and the verdict on them.

The gate file, its policy and its bundle are the shipped ones; how long some loads last is lowered by the policy's own options.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from checks import bundle as bundles
from checks.check import Check
from checks.documents.decode import decode
from checks.documents.report import NodeReport, dump_plain
from checks.exchange import secret_key
from checks.judge.verdict import decide
from checks.merge import merge
from checks.model import KernelLog, Observation, Report, Scope, Verdict
from checks.process.free_ports import free_port, free_ports
from checks.roster import Member, Roster
from checks.runner.journal import ReportJournal, now
from tasks.gate.context import GateContext, open_gate_context
from tests.fakes.sagemaker.host import INSIDE
from tests.fakes.sagemaker.images import SYSTEM
from tests.flows.driving import request_of
from tests.worlds import machine
from tests.worlds.flow import Shipped
from tests.worlds.library.torch.distributed._store import Server
from tests.worlds.machine import ROOT, Faults
from tests.worlds.node import ATTEMPT

OPTIONS: Mapping[str, Mapping[str, float]] = {
    **{name: {"seconds": 0.05} for name in ("gpu.clocks", "gpu.thermal", "gpu.pcie")},
    **{name: {"seconds": 0.0001} for name in ("compute.sdc", "compute.transfer", "compute.memory_bandwidth")},
    "compute.gemm": {"seconds": 0.001, "warmup_s": 0.0},
    **{name: {"budget_s": 60.0} for name in ("nccl.pairs", "collective.pairs")},
    # The 64 ranks of two trn1 share two cores and one store of the fake torch: their sums of 8 MiB take minutes.
    **{f"collective.{way}": {"budget_s": 40.0, "max_bytes": 1 << 20} for way in ("all_reduce", "all_gather")},
    "dcgm.policy": {"listen_s": 0.2},
    "dcgm.health": {"watch_s": 55.0},
}
BOOT = "7f1c9f3e-0000-4000-8000-00000000000{}"


@dataclass
class Node:
    """One container and what it says first."""

    name: str
    folder: Path
    process: subprocess.Popen[str]
    first: NodeReport

    def send(self, **asked: Any) -> None:
        """A line for it."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()

    def receive(self) -> list[Observation]:
        """Its answer."""
        return [decode(Observation, row) for row in _said(self.process, self.folder)]


Rows = dict[tuple[str, str], Observation]


@dataclass
class Cluster:
    """The nodes and the bundle that they hold; `rows` are the healthy observations, once they were made."""

    gate: Shipped
    context: GateContext
    bundle: bundles.Bundle
    nodes: list[Node]
    rows: Rows

    def observe(self, checks: Sequence[str] = (), faults: Faults | None = None) -> Rows:
        """What these checks (all of them, if none are named) see, of node 0 with the faults and of the others without."""
        planned = [check for check in self._plan() if not checks or check.name in checks]
        own = [check.name for check in planned if check.scope is Scope.NODE]
        closing = [check.name for check in planned if check.scope is Scope.NODE and check.closing]
        opening = [name for name in own if name not in closing]
        of_ranks = [check.name for check in planned if check.scope is Scope.RANK]
        wrong = faults or Faults()
        # What no peer takes part in is looked at where the fault is, and only there.
        some = self.nodes if not checks or any(check.group for check in planned) else self.nodes[:1]
        environment = dict(wrong.environment)
        found = self._look(some, own, "before")
        if faults is not None:
            self._break(wrong)
        try:
            found += self._look(some, opening, "node", environment=environment)
            if of_ranks:
                port = free_port()
                server = Server("0.0.0.0", port)
                found += self._look(some, of_ranks, "ranks", port=port)
                server.close()
            found += self._look(some, closing, "node", environment=environment)
        finally:
            if faults is not None:
                self._break(Faults())
        return {(row.check, row.subject): row for row in found}

    def verdict(self, rows: Rows) -> Verdict:
        """What the judge says of the healthy observations with these in their place."""
        return decide(self.report(rows), self.bundle.policy, self.context.facts)

    def report(self, rows: Rows) -> Report:
        """The report of the healthy observations with these in their place."""
        every = {**self.rows, **rows}
        files = {}
        for node in self.nodes:
            journal = ReportJournal(node.folder / "reports" / f"{node.name}.json", node.first)
            journal.add(row for (_, subject), row in every.items() if subject.split("/")[0] == node.name)
            journal.finish(complete=True)
            files[node.name] = journal.path.read_bytes()
        return merge(self.bundle, ATTEMPT, files, now())

    def _look(self, nodes: Sequence[Node], checks: Sequence[str], do: str, **more: Any) -> list[Observation]:
        """The nodes at once; what more is said of an environment is for the first alone."""
        asked = nodes if checks else ()
        for node in asked:
            own = more if node is self.nodes[0] else {**more, "environment": {}}
            node.send(do=do, checks=list(checks), **own)
        return [row for node in asked for row in node.receive()]

    def _plan(self) -> list[Check]:
        checks, plan = bundles.plan_of(self.bundle)
        wanted = {line.check for line in plan if line.skip is None}
        return [check for check in checks if check.name in wanted]

    def _break(self, faults: Faults) -> None:
        """The machine's files as they are with these faults; the folders that are mounted stay."""
        folder = self.nodes[0].folder
        fresh = folder.parent / "fresh"
        machine.make(fresh, self.gate.instance_type, 0, len(self.nodes), faults)
        for path in sorted(fresh.rglob("*")):
            place = folder / path.relative_to(fresh)
            if path.is_file() and not path.is_symlink():
                data = path.read_bytes().replace(str(fresh).encode(), str(folder).encode())
                place.parent.mkdir(parents=True, exist_ok=True)
                if not place.exists() or place.read_bytes() != data:
                    place.write_bytes(data)
                    place.chmod(path.stat().st_mode)
        shutil.rmtree(fresh)


@contextlib.contextmanager
def cluster(folder: Path, gate: Shipped, profile: str = "quick") -> Iterator[Cluster]:
    """The gate's nodes, healthy and not yet looked at."""
    count = min(gate.nodes, 2)
    fewer = [f"cluster.declared.nodes={count}"] if count != gate.nodes else []
    context = open_gate_context(request_of(gate.path, f"checks.profile={profile}", *fewer))
    made = context.bundle("world")
    lines = {
        name: replace(line, options={**line.options, **OPTIONS.get(name, {})})
        for name, line in made.policy.checks.items()
    }
    # What a device would take counts as time that passed, beside the hours of a busy test machine.
    made = dataclasses.replace(made, deadline_s=3600.0, policy=dataclasses.replace(made.policy, checks=lines))
    names = made.declared.node_names or tuple(f"algo-{index + 1}" for index in range(count))
    ports = free_ports(count + 1, "127.0.0.1")
    addresses = [f"127.{ports[0] >> 8}.{ports[0] & 255}.{index + 1}" for index in range(count)]
    roster = Roster(tuple(map(Member, names, addresses, ports)), ports[-1], "lo")
    key = secret_key.make()
    nodes: list[Node] = []
    try:
        for index, name in enumerate(names):
            nodes.append(_start(folder, gate, index, count, name, made, roster, key))
        yield Cluster(gate, context, made, nodes, {})
    finally:
        for node in nodes:
            node.process.kill()
            node.process.wait()
            for pipe in (node.process.stdin, node.process.stdout):
                if pipe is not None:
                    pipe.close()


def _write_names(home: Path, roster: Roster) -> None:
    """A name that hosts lacks is unknown at once, whatever name server this machine has: nobody listens at the one that is named."""
    hosts = "".join(f"{member.address} {member.name}\n" for member in roster.members)
    (home / "hosts").write_text(f"127.0.0.1 localhost\n{hosts}")
    (home / "resolv.conf").write_text("nameserver 127.0.0.1\n")


def _start(
    folder: Path,
    gate: Shipped,
    index: int,
    count: int,
    name: str,
    bundle: bundles.Bundle,
    roster: Roster,
    key: bytes,
) -> Node:
    home = folder / f"node-{index}"
    made = machine.make(home, gate.instance_type, index, count)
    (home / "bundle.json").write_bytes(bundles.dump(bundle))
    (home / "roster.json").write_bytes(dump_plain(roster))
    secret_key.write(home / secret_key.FILE, key)
    for place in ("opt_ml", "scratch", "work"):
        (home / place).mkdir()
    _write_names(home, roster)
    python = str(Path(sys.executable).parent)
    environment = {
        "PATH": os.pathsep.join((str(home / "tools"), python, SYSTEM)),
        "PYTHONPATH": os.pathsep.join((made.search, str(ROOT))),
        "HOME": "/root",
        "LANG": "C.UTF-8",
        **{key: os.environ[key] for key in ("PYTEST_SESSION_MARK", "PRELAUNCH_STATE") if key in os.environ},
        **made.environment,
    }
    argv = ["python3", "-m", "tests.worlds.node"]
    argv += [str(home / "bundle.json"), str(home / "roster.json"), name, str(home / "work")]
    spec = {
        "host": name,
        "network": "",
        "cache": "",
        **{place: str(home / place) for place in ("opt_ml", "hosts", "scratch")},
        "boot_id": BOOT.format(index),
        "command": argv,
        "environment": environment,
        "working_directory": str(ROOT),
        **{name: made.row[name] for name in ("gpus", "driver", "devices", "shm_bytes")},
        "mounts": {**made.row["mounts"], "/etc/resolv.conf": str(home / "resolv.conf")},
    }
    if bundle.declared.kernel_log is KernelLog.READABLE:
        spec["mounts"]["/var/log"] = str(_kernel_log(home))
    (home / "container.json").write_text(json.dumps(spec))
    with open(home / "log", "wb") as log:
        inside, pipe = (sys.executable, "-I", "-S", "-B", str(INSIDE)), subprocess.PIPE
        words = (*inside, str(home / "container.json"), str(os.getpid()))
        process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=log, text=True)
    return Node(name, home, process, decode(NodeReport, _said(process, home)))


def _said(process: subprocess.Popen[str], folder: Path) -> Any:
    """The next line of a container, whose log is in the folder."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, (folder / "log").read_text(errors="replace")[-3000:]
    return json.loads(line)


def _kernel_log(home: Path) -> Path:
    """A log of the kernel in the form that rsyslog writes, an hour long: of a machine whose log can be read."""
    folder = home / "var_log"
    folder.mkdir()
    started = ("Linux version 6.1.119 (a fake)", "Command line: BOOT_IMAGE=/boot/vmlinuz")
    begun = datetime.now(UTC) - timedelta(minutes=30)
    stamps = ((begun + timedelta(minutes=at)).isoformat() for at in range(4))
    rows = zip(stamps, (*started, "x86/fpu: Supporting XSAVE", "ena: up"), strict=True)
    text = "".join(f"{at} host kernel: {line}\n" for at, line in rows)
    (folder / "kern.log").write_text(text, encoding="utf-8")
    return folder
