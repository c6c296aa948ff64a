"""Random histories of faults over a gate of 2 to 4 hosts in network namespaces, each from its seed alone.

    python -m tests.survival.histories SEED...      play these again, and print what came of them

All processes are real: the command, its flow, the local launcher and the nodes' runners with a few of their checks
(few_checks). A fault meets one process, host, link, disk, mount or the engine. The mounts that hang are FUSE's, in the mount
namespace of the gate or of one node, so that nothing else on this machine sees them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from checks.runner.deadline import ANSWER_S
from tests.survival import few_checks, hung_mount, proc
from tests.survival.faults import DEADLINE_S, Fault, History, Kind, history
from tests.survival.faulty_network import add_address, cut, network, shape

ROOT = Path(__file__).resolve().parents[2]
NETWORKS = "plh"  # with what the names of their networks begin
BUSY_S = 5.0  # this machine plays up to four hosts, the gate and a server on two CPUs, for several histories at a time
END_S = 45.0  # after the verdict: jobs are ended, the lease is given back
MARK = "TEST_HISTORY_OF_FAULTS"  # the launcher hands no PRELAUNCH_ variable of its own to the nodes
MUTE = "import socket, time; s = socket.socket(2, 2); s.bind(('0.0.0.0', 53)); print('ready', flush=True); time.sleep(600)"


@dataclass
class Played:
    """What came of it. `forbids` says why a GO would be wrong; times are seconds since the checks were seen to begin."""

    history: History
    deadline_s: float = DEADLINE_S
    code: int | None = None
    verdict_s: float | None = None
    ended_s: float | None = None
    forbids: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def faults(self) -> Iterator[str]:
        """What is wrong with it: no answer in time, a wrong GO, or something that is left."""
        yield from self.errors
        within_s = self.deadline_s + ANSWER_S + BUSY_S
        answered_s = self.ended_s if self.verdict_s is None else self.verdict_s
        if answered_s is None or answered_s > within_s:
            yield f"no verdict within {within_s:g} s, but after {answered_s} s"
        if self.ended_s is None:
            yield f"the command did not end within {END_S:g} s more"
        if self.code not in (0, 1, 3, None):
            yield f"exit code {self.code} is no answer to a health check"
        if self.code == 0:
            yield from (f"a wrong GO: {why}" for why in self.forbids)
        yield from (f"left: {what}" for what in self.left)

    def __str__(self) -> str:
        times = f"verdict after {_seconds(self.verdict_s)}, end after {_seconds(self.ended_s)}"
        return f"{self.history} -> exit {self.code}, {times}"


def play(chosen: History, environment: Mapping[str, str], deadline_s: float = DEADLINE_S) -> Played:
    """Play it; `environment` says which Prefect server the command speaks to, its own where none."""
    with (
        tempfile.TemporaryDirectory(prefix="pl-history-", ignore_cleanup_errors=True) as name,
        ExitStack() as stack,
    ):
        network_name = stack.enter_context(network(chosen.nodes, NETWORKS))
        stage = Stage(chosen, Path(name), network_name, environment, deadline_s)
        stack.callback(stage.clear)
        stage.run()
    return stage.played


class Stage:
    """One history while it is played."""

    def __init__(
        self, chosen: History, folder: Path, net: str, environment: Mapping[str, str], deadline_s: float
    ) -> None:
        self.deadline_s = deadline_s
        self.history, self.folder, self.network = chosen, folder, net
        self.played, self.mark = Played(chosen, deadline_s), uuid.uuid4().hex
        self.environment = {**os.environ, **environment, MARK: self.mark, "PYTHONPATH": str(ROOT)}
        self.helpers: list[subprocess.Popen[str]] = []
        self.begun: float | None = None

    def run(self) -> None:
        """The command, the faults, and what is left."""
        (self.folder / "work").mkdir()
        words = ("gate", str(self._gate()), "--check-only", "--format", "json")
        unshare = ("unshare", "--mount", "--propagation", "private", "--")
        shell = ("sh", "-c", self._disk(), "sh")
        unshared = (*unshare, *shell, sys.executable, few_checks.__file__, *words)
        with open(self.folder / "stdout", "wb") as out:
            self.gate = subprocess.Popen(
                unshared, stdout=out, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                env=self.environment, cwd=self.folder, start_new_session=True,
            )  # fmt: skip
        reader = threading.Thread(target=self._read, daemon=True)
        reader.start()
        self._await_begin()
        for fault in sorted(self.history.faults, key=lambda fault: fault.after_s):
            self._sleep_until(fault.after_s)
            if self.gate.poll() is not None:
                break
            try:
                self._do(fault)
            except (OSError, subprocess.SubprocessError, LookupError, ValueError) as error:
                self.played.lines.append(f"-- {fault.kind.name} could not be done: {error}")
        self._await_end()
        reader.join(5)
        if self.gate.stderr is not None and not reader.is_alive():
            self.gate.stderr.close()

    def clear(self) -> None:
        """Take the faults away, and look what the product has left; then end what is left."""
        for helper in self.helpers:
            helper.kill()
            helper.wait()
            if helper.stdout is not None:
                helper.stdout.close()
        until = time.monotonic() + 5.0
        while (left := self._processes()) and time.monotonic() < until:
            time.sleep(0.1)
        self.played.left += [f"process {pid}: {proc.command(pid)}" for pid in left]
        self.played.left += [f"mount {line}" for line in _mounts() if str(self.folder) in line]
        for pid in left:
            proc.send(pid, signal.SIGKILL)

    def _gate(self) -> Path:
        policy = few_checks.policy_document()
        stubborn = any(fault.kind is Kind.STUBBORN for fault in self.history.faults)
        if stubborn:
            rule = {"metric": "value", "equals": 1.0, "source": "a test"}
            policy["checks"]["sabotage.hangs"] = {"rules": [rule]}
        (self.folder / "policy.json").write_text(json.dumps(policy))
        python = few_checks.interpreter(self.folder / "python")
        hangs = ["prelaunch_sabotage:hangs"] if stubborn else []
        path = self.folder / "gate.toml"
        path.write_text(
            f"""
name = "history"
[cluster]
name = "history"
[cluster.declared]
instance_type = "cpu"
nodes = {self.history.nodes}
ranks_per_node = 1
[cluster.options]
network = "namespaces"
prepared = "{self.network}"
grace_s = 1.0
python = "{python}"
[checks]
network_s = 3.0
deadline_s = {self.deadline_s}
max_runtime_minutes = 10
extra = {json.dumps([few_checks.ADDS, *hangs])}
timeouts_s = {json.dumps({"sabotage.hangs": 100.0} if stubborn else {}).replace(":", " =")}
[policy]
file = "policy.json"
[training]
command = ["true"]
max_runtime_minutes = 1
[store]
path = "{self.folder}/store"
work = "{self.folder}/work"
"""
        )
        return path

    def _disk(self) -> str:
        """What the shell does before it becomes the command: where the disk shall be full, jobs get a small one."""
        export = f"export PYTHONPATH={ROOT}:{ROOT}/tests/sabotage"
        full = any(fault.kind is Kind.FULL_DISK for fault in self.history.faults)
        small = f"mount -t tmpfs -o size=48m history {self.folder}/work && " if full else ""
        return f'{small}{export} && exec "$@"'

    def _read(self) -> None:
        assert self.gate.stderr is not None
        for line in self.gate.stderr:
            self.played.lines.append(line.rstrip())
            if line.startswith("verdict: ") and self.played.verdict_s is None and self.begun is not None:
                self.played.verdict_s = time.monotonic() - self.begun

    def _await_begin(self) -> None:
        until = time.monotonic() + 90
        while not self._reports() and self.gate.poll() is None:
            if time.monotonic() > until:
                self.played.errors.append("no node began to report within 90 s")
                return
            time.sleep(0.02)
        self.begun = time.monotonic()

    def _await_end(self) -> None:
        until = (self.begun or time.monotonic()) + self.deadline_s + ANSWER_S + BUSY_S + END_S
        try:
            self.played.code = self.gate.wait(max(until - time.monotonic(), 0.1))
            self.played.ended_s = time.monotonic() - (self.begun or 0.0)
        except subprocess.TimeoutExpired:
            os.killpg(self.gate.pid, signal.SIGKILL)
            self.gate.wait()

    def _sleep_until(self, after_s: float) -> None:
        while self.begun is not None and time.monotonic() - self.begun < after_s and self.gate.poll() is None:
            time.sleep(0.02)

    def _do(self, fault: Fault) -> None:
        node, forbid = f"node-{fault.node}", self.played.forbids.append
        done: dict[Kind, Callable[[], object]] = {
            Kind.NOTHING: lambda: None,
            Kind.STUBBORN: lambda: None,
            Kind.KILL: lambda: proc.send(self._runner(node), signal.SIGKILL),
            Kind.STOP: lambda: proc.send(self._runner(node), signal.SIGSTOP),
            Kind.STOP_ALL: lambda: [proc.send(pid, signal.SIGSTOP) for pid in self._of_node(node)],
            Kind.CUT: lambda: cut(self.network, fault.node),
            Kind.SLOW: lambda: shape(self.network, fault.node, "1mbit"),
            Kind.FULL_DISK: lambda: fill(self._root() / "work" / "filler"),
            Kind.RESOLVER: lambda: self._mute(fault.node),
            Kind.HUNG_STORE: lambda: self._hang(self.gate.pid, self.folder / "store"),
            Kind.HUNG_MOUNT: lambda: self._hang(self._runner(node), self._own(node)),
            Kind.HUNG_SCRATCH: lambda: self._hang(self._runner(node), self._scratch(node), "deaf"),
            Kind.STOP_ENGINE: lambda: proc.send(self._keepers()[1], signal.SIGSTOP),
            Kind.KILL_ENGINE: lambda: [proc.send(pid, signal.SIGKILL) for pid in self._keepers()],
        }
        done[fault.kind]()
        seen = self._measured(node)
        ends_node = fault.kind in (Kind.KILL, Kind.STOP, Kind.STOP_ALL, Kind.HUNG_SCRATCH)
        at_once = self.begun is not None and fault.after_s == 0.0
        if ends_node and not self._complete(node):
            forbid(f"{node}'s report was not whole when {fault.kind.value}")
        elif fault.kind in (Kind.CUT, Kind.SLOW) and not seen & {"network.pairs", "network.reachability"}:
            forbid(f"{node} had not measured its network when {fault.kind.value}")
        elif fault.kind is Kind.HUNG_MOUNT and at_once and "mounts.responsive" not in seen:
            forbid(f"{node} had not asked its mounts when {fault.kind.value}")
        elif fault.kind is Kind.STUBBORN:
            forbid(fault.kind.value)
        elif fault.kind is Kind.HUNG_STORE and self.played.verdict_s is None:
            forbid("no verdict was kept when the store hung")

    def _mute(self, node: int) -> None:
        """Who asks the resolver of this host gets no answer: its address is the host's own, and nobody reads there."""
        namespace = f"{self.network}-{node}"
        for line in Path("/etc/resolv.conf").read_text().splitlines():
            if line.startswith("nameserver") and "." in line:
                add_address(namespace, "lo", f"{line.split()[1]}/32")
        self._help(("ip", "netns", "exec", namespace, sys.executable, "-c", MUTE))

    def _hang(self, pid: int, point: Path, *words: str) -> None:
        argv = ("nsenter", "-t", str(pid), "-m", sys.executable, hung_mount.__file__, str(point), *words)
        self._help(argv)

    def _help(self, argv: Sequence[str]) -> None:
        helper = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.helpers.append(helper)
        assert helper.stdout is not None
        if helper.stdout.readline() != "ready\n":
            raise OSError(f"{argv[-2]} did not get ready")

    def _own(self, node: str) -> Path:
        """A folder that is no part of the job, for a mount of the node's own."""
        point = self.folder / f"mount-{node}"
        point.mkdir(exist_ok=True)
        return point

    def _scratch(self, node: str) -> Path:
        [found] = (path for path in self._root().glob(f"work/**/nodes/{node}/scratch-{node}"))
        return self.folder / found.relative_to(self._root())

    def _root(self) -> Path:
        """The history's folder as the gate sees it."""
        return Path(f"/proc/{self.gate.pid}/root{self.folder}")

    def _reports(self) -> dict[str, Path]:
        try:
            paths = [*self._root().glob("work/clusters/*/jobs/*/out/*/nodes/*.json")]
        except OSError:
            return {}
        return {path.stem: path for path in paths}

    def _read_report(self, node: str) -> dict[str, object]:
        try:
            found: dict[str, object] = json.loads(self._reports()[node].read_bytes())
        except (OSError, KeyError, ValueError):
            return {}
        return found

    def _complete(self, node: str) -> bool:
        about = self._read_report(node).get("node")
        return isinstance(about, dict) and about.get("complete") is True

    def _measured(self, node: str) -> set[str]:
        rows = self._read_report(node).get("observations")
        return {str(row["check"]) for row in rows} if isinstance(rows, list) else set()

    def _keepers(self) -> list[int]:
        [path] = self._root().glob("work/clusters/*/jobs/*/shepherd.json")
        table = json.loads(path.read_bytes())
        return [int(table["guard"][0]), int(table["shepherd"][0])]

    def _runner(self, node: str) -> int:
        """The process that runs the node's checks: the first of its session."""
        [found] = (pid for pid in self._of_node(node) if os.getsid(pid) == pid and b"run" in proc.words(pid))
        return found

    def _of_node(self, node: str) -> list[int]:
        wanted = {f"{MARK}={self.mark}".encode(), f"PRELAUNCH_NODE={node}".encode()}
        return [pid for pid in proc.pids() if wanted <= set(proc.environment(pid))]

    def _processes(self) -> list[int]:
        mark = f"{MARK}={self.mark}".encode()
        return [pid for pid in proc.pids() if mark in proc.environment(pid)]


def fill(path: Path) -> None:
    """Take every byte of the file's disk."""
    with open(path, "wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def _mounts() -> list[str]:
    return Path("/proc/self/mounts").read_text().splitlines()


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f} s"


if __name__ == "__main__":
    for word in sys.argv[1:]:
        result = play(history(int(word)), {})
        print(result, *result.faults(), sep="\n  ", flush=True)
        print("\n".join(result.lines[-30:]))
