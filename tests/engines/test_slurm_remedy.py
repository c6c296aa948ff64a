"""Remediation on a real Slurm cluster, from the refused gate to the node that serves again, and where it must not act."""

from __future__ import annotations

import re
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tasks.gate.outcome import Decision, GateOutcome
from tasks.gate.question import ApprovalAction
from tasks.remediation.model import Act, ActState
from tasks.remediation.records import Records
from tasks.store.folder import FolderStore
from tests.engines.slurm_cluster import running_cluster
from tests.engines.slurm_gates import slurm_gate
from tests.engines.slurm_reboots import REBOOTS, RebootingCluster
from tests.flows.answering import asked as questions
from tests.flows.answering import by_slack
from tests.flows.driving import gate_of_few_checks, remedy_of_few_checks
from tests.survival import few_checks
from tests.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.timeout(300), pytest.mark.usefixtures("prefect_backend")]
XID = "NVRM: Xid (PCI:0000:b9:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
ASKS = """
[approval]
approvers = ["U0PERSON1"]
overriders = ["U0PERSON2"]

[remediation]
mode = "ask"
machines = "slurm"
wait_minutes = 4
"""


class LoggingCluster(RebootingCluster):
    """Each node has a /var/log of its own, whose `messages` survives a reboot, as on real machines. Its /dev/kmsg is a file with the
    kernel's first record alone, because this machine's own ring may have been overwritten.

    This kernel never restarts, so the fake reboot moves what was logged until then to a time before the kernel's start.
    """

    def before_slurmctld(self) -> None:
        """Make the logs, and the RebootProgram."""
        super().before_slurmctld()
        for node in self.nodes:
            (self.folder / "var_log" / node).mkdir(parents=True)
            (self.folder / "var_log" / node / "messages").touch()
        (self.folder / "kmsg").write_text("6,0,0,-;Linux version 6.1 (a ring of its own)\n")
        log = f"{self.folder}/var_log/$(hostname)/messages"
        starts = f"""\
form='+%b %d %H:%M:%S'
before=$(date -d "@$(( $(date +%s) - $(cut -d. -f1 /proc/uptime) - 300 ))" "$form")
sed -i "s/^.\\{{15\\}} /$before /" {log}
echo "$(date "$form") $(hostname) kernel: Linux version 6.1 (a fake reboot)" >>{log}
"""
        conf = f"export SLURM_CONF={self.folder}/slurm.conf\n"
        self.hook("reboot", conf + starts + REBOOTS.format(folder=self.folder))

    def _start(self, index: int, host: str, *argv: str, other: bool = True) -> None:
        own = f"mount --bind {self.folder}/var_log/{host} /var/log; mount --bind {self.folder}/kmsg /dev/kmsg"
        bind = ("/bin/sh", "-ec", f'{own}; exec "$@"', "log") if host in self.nodes else ()
        super()._start(index, host, *bind, *argv, other=other)

    def log(self, node: str, message: str) -> None:
        """Write a line of the kernel to the node's log, as rsyslog does."""
        when = datetime.now().astimezone().strftime("%b %d %H:%M:%S")
        with (self.folder / "var_log" / node / "messages").open("a") as file:
            file.write(f"{when} {node} kernel: {message}\n")


@pytest.fixture
def slurm(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LoggingCluster]:
    """Four nodes that can be rebooted, with logs of their own."""
    monkeypatch.setattr(few_checks, "NAMES", (*few_checks.NAMES, "kernel.xid"))
    with running_cluster(LoggingCluster, tmp_path_factory.mktemp("slurm"), 4) as cluster:
        monkeypatch.setenv("PATH", cluster.path)
        yield cluster


def gate_file(folder: Path, more: str = ASKS, **training: Any) -> Path:
    """The gate of all four nodes, with the check of Xids."""
    path = slurm_gate(folder, nodes=4, **training)
    python = folder / "few-python"
    first, _, rest = python.read_text().partition("\n")
    python.write_text(f"{first}\nexport PRELAUNCH_FEW_ALSO=kernel.xid\n{rest}")
    text = path.read_text()
    assert "[approval]" not in text and "[remediation]" not in text
    path.write_text(text + more)
    return path


def acts(path: Path) -> tuple[Act, ...]:
    """The records of all acts."""
    return Records(FolderStore(path.parent / "store"), cluster_name(path)).acts()


def cluster_name(path: Path) -> str:
    """The name in the gate file."""
    return str(tomllib.loads(path.read_text())["cluster"]["name"])


@contextmanager
def answering(path: Path, who: str, action: ApprovalAction = ApprovalAction.LAUNCH) -> Iterator[list[str]]:
    """Meanwhile a person whom Slack proved answers every question about a repair; gives the questions."""
    store, asked, over = path.parent / "store", list[str](), threading.Event()

    def answer() -> None:
        while not over.wait(0.2):
            for question in questions(store):
                if question.key == "repair" and question.gate_id not in asked:
                    asked.append(question.gate_id)
                    by_slack(store, question, who, action, "it is broken")

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield asked
    finally:
        over.set()
        thread.join()


def refused(path: Path) -> GateOutcome:
    """The gate, which refuses."""
    outcome = gate_of_few_checks(path)
    assert outcome.decision is Decision.REFUSED, outcome.reason
    return outcome


def state_of(cluster: LoggingCluster, node: str) -> str:
    """Slurm's state and reason of a node."""
    return cluster.run("sinfo", "-h", "-N", "-n", node, "-p", "gpu", "-o", "%T %E").strip()


def test_a_gpu_that_fell_off_the_bus_is_fenced_rebooted_proven_and_returned(
    slurm: LoggingCluster, tmp_path: Path
) -> None:
    """Xid 79 on n2 of four. A foreign job that waits for n2 starts only once the node was proven."""
    path = gate_file(tmp_path / "shared")
    slurm.log("n2", XID)
    outcome = refused(path)
    before = slurm.boot_id("n2")
    with answering(path, "U0PERSON2") as asked:
        words = ("--parsable", "--hold", "-w", "n2", "-o", "/dev/null", "--wrap", "true")
        waits = slurm.run("sbatch", *words).strip()

        def release_it_once_the_node_is_fenced() -> None:
            until(lambda: "drain" in state_of(slurm, "n2"), seconds=120.0)
            slurm.run("scontrol", "release", waits)

        released = threading.Thread(target=release_it_once_the_node_is_fenced)
        released.start()
        state = remedy_of_few_checks(path)
        released.join()

    assert "Repaired" == state.name, state.message
    rungs = ("fence", "reboot", "recheck", "return")
    assert [(rung, ActState.DONE) for rung in rungs] == [(act.rung.value, act.state) for act in acts(path)]
    assert [f"{outcome.gate_id}-n2-reboot-1"] == asked
    assert "U0PERSON2 (Slack)" == next(act.allowed_by for act in acts(path) if act.rung.value == "reboot")
    assert before != slurm.boot_id("n2")
    returned = next(act for act in acts(path) if act.rung.value == "return")
    assert started(slurm, waits) >= int(returned.intended_at)
    slurm.until_idle()
    assert "idle none" == state_of(slurm, "n2")


def started(cluster: LoggingCluster, job: str) -> int:
    """When a job began, in Unix seconds, once it has ended; the scheduler may take a while to see that its node serves."""
    show = ("scontrol", "show", "job", job)
    until(lambda: "JobState=COMPLETED" in cluster.run(*show), lambda: cluster.run(*show), every_s=0.5)
    said = cluster.run(*show)
    text = re.search(r"StartTime=(\S+)", said)
    assert text is not None, said
    return int(datetime.fromisoformat(text[1]).timestamp())
