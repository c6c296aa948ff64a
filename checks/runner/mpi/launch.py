"""`python -m checks.runner.mpi.launch ... -- WORDS` on every host: the first becomes the parent of one mpirun, the others of its ssh.

Open MPI starts a daemon on each host by ssh. The hosts make keys for this one job and send each other the public parts over the
exchange (checks.exchange.exchange), under a key that the gate in front of this derived for it, so that nobody else on the
network can take a host's place. The workers end when mpirun has ended, with its exit code. Each host's ranks run in that host's
own environment: no environment variables are sent between hosts.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from checks.exchange.authentication import Op
from checks.exchange.exchange import ExchangeError, Responder, ask
from checks.exit_codes import Exit
from checks.process.environment import for_training
from checks.process.stderr import say
from checks.process.tree import as_started, become_subreaper, end_children, with_pdeathsig
from checks.runner.mpi import ssh_keys
from checks.runner.mpi.hosts import (
    FIRST_TOOLS,
    RETRY_S,
    WORKER_TOOLS,
    MpiError,
    Place,
    Stop,
    find_tools,
    place_of,
    retried,
)

MEET_S = 180.0  # hosts leave their gate together; sshd and keys take a second (judgement)
ASK_S, LINGER_S, GRACE_S = 3.0, 10.0, 60.0
GONE_AFTER = 5
SEPARATION = "/run/sshd"  # where Debian's and Ubuntu's sshd goes to be unprivileged; images lack it until a service starts


def main(argv: Sequence[str]) -> int:
    """Run the launch; returns the exit code of mpirun on every host, and 2 if nothing was started."""
    arguments = _parser().parse_args(argv)
    words = tuple(arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words)
    stop = Stop()
    become_subreaper()
    try:
        if not words:
            raise MpiError("the command is missing. Give it after --.")
        place = place_of(
            os.environ, arguments.nodes, arguments.node_rank, arguments.ranks_per_node, arguments.key_fd
        )
        with tempfile.TemporaryDirectory(prefix="prelaunch-mpi-") as name:
            return lead(place, words, Path(name), stop) if place.rank == 0 else serve(place, Path(name), stop)
    except (MpiError, OSError, subprocess.SubprocessError) as error:
        say(f"checks.runner.mpi.launch: {error}")
        return Exit.REJECTED
    finally:
        end_children(0.0)


def lead(place: Place, words: Sequence[str], folder: Path, stop: Stop) -> int:
    """The first host: meet the workers, run mpirun, tell them its exit code."""
    responder = Responder(place.access, "")
    told = int(Exit.REJECTED)
    try:
        if place.workers:
            responder.listen(place.me.address, place.me.probe_port)
        config = _meet(place, responder, folder, stop)
        stop.child = subprocess.Popen(
            with_pdeathsig(mpirun(place, words, config)), stdin=subprocess.DEVNULL, env=environment(place)
        )
        if stop.at:
            stop.child.terminate()
        code = stop.child.wait()
        told = code if code >= 0 else 128 - code
    except ExchangeError as error:
        raise MpiError(f"{error}. The gate's port must be free.") from error
    finally:
        responder.put("ended", str(told))
        _linger(place, responder)
        responder.close()
    return told


def serve(place: Place, folder: Path, stop: Stop) -> int:
    """A worker: let the first host in, until its mpirun has ended."""
    name = place.me.name
    try:
        tools = find_tools(WORKER_TOOLS)
    except MpiError as error:
        _told(place, f"refused/{name}", str(error), stop)
        raise
    _told(place, f"host/{name}", ssh_keys.make_key(folder / "host"), stop)
    client = _asked(place, "client", MEET_S, stop)
    if client is None or not ssh_keys.is_key(client):
        raise MpiError(
            f"{name} got no key from {place.first.name} within {MEET_S:g} s. See the log of {place.first.name}."
        )
    config = ssh_keys.server_config(folder, place.me, place.first, client, environment(place))
    if os.getuid() == 0:
        Path(SEPARATION).mkdir(parents=True, exist_ok=True)
    argv = (tools["sshd"], "-D", "-e", "-f", str(config))  # sshd runs itself again, and wants its whole path
    sshd = subprocess.Popen(with_pdeathsig(argv), stdin=subprocess.DEVNULL)
    try:
        return _until_ended(place, sshd, stop)
    finally:
        sshd.terminate()
        end_children(GRACE_S if stop.at else 1.0)


def mpirun(place: Place, words: Sequence[str], config: Path | None) -> tuple[str, ...]:
    """The argv. Workers go by their names in the ssh configuration, this host by the one that mpirun knows it by."""
    per = place.ranks_per_node
    names = (os.uname().nodename, *(worker.name for worker in place.workers))
    interface = place.roster.interface
    parameters = {
        # Inside a job of Slurm mpirun would start its daemons by srun, which waits for the CPUs that this very step has, and would
        # take the number of its processes per node from the step (seen with Open MPI 4.1).
        "plm": "^slurm",
        "ras": "^slurm",
        # Only the first host has the key: the workers start nothing on each other.
        **({"plm_rsh_agent": f"ssh -F {config}", "plm_rsh_no_tree_spawn": "1"} if config else {}),
        **(
            {"oob_tcp_if_include": interface, "btl_tcp_if_include": interface} if interface and config else {}
        ),
    }
    return (
        shutil.which("mpirun") or "mpirun",
        # mpirun refuses root otherwise; a training container has no other user.
        *(("--allow-run-as-root",) if os.getuid() == 0 else ()),
        *("--host", ",".join(f"{name}:{per}" for name in names), "-np", str(per * len(names))),
        *("--bind-to", "none"),  # one rank drives a GPU and its loaders: a single core would starve it
        *(word for key, value in parameters.items() for word in ("--mca", key, value)),
        *words,
    )


def environment(place: Place) -> dict[str, str]:
    """What the engine gave this host, with the rendezvous where PyTorch looks for it."""
    rendezvous = {"MASTER_ADDR": place.first.address, "MASTER_PORT": str(place.roster.rendezvous_port)}
    return {**rendezvous, **for_training(as_started(os.environ))}


def _linger(place: Place, responder: Responder) -> None:
    """Stay until the workers have read the exit code, which is gone once this host ends."""
    until = time.monotonic() + LINGER_S
    for worker in place.workers:
        while (
            not {f"left/{worker.name}", f"refused/{worker.name}"} & set(responder.notes)
            and time.monotonic() < until
        ):
            time.sleep(RETRY_S / 3)


def _meet(place: Place, responder: Responder, folder: Path, stop: Stop) -> Path | None:
    """The ssh configuration, once every worker lets this host in; None where there is none. Raises MpiError."""
    tools = find_tools(FIRST_TOOLS if place.workers else {"mpirun": "Open MPI"})
    if not place.workers:
        return None
    responder.put("client", ssh_keys.make_key(folder / "client"))
    until = time.monotonic() + MEET_S
    keys: dict[str, str] = {}
    for worker in place.workers:
        keys[worker.name] = _key(responder, worker.name, until, stop)
    config = ssh_keys.client_config(folder, place.me, keys, place.roster.members)
    for worker in place.workers:
        argv = (tools["ssh"], "-F", str(config), worker.name, "true")
        retried(partial(_accepts, argv), until, stop, f"{worker.name} accepts no ssh connection. See its log")
    return config


def _key(responder: Responder, name: str, until: float, stop: Stop) -> str:
    while time.monotonic() < until and not stop.at:
        if (said := responder.get(f"refused/{name}", 0.0)) is not None:
            raise MpiError(f"{name}: {said[:500]}")
        key = responder.get(f"host/{name}", RETRY_S)
        if key is not None and ssh_keys.is_key(key):
            return key
    raise MpiError(f"{name} did not connect within {MEET_S:g} s. See its log.")


def _accepts(argv: Sequence[str]) -> bool:
    return subprocess.run(argv, stdin=subprocess.DEVNULL, timeout=MEET_S).returncode == 0


def _until_ended(place: Place, sshd: subprocess.Popen[bytes], stop: Stop) -> int:
    """The exit code that the first host tells. Raises MpiError where it will not."""
    refused = 0
    while refused < GONE_AFTER:
        if sshd.poll() is not None:
            raise MpiError(f"sshd ended with exit code {sshd.returncode}: see above")
        if stop.at and time.monotonic() - stop.at > GRACE_S:
            raise MpiError("this host was ended by a signal, and the first host reported no exit code")
        try:
            said = ask(place.first, place.access, Op.GET, 2 * ASK_S, key="ended", wait_ms=int(ASK_S * 1000))
            refused = 0
        except ExchangeError as error:
            refused += error.refused
            time.sleep(RETRY_S)
            continue
        if isinstance(code := said.get("value"), str) and code.isdigit():
            with suppress(ExchangeError):  # the first host waits for it, and not for long
                ask(place.first, place.access, Op.PUT, ASK_S, key=f"left/{place.me.name}", value="ok")
            return int(code)
    raise MpiError(f"{place.first.name} is gone and reported no exit code")


def _told(place: Place, key: str, value: str, stop: Stop) -> None:
    def tell() -> bool:
        return ask(place.first, place.access, Op.PUT, ASK_S, key=key, value=value).get("ok") is True

    retried(tell, time.monotonic() + MEET_S, stop, f"{place.first.name} does not answer")


def _asked(place: Place, key: str, seconds: float, stop: Stop) -> str | None:
    found: list[str] = []

    def look() -> bool:
        value = ask(place.first, place.access, Op.GET, 2 * ASK_S, key=key, wait_ms=1000).get("value")
        found.extend([value] if isinstance(value, str) else [])
        return bool(found)

    retried(look, time.monotonic() + seconds, stop, f"{place.first.name} does not answer")
    return found[0]


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
