"""`python -m checks.runner.mpi.launch ... -- WORDS` on every host: the first becomes the parent of one mpirun, the others start its
daemons.

Open MPI starts a daemon on each host through a program that takes the place of ssh (its parameter plm_rsh_agent). Here that is a
script: it hands the daemon's command to this process, which passes it on over the exchange (checks.exchange.exchange), under a key
that the gate in front of this derived for it, so that nobody else on the network can take a host's place or start anything. The
workers end when mpirun has ended, with its exit code. Each host's ranks run in that host's own environment: no environment variables
are sent between hosts.

MpiError      a tool or a host is missing, and nothing was started; the message has the remedy
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from checks.documents.decode import decode, parse_json
from checks.exchange import secret_key
from checks.exchange.exchange import ExchangeError, Responder
from checks.exchange.secret_key import Access
from checks.exit_codes import Exit
from checks.process.environment import for_training
from checks.process.inheritance import outlive_signals_for_training
from checks.process.stderr import say
from checks.process.tree import as_started, become_subreaper, end_children, with_pdeathsig
from checks.process.whole_file import write_whole
from checks.roster import Member, Roster
from checks.runner.barrier import NodeBarrier
from checks.value_types import DecodeError

MEET_S = 180.0  # hosts leave their gate together (judgement)
ASK_S, LINGER_S, GRACE_S = 3.0, 10.0, 60.0
POLL_S = 0.05
# `agent HOST WORDS...`: as ssh, it ends with the exit code of the command that the words are. mpirun is its parent.
AGENT = """\
cd '{folder}' && host=$1 && shift || exit 1
printf '%s' "$*" > ".$host" && mv ".$host" "$host.command"
until [ -e "$host.code" ]; do
    kill -0 "$PPID" 2>/dev/null || exit 1
    sleep 0.1
done
exit "$(cat "$host.code")"
"""


class MpiError(Exception):
    """The ranks cannot be started."""


@dataclass(frozen=True)
class MpiHost:
    """The host is one of all hosts of the mpirun, and has the key that keeps other machines out. The first host runs mpirun."""

    roster: Roster
    rank: int
    ranks_per_node: int
    access: Access

    @property
    def workers(self) -> tuple[Member, ...]:
        """All other hosts."""
        return self.roster.members[1:]


class Stop:
    """What SIGTERM and SIGINT do: they end this process until the ranks start. Then they are noted, and forwarded to mpirun, which
    ends the ranks.
    """

    def __init__(self) -> None:
        self.at = 0.0
        self.running = False
        self.child: subprocess.Popen[bytes] | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)
        outlive_signals_for_training()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.running:
            raise SystemExit(128 + number)
        self.at = self.at or time.monotonic()
        if self.child is not None and self.child.poll() is None:
            self.child.send_signal(number)


def place_of(
    environment: Mapping[str, str], nodes: int, node_rank: int, ranks_per_node: int, key_fd: int | None
) -> MpiHost:
    """The host's place comes from the roster in its environment. The key comes from `key_fd`, which is closed. Raises MpiError."""
    path = environment.get("PRELAUNCH_ROSTER", "")
    try:
        roster = decode(Roster, parse_json(Path(path).read_bytes(), 1 << 24))
    except (OSError, DecodeError) as error:
        raise MpiError(f"PRELAUNCH_ROSTER {path!r} cannot be read: {error}. The launcher sets it.") from error
    if len(roster.members) != nodes or not 0 <= node_rank < nodes:
        raise MpiError(
            f"node rank {node_rank} of {nodes} nodes does not match the roster, which has {len(roster.members)} nodes."
        )
    attempt = environment.get("PRELAUNCH_ATTEMPT", "")
    key = secret_key.derived(_key(key_fd, nodes), attempt)  # the key of another start of the job is of no use
    return MpiHost(roster, node_rank, ranks_per_node, Access(key, roster.members[node_rank].name))


def _key(descriptor: int | None, nodes: int) -> bytes:
    if descriptor is None and nodes == 1:
        return secrets.token_bytes(secret_key.SECRET_BYTES)
    try:
        with open(-1 if descriptor is None else descriptor, "rb") as file:
            key = file.read(secret_key.SECRET_BYTES)
    except (OSError, ValueError):
        key = b""
    if len(key) != secret_key.SECRET_BYTES:
        raise MpiError(
            "--key-fd is not a descriptor with the key of these hosts. Start this command through `python -m checks gate`, "
            "which opens it for {key_fd}."
        )
    return key


def main(argv: Sequence[str]) -> int:
    """Run the launch; returns the exit code of mpirun on every host, and 2 if nothing was started."""
    arguments = _parser().parse_args(argv)
    command = tuple(arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words)
    stop = Stop()
    become_subreaper()
    try:
        if not command:
            raise MpiError("the command is missing. Give it after --.")
        host = place_of(
            os.environ, arguments.nodes, arguments.node_rank, arguments.ranks_per_node, arguments.key_fd
        )
        with tempfile.TemporaryDirectory(prefix="prelaunch-mpi-") as name:
            return launch(host, command, Path(name), stop)
    except (MpiError, OSError, subprocess.SubprocessError) as error:
        say(f"checks.runner.mpi.launch: {error}")
        return Exit.REJECTED
    finally:
        end_children(0.0)


def launch(host: MpiHost, command: Sequence[str], folder: Path, stop: Stop) -> int:
    """Once all hosts are there, the first one runs mpirun and the others what it starts there. Raises MpiError."""
    responder = Responder(host.access, "")
    barrier = NodeBarrier(host.roster, host.access, MEET_S, responder)
    try:
        if host.workers and host.rank == 0:
            # The gate has ended, so that its port is free.
            responder.listen(barrier.first.address, barrier.first.probe_port)
        _meet(barrier, "orted" if host.rank else "mpirun")
        return serve(host, barrier, stop) if host.rank else lead(host, barrier, command, folder, stop)
    except ExchangeError as error:
        raise MpiError(f"{error}. The gate's port must be free.") from error
    finally:
        barrier.linger(LINGER_S)  # the exit code is gone once the first host ends
        responder.close()


def _meet(barrier: NodeBarrier, program: str) -> None:
    """Waits until every host is ready; the first one may still be at its gate. Raises MpiError."""
    lacks = f'{barrier.node}: this image has no {program}. Add Open MPI, or use distributed = "torchrun".'
    objection = "" if shutil.which(program) else lacks
    if objection:
        barrier.put(f"here/{barrier.node}", objection, time.monotonic() + MEET_S)
    if problem := barrier.agree("here", objection):
        raise MpiError(problem[:500])


def lead(host: MpiHost, barrier: NodeBarrier, command: Sequence[str], folder: Path, stop: Stop) -> int:
    """The first host: run mpirun, and tell the workers its exit code."""
    code = int(Exit.REJECTED)
    try:
        agent = folder / "agent"
        agent.write_text(AGENT.format(folder=folder))
        argv = mpirun(host, command, agent)
        stop.running = True
        stop.child = subprocess.Popen(with_pdeathsig(argv), stdin=subprocess.DEVNULL, env=environment(host))
        if stop.at:
            stop.child.terminate()
        while (ended := stop.child.poll()) is None:
            for worker in host.workers:
                _pass_on(barrier.responder, folder, worker.name)
            time.sleep(POLL_S)
        code = ended if ended >= 0 else 128 - ended
    finally:
        barrier.put("ended", str(code), 0.0)
    return code


def _pass_on(responder: Responder, folder: Path, worker: str) -> None:
    """Gives the worker the command that mpirun has for it, and mpirun the exit code of that.

    mpirun may know a host by the first part of its name alone (orte_keep_fqdn_hostnames).
    """
    for host in {worker, worker.partition(".")[0]}:
        with suppress(FileNotFoundError):
            responder.put(f"start/{worker}", (folder / f"{host}.command").read_text())
        code, path = responder.get(f"code/{worker}", 0.0), folder / f"{host}.code"
        if code is not None and code.isdigit() and not path.exists():
            write_whole(path, code.encode())


def serve(host: MpiHost, barrier: NodeBarrier, stop: Stop) -> int:
    """A worker: start what mpirun asks for, until that has ended. Returns its exit code. Raises MpiError."""
    command, ended = _await(barrier, stop, f"start/{barrier.node}", "ended")
    if command is not None and ended is None:
        stop.running = True
        argv = with_pdeathsig(("/bin/sh", "-c", command))
        code = subprocess.run(argv, stdin=subprocess.DEVNULL, env=environment(host), check=False).returncode
        barrier.put(
            f"code/{barrier.node}", str(code if code >= 0 else 128 - code), time.monotonic() + GRACE_S
        )
        (ended,) = _await(barrier, stop, "ended")
    if ended is None or not ended.isdigit():
        raise MpiError(f"{barrier.first.name} reported no exit code")
    end_children(GRACE_S if stop.at else 1.0)
    return int(ended)


def _await(barrier: NodeBarrier, stop: Stop, *keys: str) -> list[str | None]:
    """The first host's notes, once there is one of them. Raises MpiError where there will be none."""
    while True:
        notes = barrier.get_all(keys, time.monotonic() + ASK_S, alike="")
        if any(note is not None for note in notes):
            return notes
        if stop.at and time.monotonic() - stop.at > GRACE_S:
            raise MpiError("this host was ended by a signal, and the first host reported no exit code")
        if barrier.has_left(barrier.first):
            raise MpiError(f"{barrier.first.name} is gone and reported no exit code")


def mpirun(host: MpiHost, command: Sequence[str], agent: Path) -> tuple[str, ...]:
    """The argv. Workers go by their names in the roster, this host by the one that mpirun knows it by."""
    per = host.ranks_per_node
    names = (os.uname().nodename, *(worker.name for worker in host.workers))
    interface = host.roster.interface
    parameters = {
        # Inside a job of Slurm mpirun would start its daemons by srun, which waits for the CPUs that this very step has, and would
        # take the number of its processes per node from the step (seen with Open MPI 4.1).
        "plm": "^slurm",
        "ras": "^slurm",
        # Also on one host: without it mpirun looks for ssh, and ends where there is none (seen with Open MPI 4.1). The folder of
        # temporary files may be mounted noexec.
        "plm_rsh_agent": f"sh {agent}",
        # Only the first host hands commands on: the workers start nothing on each other.
        "plm_rsh_no_tree_spawn": "1",
        **(
            {"oob_tcp_if_include": interface, "btl_tcp_if_include": interface}
            if interface and host.workers
            else {}
        ),
    }
    return (
        shutil.which("mpirun") or "mpirun",
        # mpirun refuses root otherwise; a training container has no other user.
        *(("--allow-run-as-root",) if os.getuid() == 0 else ()),
        *("--host", ",".join(f"{name}:{per}" for name in names), "-np", str(per * len(names))),
        *("--bind-to", "none"),  # one rank drives a GPU and its loaders: a single core would starve it
        *(argument for key, value in parameters.items() for argument in ("--mca", key, value)),
        *command,
    )


def environment(host: MpiHost) -> dict[str, str]:
    """What the engine gave this host, with the rendezvous where PyTorch looks for it."""
    rendezvous = {
        "MASTER_ADDR": host.roster.members[0].address,
        "MASTER_PORT": str(host.roster.rendezvous_port),
    }
    return {**rendezvous, **for_training(as_started(os.environ))}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m checks.runner.mpi.launch", description=__doc__)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--node-rank", type=int, required=True)
    parser.add_argument("--ranks-per-node", type=int, required=True)
    parser.add_argument(
        "--master-addr", help="accepted for compatibility with torchrun; the roster's first address is used"
    )
    parser.add_argument("--key-fd", type=int, help="file descriptor from which the hosts' key is read")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
