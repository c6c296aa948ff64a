"""What a Slurm cluster can do for jobs, seen by doing it: srun, enroot and pyxis, each as a check of its own.

srun      a step on so many nodes: every node answers
enroot    the same step: each node has it on its PATH
pyxis     a step with --container-image on the same nodes: a container starts on each of them
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache

from tasks.launchers.base import EngineUnavailable
from tasks.launchers.slurm import commands
from tasks.launchers.slurm.commands import SlurmReply

NAMES = ("srun", "enroot", "pyxis")
IMAGE = "docker://ubuntu:22.04"
# Nodes are asked only if they are free at once; an image that no node has yet is downloaded first.
FREE_S, ANSWER_S, DOWNLOAD_S = 10, 60.0, 900.0
REMEDY = "Look at `sinfo -R`, and at slurmd's log on the nodes that did not answer."
# "prelaunch-node NAME VERSION-OF-ENROOT", without a version where there is no enroot.
ASK = (
    'echo "prelaunch-node ${SLURMD_NODENAME:-$(hostname)} $(command -v enroot >/dev/null && enroot version)"'
)


class SlurmOutcome(Enum):
    """How a check of the cluster ended."""

    WORKS = "works"
    FAILS = "fails"
    MISSING = "not installed"
    UNSEEN = "could not be seen"


@dataclass(frozen=True)
class ClusterCheck:
    """One line of the answer; `remedy` is what to do unless it works."""

    name: str
    outcome: SlurmOutcome
    message: str
    remedy: str = ""

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.name}: {self.outcome.value}: {self.message}" + (
            f". {self.remedy}" if self.remedy else ""
        )


def run_checks(
    names: Sequence[str], nodes: int, where: Sequence[str], image: str = IMAGE
) -> Iterator[ClusterCheck]:
    """Run the named checks on so many nodes; `place` are options of srun, such as a partition. Raises MissingCommand.

    The nodes are asked once for all of them.
    """
    plain = cache(lambda: _ask_nodes(nodes, where))
    checks: Mapping[str, Callable[[], ClusterCheck]] = {
        "srun": lambda: _srun(nodes, *plain()),
        "enroot": lambda: _enroot(nodes, *plain()),
        "pyxis": lambda: _pyxis(nodes, where, image, plain),
    }
    for name in names:
        try:
            yield checks[name]()
        except commands.MissingCommand:
            raise
        except EngineUnavailable as error:
            yield ClusterCheck(name, SlurmOutcome.UNSEEN, str(error).rstrip("."))


def _srun(nodes: int, done: SlurmReply, answers: Mapping[str, str]) -> ClusterCheck:
    if len(answers) == nodes:
        return ClusterCheck("srun", SlurmOutcome.WORKS, f"{_listed(answers)} answered")
    return _without_answer("srun", done, answers, nodes)


def _enroot(nodes: int, done: SlurmReply, answers: Mapping[str, str]) -> ClusterCheck:
    without = [node for node, version in answers.items() if not version]
    if without:
        # slurmd may have another PATH, on which pyxis finds it.
        message = f"it is not on the PATH of {_listed(without)}"
        return ClusterCheck("enroot", SlurmOutcome.MISSING, message, "pyxis needs it on every node.")
    if len(answers) == nodes:
        versions = "/".join(sorted(set(answers.values())))
        return ClusterCheck("enroot", SlurmOutcome.WORKS, f"version {versions} on {_listed(answers)}")
    return _without_answer("enroot", done, answers, nodes)


def _pyxis(
    nodes: int, where: Sequence[str], image: str, plain: Callable[[], tuple[SlurmReply, dict[str, str]]]
) -> ClusterCheck:
    if "--container-image" not in commands.run("srun", "--help").out:
        remedy = "Install pyxis, and name it in plugstack.conf, on this machine and on every node."
        return ClusterCheck(
            "pyxis", SlurmOutcome.MISSING, "srun has no option --container-image here", remedy
        )
    before, free = plain()
    if len(free) < nodes:
        return _without_answer("pyxis", before, free, nodes)
    same = (f"--nodelist={','.join(free)}", f"--container-image={image}")
    done, answers = _ask_nodes(nodes, (*where, *same), DOWNLOAD_S)
    if len(answers) == nodes:
        return ClusterCheck("pyxis", SlurmOutcome.WORKS, f"{image} started on {_listed(answers)}")
    silent = _listed([node for node in free if node not in answers])
    return ClusterCheck(
        "pyxis", SlurmOutcome.FAILS, f"{image} did not start on {silent}: {done.text}", REMEDY
    )


def _ask_nodes(
    nodes: int, where: Sequence[str], seconds: float = ANSWER_S
) -> tuple[SlurmReply, dict[str, str]]:
    """What srun said, and what each node answered. Raises EngineUnavailable."""
    size = (f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1", f"--immediate={FREE_S}")
    options = (*size, "--chdir=/", "--job-name=prelaunch-look", *where)
    done = commands.run("srun", *options, "/bin/sh", "-c", ASK, timeout_s=seconds)
    fields = (line.split(" ", 2) for line in done.out.splitlines() if line.startswith("prelaunch-node "))
    return done, {field[1]: "".join(field[2:]).strip() for field in fields}


def _without_answer(name: str, done: SlurmReply, answers: Mapping[str, str], nodes: int) -> ClusterCheck:
    """If no node answered, they were not free, or Slurm refused the step; if some did, the others are broken."""
    if not answers:
        return ClusterCheck(name, SlurmOutcome.UNSEEN, f"no node could be asked: {done.text}")
    return ClusterCheck(
        name, SlurmOutcome.FAILS, f"only {_listed(answers)} of {nodes} nodes answered: {done.text}", REMEDY
    )


def _listed(nodes: Iterable[str]) -> str:
    return ", ".join(sorted(nodes))
