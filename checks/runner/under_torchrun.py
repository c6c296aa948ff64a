"""`run` started by torchrun itself: local rank 0 is the runner of its node, which starts the ranks anew; the other ranks end at once.

The group's TCP store replaces the roster: the nodes write their addresses to it. Then they are a gate in a job without a command.
"""

from __future__ import annotations

import argparse
import os
import socket
import tempfile
import uuid
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from checks import bundle as bundles
from checks.bundle import Bundle
from checks.command_line import PlaceError
from checks.documents.decode import decode, parse_json
from checks.documents.report import MERGED_FILE, dump_plain
from checks.exchange import secret_key
from checks.exit_codes import Exit
from checks.process.free_ports import free_port
from checks.process.stderr import say
from checks.process.whole_file import write_whole
from checks.roster import Member, Roster
from checks.runner import rank_stage
from checks.runner.in_job.hold import Refusal
from checks.runner.in_job.job_gate import gate
from checks.runner.node_context import write_node_context
from checks.runner.single_node import host_name, own_bundle, require_writable

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

STORE_S = 120.0


def run(arguments: argparse.Namespace) -> int:
    """The run of one rank. The first rank writes the merged report to --out and prints the verdict; all ranks exit with 0.

    torchrun turns any other exit code into 1 and ends the neighbours: the verdict has to be read from the report.
    """
    if os.environ["LOCAL_RANK"] != "0":
        return Exit.GO
    os.environ.update(rank_stage.RESOLVER)  # before the first lookup: this process never becomes the training
    rank, per_node = int(os.environ["RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    if rank == 0:
        require_writable(arguments.out)
        arguments.out.unlink(missing_ok=True)  # remove the verdict of an earlier run
    store = _store()
    bundle = _bundle(arguments, int(os.environ["WORLD_SIZE"]) // per_node, per_node, store, rank)
    roster = _meet(store, bundle, rank // per_node)
    attempt = store.get("prelaunch/attempt").decode()
    with tempfile.TemporaryDirectory(prefix="prelaunch-") as name:
        out = Path(name) / "out"
        node = roster.members[rank // per_node].name
        key = b"" if secret_key.VARIABLE in os.environ else store.get("prelaunch/key")
        answer = gate(write_node_context(Path(name), bundle, roster, node, key), attempt, out)
        if isinstance(answer, Refusal):
            say(f"checks run: {answer.reason}")
        if rank == 0:
            write_whole(arguments.out, (out / MERGED_FILE).read_bytes())
    return Exit.GO


def _store() -> Store:
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    shared = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    first = os.environ["RANK"] == "0" and not shared
    store: Store = TCPStore(address, port, None, first, timedelta(seconds=STORE_S), wait_for_workers=False)
    return store


def _bundle(arguments: argparse.Namespace, nodes: int, per_node: int, store: Store, rank: int) -> Bundle:
    """One bundle for all nodes: the first rank makes it, so that every node judges alike."""
    if rank == 0:
        store.set("prelaunch/attempt", uuid.uuid4().hex)
        # Everybody who can connect to torchrun's store can read it, because it is not authenticated (docs/how-it-decides.md).
        store.set("prelaunch/key", secret_key.make().decode())
        store.set("prelaunch/bundle", _first_bundle(arguments, nodes, per_node).decode())
    bundle = bundles.load(store.get("prelaunch/bundle"))
    if bundle.declared.nodes != nodes or bundle.declared.ranks_per_node != per_node:
        declared = f"{bundle.declared.nodes} x {bundle.declared.ranks_per_node}"
        raise PlaceError(
            f"torchrun started {nodes} x {per_node} ranks, but {declared} are declared. Start torchrun with the declared numbers."
        )
    return bundle


def _first_bundle(arguments: argparse.Namespace, nodes: int, per_node: int) -> bytes:
    if arguments.bundle is not None:
        return bytes(arguments.bundle.read_bytes())
    return bundles.dump(own_bundle("torchrun", arguments, nodes, per_node))


def _meet(store: Store, bundle: Bundle, node_rank: int) -> Roster:
    """The roster, made from what the first rank of every node wrote to the store."""
    names, address = bundle.declared.node_names, _own_address()
    name = names[node_rank] if names else f"{host_name()}-{node_rank}"
    own = Member(name, address, free_port(address))
    store.set(f"prelaunch/member/{node_rank}", dump_plain(own).decode())
    if node_rank == 0:
        store.set("prelaunch/rendezvous", str(free_port(address)))
    keys = [f"prelaunch/member/{index}" for index in range(bundle.declared.nodes)]
    members = tuple(decode(Member, parse_json(store.get(key), 4096)) for key in keys)
    return Roster(members, int(store.get("prelaunch/rendezvous")), "")  # ranks use what the environment names


def _own_address() -> str:
    """The address of this host on the route to the rendezvous."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
        return str(probe.getsockname()[0])
