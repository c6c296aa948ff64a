"""A fake interpreter: `-m checks gate` makes a report up instead of measuring. The gate itself is the real one.

FAKE says what it plays: healthy | wrong (a check that the policy fails) | silent (no report, exit code 7) |
hang (an incomplete report, then nothing until SIGTERM) | stubborn (the same, and SIGTERM is ignored) | orphan
(healthy, and leaves a process behind) | asks (healthy, and its gate holds for an answer to gate FAKE_GATE). FAKE_<NODE>
with "-" and "." as "_" says it for one node.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

from checks.documents.answer import ASKING, AnswerWord, wait_for_answer
from checks.documents.report import NodeReport, dump_plain, load_node
from checks.exit_codes import Exit
from checks.model import SCHEMA_VERSION, Node, Observation, Outcome, Scope, Value, rank_subject
from checks.probes.host.system import identity_of_node
from checks.process.whole_file import write_whole
from checks.runner.in_job import job_gate
from checks.runner.in_job.hold import Refusal
from checks.runner.in_job.spares import Choice
from checks.runner.journal import now
from checks.runner.node_context import NodeContext, open_node_context
from tests.checks.culprit.rows import row
from tests.planned_contents import with_contents


def play(argv: Sequence[str]) -> int | list[str]:
    """Plays the part of an interpreter with these arguments: its exit code, or the command that it becomes."""
    words = list(argv)

    def option(name: str) -> str:
        """The word after an option."""
        return words[words.index(name) + 1]

    node, out = os.environ["PRELAUNCH_NODE"], Path(option("--out"))
    attempt = out / os.environ["PRELAUNCH_ATTEMPT"]
    own = "FAKE_" + node.upper().translate(str.maketrans("-.", "__"))
    part = os.environ.get(own) or os.environ.get("FAKE", "healthy")
    roster, scratch = Path(os.environ["PRELAUNCH_ROSTER"]), Path(os.environ["PRELAUNCH_SCRATCH"])
    node_context = open_node_context(Path(option("--bundle")), roster, node, scratch)
    write_whole(out / "rosters" / f"{node}.json", dump_plain(node_context.roster))
    if part == "silent":
        return 7
    if part in ("hang", "stubborn"):
        if part == "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        write_report(node_context, attempt, part)
        write_whole(out / "hanging" / node, b"")
        time.sleep(600)
    write_report(node_context, attempt, part)
    if part == "orphan":
        subprocess.Popen((sys.executable, "-c", "import time; time.sleep(600)"), start_new_session=True)
    command = words[words.index("--") + 1 :] if "--" in words else []
    if part == "asks":
        return _asking(attempt, node, float(option("--ask-s"))) or command
    data = (attempt / "nodes" / f"{node}.json").read_bytes()
    journal = SimpleNamespace(data=data, report=load_node(data))
    with (
        patch.object(job_gate, "run_beside", lambda *_: journal),
        patch.object(job_gate, "become_subreaper", lambda adopt=True: None),
        patch.object(job_gate, "end_left", lambda node_context: None),
    ):
        answer = job_gate.gate(node_context, attempt.name, out, trains=bool(command))
    if isinstance(answer, Choice):
        job_gate.write_choice(Path(option("--choice")), answer)
        return Exit.GO
    if isinstance(answer, Refusal):
        job_gate.write_failure(node_context, attempt.name, out, answer)
        return answer.code
    if command:
        for mark in (attempt / "started" / node, scratch / "started"):
            write_whole(mark, b"")
    return command or 0


def _asking(attempt: Path, node: str, seconds: float) -> int:
    """What a gate leaves that holds for an answer: 0 if the command is to start."""
    write_whole(attempt / "verdicts" / f"{node}.json", b"{}\n")
    write_whole(attempt / ASKING / node, b"ask: it is played to be unsure\n")
    answer = wait_for_answer(attempt.parent, os.environ["FAKE_GATE"], attempt.name, seconds, print)
    (attempt / ASKING / node).unlink()
    if answer is None or answer.word is not AnswerWord.LAUNCH:
        write_whole(attempt / "failure" / node, f"refused: {answer}\n".encode())
        return Exit.NO_GO
    write_whole(attempt / "started" / node, b"")
    return Exit.GO


def write_report(node_context: NodeContext, attempt: Path, part: str) -> None:
    """Every planned check of this node has measured something; played wrong, 2 where 1 is wanted."""
    bundle, node = node_context.bundle, node_context.node
    per = bundle.declared.ranks_per_node
    ranks = [rank_subject(node, node_context.node_rank * per + local) for local in range(per)]
    peers = tuple(member.name for member in node_context.roster.members if member.name != node)
    known: dict[str, Value] = {"peers": peers, "rendezvous": "ok", "other_catalogues": 0}
    known["failures"], known["refused"] = tuple("ok" for _ in peers), tuple(0 for _ in peers)
    for name in ("bandwidth_gbps", "latency_us", "connect_ms"):
        known[name] = tuple(1.0 for _ in peers)
    value = 2 if part == "wrong" else 1
    rows = []
    for planned in (check for check in node_context.plan if check.skip is None):
        for subject in ranks if planned.scope is Scope.RANK else [node]:
            metrics = with_contents({name: known.get(name, value) for name in planned.metrics}, planned)
            if planned.check == "collective.pairs":
                rank, nodes = int(subject.rpartition("-")[2]), bundle.declared.nodes
                paired = row(rank, nodes, per, lambda one, other: {}, profile=bundle.profile)
                metrics = {name: paired.metrics[name] for name in planned.metrics}
            rows.append(Observation(planned.check, subject, Outcome.MEASURED, 0.1, metrics))
    whole = part not in ("hang", "stubborn")
    identity = identity_of_node()
    me = Node(node, node_context.node_rank, attempt.name, bundle.catalogue, whole, identity)
    about = (SCHEMA_VERSION, bundle.gate_id, now(), bundle.profile, bundle.declared, node_context.plan)
    report = NodeReport(*about, me, tuple(rows if whole else rows[:1]))
    write_whole(attempt / "nodes" / f"{node}.json", dump_plain(report))


def main() -> int:
    """Plays the part of this process."""
    command = play(sys.argv)
    return command if isinstance(command, int) else os.execvp(command[0], command)


if __name__ == "__main__":
    sys.exit(main())
