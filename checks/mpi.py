"""`python -m checks.mpi ... -- WORDS` on every host: the first becomes the parent of one mpirun, the others of its ssh.

Open MPI starts a daemon on each host by ssh. The hosts make keys for this one job and tell each other the public parts;
the workers end when mpirun has ended, with its exit code. Each host's ranks have that host's own environment, so that
nothing of it travels.

The public parts travel over the exchange (checks.exchange), under a key that the gate in front of this derived for it, so
that nobody else on the network can take a host's place.
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

from checks import sshkeys
from checks.authentication import Op
from checks.exchange import ExchangeError, Responder, ask
from checks.mpihosts import (
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
from checks.processes import become_subreaper, end_children, leashed
from checks.say import say

EXIT_REFUSED = 2
MEET_S = 180.0  # hosts leave their gate together; sshd and keys take a second (judgement)
ASK_S, LINGER_S, GRACE_S = 3.0, 10.0, 60.0
GONE_AFTER = 5
SEPARATION = "/run/sshd"  # where Debian's and Ubuntu's sshd goes to be unprivileged; images lack it until a service starts


def main(argv: Sequence[str]) -> int:
    """The exit code of mpirun, on every host; 2 where nothing was started."""
    arguments = _parser().parse_args(argv)
    words = tuple(arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words)
    stop = Stop()
    become_subreaper()
    try:
        if not words:
            raise MpiError("there is no command. Give it after --.")
        place = place_of(
            os.environ, arguments.nodes, arguments.node_rank, arguments.ranks_per_node, arguments.key_fd
        )
        with tempfile.TemporaryDirectory(prefix="prelaunch-mpi-") as name:
            return lead(place, words, Path(name), stop) if place.rank == 0 else serve(place, Path(name), stop)
    except (MpiError, OSError, subprocess.SubprocessError) as error:
        say(f"checks.mpi: {error}")
        return EXIT_REFUSED
    finally:
        end_children(0.0)


def lead(place: Place, words: Sequence[str], folder: Path, stop: Stop) -> int:
    """The first host: meet the workers, run mpirun, tell them its exit code."""
    board = Responder(place.access, "")
    told = EXIT_REFUSED
    try:
        if place.workers:
            board.listen(place.me.address, place.me.probe_port)
        config = _meet(place, board, folder, stop)
        stop.child = subprocess.Popen(
            leashed(mpirun(place, words, config)), stdin=subprocess.DEVNULL, env=environment(place)
        )
        if stop.at:
            stop.child.terminate()
        code = stop.child.wait()
        told = code if code >= 0 else 128 - code
    except ExchangeError as error:
        raise MpiError(f"{error}. The gate's port must be free again.") from error
    finally:
        board.put("ended", str(told))
        _linger(place, board)
        board.close()
    return told


def serve(place: Place, folder: Path, stop: Stop) -> int:
    """A worker: let the first host in, until its mpirun has ended."""
    name = place.me.name
    try:
        tools = find_tools(WORKER_TOOLS)
    except MpiError as error:
        _told(place, f"refused/{name}", str(error), stop)
        raise
    _told(place, f"host/{name}", sshkeys.make_key(folder / "host"), stop)
    client = _asked(place, "client", MEET_S, stop)
    if client is None or not sshkeys.is_key(client):
        raise MpiError(f"{place.first.name} gave {name} no key in {MEET_S:g} s. See its log.")
    config = sshkeys.server_config(folder, place.me, place.first, client, environment(place))
    if os.getuid() == 0:
        Path(SEPARATION).mkdir(parents=True, exist_ok=True)
    argv = (tools["sshd"], "-D", "-e", "-f", str(config))  # sshd runs itself again, and wants its whole path
    sshd = subprocess.Popen(leashed(argv), stdin=subprocess.DEVNULL)
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
    """This host's own, with the rendezvous where PyTorch looks for it."""
    rendezvous = {"MASTER_ADDR": place.first.address, "MASTER_PORT": str(place.roster.rendezvous_port)}
    return {**rendezvous, **os.environ}


def _linger(place: Place, board: Responder) -> None:
    """Who goes first takes the exit code away from the others."""
    until = time.monotonic() + LINGER_S
    for worker in place.workers:
        while (
            not {f"left/{worker.name}", f"refused/{worker.name}"} & set(board.notes)
            and time.monotonic() < until
        ):
            time.sleep(RETRY_S / 3)


def _meet(place: Place, board: Responder, folder: Path, stop: Stop) -> Path | None:
    """The ssh configuration, once every worker lets this host in; None where there is none. Raises MpiError."""
    tools = find_tools(FIRST_TOOLS if place.workers else {"mpirun": "Open MPI"})
    if not place.workers:
        return None
    board.put("client", sshkeys.make_key(folder / "client"))
    until = time.monotonic() + MEET_S
    keys: dict[str, str] = {}
    for worker in place.workers:
        keys[worker.name] = _key(board, worker.name, until, stop)
    config = sshkeys.client_config(folder, place.me, keys, place.roster.members)
    for worker in place.workers:
        argv = (tools["ssh"], "-F", str(config), worker.name, "true")
        retried(partial(_accepts, argv), until, stop, f"{worker.name} lets nobody in by ssh: see its log")
    return config


def _key(board: Responder, name: str, until: float, stop: Stop) -> str:
    while time.monotonic() < until and not stop.at:
        if (said := board.get(f"refused/{name}", 0.0)) is not None:
            raise MpiError(f"{name}: {said[:500]}")
        key = board.get(f"host/{name}", RETRY_S)
        if key is not None and sshkeys.is_key(key):
            return key
    raise MpiError(f"{name} did not come in {MEET_S:g} s. See its log.")


def _accepts(argv: Sequence[str]) -> bool:
    return subprocess.run(argv, stdin=subprocess.DEVNULL, timeout=MEET_S).returncode == 0


def _until_ended(place: Place, sshd: subprocess.Popen[bytes], stop: Stop) -> int:
    """The exit code that the first host tells. Raises MpiError where it will not."""
    refused = 0
    while refused < GONE_AFTER:
        if sshd.poll() is not None:
            raise MpiError(f"sshd ended with exit code {sshd.returncode}: see above")
        if stop.at and time.monotonic() - stop.at > GRACE_S:
            raise MpiError("ended by a signal, and the first host told no exit code")
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
    raise MpiError(f"{place.first.name} is gone, and told no exit code")


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
    parser = argparse.ArgumentParser(prog="python -m checks.mpi", description=__doc__)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--node-rank", type=int, required=True)
    parser.add_argument("--ranks-per-node", type=int, required=True)
    parser.add_argument("--master-addr", help="the roster's first address; it is read from there")
    parser.add_argument("--key-fd", type=int, help="a descriptor from which the hosts' key is read")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
