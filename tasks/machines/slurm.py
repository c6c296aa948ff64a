"""Machines of a Slurm cluster, changed with scontrol alone.

While a node is repaired or tested, a reservation of its own keeps all other jobs off it (MAINT, for one user), because Slurm may
return it by itself: with ReturnToService=2 a node that was rebooted with nextstate=DOWN serves as soon as its slurmd registers,
drained before or not, and in 22.05 also if the RebootProgram did nothing (seen with 22.05 and 24.11). The order of commands is such
that at no moment a foreign job may start on the node: the reservation is made before a node is resumed or rebooted, and deleted only
once the node is drained.

Slurm has no command that depends on a node's state. So the state is read right before each command, and after it; what another person
changes between reading and writing is overwritten.
"""

from __future__ import annotations

import os
import pwd
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from checks.value_types import Text
from tasks.launchers.base import EngineUnavailable
from tasks.launchers.slurm import commands
from tasks.launchers.slurm.commands import MissingCommand, SlurmReply
from tasks.machines import parallelcluster
from tasks.machines import slurm_commands as acts
from tasks.machines.base import (
    ActAmbiguous,
    ActRefused,
    EngineSilent,
    Holder,
    Machine,
    Mark,
    Retest,
    Rung,
    ServiceState,
    Settled,
    after_change,
    require_free_or_ours,
    require_ours,
    require_quiet,
)
from tasks.machines.slurm_commands import Argv
from tasks.machines.slurm_nodes import (
    ON_A_NODE,
    SQUEUE_FORMAT,
    TIMED_OUT,
    UnreadableNodes,
    config_value,
    jobs_of,
    nodes_of,
    reservations_of,
)
from tasks.machines.slurm_view import View

Runner = Callable[..., SlurmReply]
# Slurm computes a boot time from a node's uptime whenever slurmd registers, so it moves by a second without a reboot (seen).
BOOT_TIME_TOLERANCE_S = 5.0
# Errors of slurm_strerror() (src/common/slurm_errno.c of 22.05 and 24.11) after which slurmctld may have the request, or not.
UNANSWERED = (
    "Unable to contact slurm controller (send failure)", "Unable to contact slurm controller (receive failure)",
    "Unable to contact slurm controller (shutdown failure)", "Socket timed out on send/recv operation",
    "Zero Bytes were transmitted or received", "Insane message length", "Unexpected message received", "Unspecified error",
)  # fmt: skip
UNREACHED = ("Unable to contact slurm controller (connect failure)",)
# slurm_strerror() as well. A job that has just ended still completes for a while, with its epilog.
RESERVATION_BUSY = "Requested reservation is in use"
# What 22.05 answers to state=resume for some time after a reboot of a node, if the machine of slurmctld is busy.
NODE_UNREADY = "Invalid node state specified"
BUSY_S, BUSY_PAUSE_S = 30.0, 1.0
RESET_S = 60.0 * acts.RESET_MINUTES + acts.RESET_WAIT_S


class TooEarly(ActRefused):
    """Slurm refuses what it will take later: a job still completes in a reservation, or a node has just been rebooted."""


@dataclass(frozen=True)
class SlurmMachineOptions:
    """`user` submits the re-tests, "" is the user of this process. `sudo_user` is as whom sudo changes nodes, "" uses no sudo.

    `parallelcluster` is the version of AWS ParallelCluster, "none" where there is none; "" looks on this machine. `reset` says that
    the user who submits re-tests may reset GPUs (nvidia-smi wants root).
    """

    user: Annotated[str, Text(r"[A-Za-z0-9_.-]*", 100, "must be the name of a user")] = ""
    sudo_user: Annotated[str, Text(r"[A-Za-z0-9_.-]*", 100, "must be the name of a user")] = ""
    parallelcluster: Annotated[str, Text(r"(none|\d+\.\d+\.\d+)?", 20, "must be a version or none")] = ""
    reset: bool = False


class SlurmMachines:
    """`run` starts a command, `root` is where this machine's files are, and `pause` waits for so many seconds.

    With `hyperpod` the cluster is one of SageMaker HyperPod, which reboots and replaces a node for a reason that it reads in Slurm,
    and gives it back by itself, under the same name: until it is proven the node's own reservation keeps jobs off it.
    """

    def __init__(
        self,
        options: SlurmMachineOptions | None = None,
        run: Runner = commands.run,
        root: Path = Path("/"),
        pause: Callable[[float], None] = time.sleep,
        hyperpod: bool = False,
    ) -> None:
        self.options, self.hyperpod = options or SlurmMachineOptions(), hyperpod
        self.name = "hyperpod" if hyperpod else "slurm"
        self._run, self._pause = run, pause
        self.parallelcluster = parallelcluster.version_of(self.options.parallelcluster, root)
        self.user = self.options.user or pwd.getpwuid(os.geteuid()).pw_name
        repairs = acts.HYPERPOD_REASONS if hyperpod else (Rung.REBOOT,)
        self.rungs = frozenset((*repairs, Rung.RESET) if self.options.reset else repairs)
        # clustermgtd replaces a static node that is drained and idle (aws/aws-parallelcluster-node, pull requests 691 and 727).
        self.fence_is = Rung.REPLACE if self.parallelcluster else Rung.FENCE

    def by_name(self) -> Mapping[str, Machine]:
        """Nodes, reservations and jobs, in this order."""
        view = self._view()
        return {name: view.machine(name) for name in view.nodes}

    def fence(self, node: str, mark: Mark) -> str:
        """Drain the node, unless it is drained under this mark already."""
        view = self._view()
        require_free_or_ours(view.listed(node), mark)
        if not view.drained(node, mark):
            view = self._drained(node, mark)
        return view.status(node)

    def act(self, rung: Rung, node: str, mark: Mark, gpus: Sequence[int] = ()) -> str:
        """A repair in the node's reservation, which stays."""
        if rung not in self.rungs:
            raise ActRefused(f"Slurm has no {rung} that may be used here. A person has to do it for {node}.")
        if rung is Rung.RESET and not gpus:
            raise ActRefused(f"It is not known which GPU of {node} to reset.")
        view = self._view()
        require_ours(view.listed(node), mark)
        require_quiet(view.listed(node))
        if rung is Rung.RESET:
            name = self.open_retest(node, (), mark).options["reservation"]
            return self._change(acts.reset(name, node, gpus), RESET_S) or "nvidia-smi ended without an error"
        if not self.hyperpod:
            try:
                program = config_value(self._ask("scontrol", "show", "config"), "RebootProgram")
            except UnreadableNodes as error:
                raise EngineSilent(f"Slurm's answer cannot be read: {error}.") from error
            if not program:
                message = "slurm.conf has no RebootProgram, so Slurm cannot reboot a node. Set one, or reboot it by hand."
                raise ActRefused(message)
        if not view.drained(node, mark):
            self._drained(node, mark)
        self._reserve(node, (), mark)
        view = self._view()
        view.require_drained(node, mark)
        require_quiet(view.listed(node))
        self._change(self._as_operator(self._repair(rung, node, mark)))
        return self._again(node).status(node)

    def settled(self, rung: Rung, before: Machine, now: Machine) -> Settled:
        """A reboot or a replacement is done once the boot time moved, and failed if Slurm has ended it without that.

        Until HyperPod has given the node back, and if it does nothing at all, nothing is known.
        """
        if rung is Rung.RESET:
            return Settled.PENDING if now.jobs or now.service is ServiceState.UNKNOWN else Settled.DONE
        if rung not in self.rungs:
            return Settled.FAILED
        if now.service in (ServiceState.CHANGING, ServiceState.UNKNOWN):
            return Settled.PENDING
        then, booted = before.booted_at, now.booted_at
        moved = None if then is None or booted is None else booted > then + BOOT_TIME_TOLERANCE_S
        if self.hyperpod:
            return Settled.DONE if moved and now.holder is not Holder.OTHER else Settled.PENDING
        if moved is not None:
            return Settled.DONE if moved else Settled.FAILED
        return Settled.FAILED if TIMED_OUT in now.status else Settled.PENDING

    def open_retest(self, node: str, partners: Sequence[str], mark: Mark) -> Retest:
        """Reserve the nodes, and only then resume the node."""
        view = self._view()
        require_ours(view.listed(node), mark)
        for partner in partners:
            view.require_partner(partner, node, mark)
        name = self._reserve(node, partners, mark)
        view = self._view()
        if view.machine(node).holder is Holder.OTHER:
            self._delete(node, name)
        require_ours(view.listed(node), mark)
        if view.machine(node).service is not ServiceState.TESTING:
            view = self._resumed(node, mark, name)
        view = self._answering(node, view)
        if view.machine(node).service is not ServiceState.TESTING:
            raise ActRefused(f"{node} cannot be tested again: Slurm shows {view.status(node)!r:.200}.")
        return Retest(tuple(sorted({node, *partners})), {"reservation": name})

    def close_retest(self, node: str, mark: Mark) -> None:
        """Drain the node, unless another has taken it out of service, and only then delete the reservation.

        A node that HyperPod may still give back keeps its reservation.
        """
        view, name = self._view(), acts.reservation_name(mark.gate_id, node)
        machine = view.machine(node)
        if view.only_reserved(node, name) and not machine.mark:
            # Somebody changed the reservation, and may delete it.
            self._change(self._as_operator(acts.drain(node, mark)))
            view = self._again(node)
        elif machine.bears(mark.gate_id) or (machine.holder is Holder.NOBODY and node in view.nodes):
            require_ours(view.listed(node), mark)
            if not view.drained(node, mark):
                view = self._drained(node, mark)
        if name in view.reservations and not (self.hyperpod and view.is_handed_over(node)):
            view.require_unchanged(name)
            self._delete(node, name)

    def free(self, node: str, mark: Mark) -> str:
        """Resume the node inside its reservation, and then delete that."""
        view, name = self._view(), ""
        require_ours(view.listed(node), mark)
        if view.machine(node).service is not ServiceState.TESTING:
            view.require_drained(node, mark)
        if not parallelcluster.loops(self.parallelcluster):
            name = self._reserve(node, tuple(view.reserved_with(node, mark)), mark)
        if view.machine(node).service is not ServiceState.TESTING:
            view = self._resumed(node, mark, name)
        if name:
            if view.leaves_mark(node):
                self._change(self._as_operator(acts.clear_reason(node)))
            view = self._again(node)
            require_ours(view.listed(node), mark)
            view.require_testing(node, name)
            view = self._delete(node, name)
        return view.require_freed(node)

    def command(self, rung: Rung, node: str, mark: Mark, gpus: Sequence[int] = ()) -> str:
        """The text holds the commands that this back end runs itself. It is empty if there are none."""
        try:
            if rung is Rung.RESET:
                name = acts.reservation_name(mark.gate_id, node)
                return shlex.join(acts.reset(name, node, gpus)) if gpus else ""
            if rung is Rung.FENCE or (rung is Rung.REPLACE and self.parallelcluster):
                argv = acts.drain(node, mark)
            elif rung is Rung.RETURN:
                argv = acts.resume(node)
            else:
                argv = self._repair(rung, node, mark) if rung in self.rungs else ()
            return shlex.join(self._as_operator(argv)) if argv else ""
        except ActRefused:  # these names cannot be given to scontrol
            return ""

    def shell(self, machine: Machine) -> str:
        """Slurm's names of nodes are names of hosts on most clusters."""
        return shlex.join(("ssh", machine.node))

    # -------------------------------------------------------------------------------------------- questions

    def _view(self) -> View:
        """What Slurm shows now. Raises EngineSilent."""
        try:
            nodes = nodes_of(self._ask("scontrol", "show", "node", "--oneliner", "--all"))
            reservations = reservations_of(self._ask("scontrol", "show", "reservation", "--oneliner"))
            squeue = ("--noheader", "--all", f"--states={ON_A_NODE}", f"--format={SQUEUE_FORMAT}")
            return View(nodes, reservations, jobs_of(self._ask("squeue", *squeue)), self.user)
        except UnreadableNodes as error:
            raise EngineSilent(f"Slurm's answer cannot be read: {error}.") from error

    def _again(self, node: str) -> View:
        """What Slurm shows after a change that it took. Raises ActAmbiguous if that cannot be seen."""
        with after_change(node):
            return self._view()

    def _ask(self, *argv: str) -> str:
        try:
            reply = self._run(*argv)
        except EngineUnavailable as error:
            raise EngineSilent(f"Slurm does not answer: {error}") from error
        if reply.code:
            raise EngineSilent(f"Slurm does not answer {argv[0]}: {reply.text}")
        return reply.out

    # -------------------------------------------------------------------------------------------- changes

    def _drained(self, node: str, mark: Mark) -> View:
        """What Slurm shows once the node is drained under this mark. Raises as `fence` does."""
        self._change(self._as_operator(acts.drain(node, mark)))
        view = self._again(node)
        view.require_drained(node, mark)
        return view

    def _repair(self, rung: Rung, node: str, mark: Mark) -> Argv:
        """The command of a reboot or a replacement."""
        return acts.fail(node, rung) if self.hyperpod else acts.reboot(node, mark)

    def _reserve(self, node: str, partners: Sequence[str], mark: Mark) -> str:
        """The name of the reservation of exactly these nodes; made if there is none. Raises as `open_retest` does."""
        if parallelcluster.loops(self.parallelcluster):
            raise ActRefused(
                f"AWS ParallelCluster {self.parallelcluster} replaces the nodes of maintenance reservations over and over "
                f"(aws/aws-parallelcluster issue 7465; 3.8.0 to 3.15.1), so {node} cannot be kept from other jobs. "
                "Repair it by hand. If that is not the version of this cluster, name the right one in the option parallelcluster."
            )
        name, nodes = acts.reservation_name(mark.gate_id, node), frozenset((node, *partners))
        view = self._view()
        if name in view.reservations:
            view.require_unchanged(name)
            if view.reservations[name].nodes == nodes:
                return name
            if not view.drained(node, mark):
                self._drained(node, mark)
            self._delete(node, name)
        self._change(self._as_operator(acts.reserve(name, nodes, self.user)))
        self._again(node).require_reserved(name, nodes)
        return name

    def _resumed(self, node: str, mark: Mark, name: str) -> View:
        """What Slurm shows once jobs may start on the node, by its reservation if it has a name."""

        def resume() -> None:
            view = self._view()
            require_ours(view.listed(node), mark)
            if name:
                view.require_reserved(name, frozenset((node,)))
            if view.machine(node).service is not ServiceState.TESTING:
                self._change(self._as_operator(acts.resume(node)))

        try:
            self._until_taken(resume)
        except TooEarly as error:
            raise ActRefused(f"{error}. Slurm shows {self._view().status(node)!r:.200}.") from error
        return self._again(node)

    def _until_taken(self, change: Callable[[], object]) -> None:
        """Make a change that Slurm may refuse for a while; the last refusal is raised."""
        for left in reversed(range(1 + int(BUSY_S / BUSY_PAUSE_S))):
            try:
                change()
                return
            except TooEarly:
                if not left:
                    raise
                self._pause(BUSY_PAUSE_S)

    def _answering(self, node: str, view: View) -> View:
        """What Slurm shows once the node's slurmd has answered: until then sbatch refuses every job for it. It waits for a while."""
        for _ in range(int(BUSY_S / BUSY_PAUSE_S)):
            if not view.silent(node):
                break
            self._pause(BUSY_PAUSE_S)
            view = self._again(node)
        return view

    def _delete(self, node: str, name: str) -> View:
        """What Slurm shows once the reservation is gone."""
        self._until_taken(lambda: self._change(self._as_operator(acts.unreserve(name))))
        view = self._again(node)
        if name in view.reservations:
            raise ActRefused(f"Reservation {name} of {node} is still there. Delete it by hand.")
        return view

    def _change(self, argv: Argv, timeout_s: float = commands.ANSWER_S) -> str:
        """What a command printed. Raises ActRefused, ActAmbiguous, and EngineSilent if it was not sent."""
        line = shlex.join(argv)
        try:
            reply = self._run(*argv, timeout_s=timeout_s)
        except MissingCommand as error:
            raise EngineSilent(f"{line} was not started: {error}") from error
        except EngineUnavailable as error:
            raise ActAmbiguous(f"It is not known whether Slurm took {line}: {error}") from error
        if reply.code == 0:
            return reply.out.strip()
        text = reply.err + reply.out
        if any(phrase in text for phrase in UNREACHED):
            raise EngineSilent(f"Slurm was not reached by {line}: {reply.text}")
        if reply.code < 0 or any(phrase in text for phrase in UNANSWERED):
            raise ActAmbiguous(f"It is not known whether Slurm took {line}: {reply.text}")
        refusal = TooEarly if RESERVATION_BUSY in text or NODE_UNREADY in text else ActRefused
        raise refusal(f"Slurm refused {line}: {reply.text}")

    def _as_operator(self, argv: Argv) -> Argv:
        if not self.options.sudo_user:
            return argv
        return ("sudo", "--non-interactive", f"--user={self.options.sudo_user}", *argv)
