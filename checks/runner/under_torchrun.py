"""`run` started by torchrun itself: local rank 0 is the runner of its node, and all ranks do the rank checks.

The group's TCP store replaces the roster: the nodes write their addresses to it and, at the end, their reports. No data travels over
the collectives that are tested.
"""

from __future__ import annotations

import argparse
import atexit
import os
import socket
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from checks import bundle as bundles
from checks.bundle import Bundle
from checks.documents.decode import decode, parse_json
from checks.documents.report import dump, dump_plain
from checks.exchange import secret_key
from checks.facts.builtin import builtin
from checks.judge.verdict import decide
from checks.merge import merge
from checks.model import Profile
from checks.process.free_ports import free_port
from checks.process.whole_file import write_whole
from checks.roster import Member, Roster
from checks.runner import node_run, rank_process, rank_stage
from checks.runner.barrier import NodeBarrier
from checks.runner.in_job.open_findings import settle_alone
from checks.runner.journal import JournalWriter, now
from checks.runner.node_context import NodeContext, PlaceError, open_node_context
from checks.runner.single_node import declare, host_name, read_policy, require_writable, show

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

STORE_S = 120.0
NODE_CHECKS_S = 600.0


def run(arguments: argparse.Namespace) -> NoReturn:
    """The run of one rank. The first rank writes the merged report to --out and prints the verdict; all ranks exit with 0.

    torchrun turns any other exit code into 1 and ends the neighbours: the verdict has to be read from the report.
    """
    os.environ.update(
        rank_stage.RESOLVER
    )  # before the first lookup: these processes never become the training
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    if rank == 0:
        require_writable(arguments.out)
        arguments.out.unlink(missing_ok=True)  # remove the verdict of an earlier run
    per_node = int(os.environ["LOCAL_WORLD_SIZE"])
    nodes, node_rank = int(os.environ["WORLD_SIZE"]) // per_node, rank // per_node
    store = _store()
    made = _bundle(arguments, nodes, per_node, store, rank)
    attempt = store.get("prelaunch/attempt").decode()
    folder = Path(tempfile.gettempdir()) / f"prelaunch-{made.gate_id}-{attempt}-{node_rank}"
    node_context = _meet(store, made, folder, node_rank, local)
    if local:
        _rank_only(store, node_context)
    else:
        _node(store, node_context, attempt, folder, arguments.out if rank == 0 else None)
    # A thread that is in a call of torch when Python ends its threads aborts the process, and torchrun then ends the other ranks.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _store() -> Store:
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    shared = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    first = os.environ["RANK"] == "0" and not shared
    store: Store = TCPStore(address, port, None, first, timedelta(seconds=STORE_S), wait_for_workers=False)
    return store


def _bundle(arguments: argparse.Namespace, nodes: int, per_node: int, store: Store, rank: int) -> Bundle:
    """One bundle for all ranks: the first rank makes it, so that every rank judges alike."""
    if rank == 0:
        store.set("prelaunch/attempt", uuid.uuid4().hex)
        # Everybody who can connect to torchrun's store can read it, because it is not authenticated (docs/exchange.md).
        store.set("prelaunch/key", secret_key.make().decode())
        store.set("prelaunch/bundle", _first_bundle(arguments, nodes, per_node).decode())
    made = bundles.load(store.get("prelaunch/bundle"))
    if made.declared.nodes != nodes or made.declared.ranks_per_node != per_node:
        declared = f"{made.declared.nodes} x {made.declared.ranks_per_node}"
        raise PlaceError(
            f"torchrun started {nodes} x {per_node} ranks, but {declared} are declared. Start torchrun with the declared numbers."
        )
    return made


def _first_bundle(arguments: argparse.Namespace, nodes: int, per_node: int) -> bytes:
    if arguments.bundle is not None:
        return bytes(arguments.bundle.read_bytes())
    implied = declare(arguments.instance_type, nodes, builtin())
    declared = replace(implied, ranks_per_node=per_node)
    rules = read_policy(arguments.policy, declared)
    gate_id = f"torchrun-{uuid.uuid4().hex[:8]}"
    return bundles.dump(bundles.make(gate_id, declared, Profile(arguments.profile), rules, builtin()))


def _meet(store: Store, made: Bundle, folder: Path, node_rank: int, local: int) -> NodeContext:
    """The roster, made from what the first rank of every node wrote to the store."""
    names = made.declared.node_names
    if local == 0:
        address = _own_address()
        name = names[node_rank] if names else f"{host_name()}-{node_rank}"
        store.set(
            f"prelaunch/member/{node_rank}", dump_plain(Member(name, address, free_port(address))).decode()
        )
        if node_rank == 0:
            store.set("prelaunch/rendezvous", str(free_port(address)))
    keys = [f"prelaunch/member/{index}" for index in range(made.declared.nodes)]
    members = tuple(decode(Member, parse_json(store.get(key), 4096)) for key in keys)
    roster = Roster(members, int(store.get("prelaunch/rendezvous")), os.environ.get("GLOO_SOCKET_IFNAME", ""))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = {"bundle.json": bundles.dump(made), "roster.json": dump_plain(roster)}
    if secret_key.VARIABLE not in os.environ:
        files[secret_key.FILE] = store.get("prelaunch/key")
    for name, data in files.items():
        write_whole(folder / name, data)
    return open_node_context(
        folder / "bundle.json", folder / "roster.json", members[node_rank].name, folder / "scratch"
    )


def _rank_only(store: Store, node_context: NodeContext) -> None:
    key = f"prelaunch/go/{node_context.node_rank}"
    store.wait([key], timedelta(seconds=STORE_S + node_context.bundle.network_s + NODE_CHECKS_S))
    go = store.get(key)
    if go == b"ok":
        _rank_checks(node_context)


def _rank_checks(node_context: NodeContext, leave: Callable[[], object] = lambda: os._exit(0)) -> None:
    rank = rank_process.rank_place(node_context.bundle.declared.gpus_per_node)
    file = rank_process.RankFile(node_context.scratch / "ranks" / f"rank-{rank.rank}.jsonl")
    rank_process.Session(node_context, rank, file, leave).run()


def _node(store: Store, node_context: NodeContext, attempt: str, folder: Path, out: Path | None) -> None:
    begun = now()
    responder = node_run.open_responder(node_context)
    try:
        stage = partial(_ranks_here, store)
        journal = node_run.run_beside(node_context, attempt, folder / "out", responder, stage)
        store.set(f"prelaunch/report/{node_context.node_rank}", journal.path.read_bytes().decode())
        if out is not None:
            _merged(store, node_context, attempt, begun, out)
        settle_alone(node_context.bundle.policy, journal.report)
        NodeBarrier(node_context, responder).linger(node_run.LINGER_S)
    finally:
        responder.close()
        secret_key.remove(folder / secret_key.FILE)


def _ranks_here(store: Store, node_context: NodeContext, keep: JournalWriter, why_not: str) -> str:
    """This process is local rank 0: its checks run in a thread while this one reads all ranks' files."""
    store.set(f"prelaunch/go/{node_context.node_rank}", why_not or "ok")
    if why_not:
        return why_not
    own = threading.Thread(target=_rank_checks, args=(node_context, lambda: None), daemon=True)
    own.start()
    per_node = node_context.bundle.declared.ranks_per_node
    mine = range(node_context.node_rank * per_node, (node_context.node_rank + 1) * per_node)
    deadline = time.monotonic() + node_context.bundle.stage_s
    while time.monotonic() < deadline and node_context.deadline.left_s() > 0:
        states = rank_stage.read(node_context.scratch / "ranks", mine, keep.opened)
        keep([row for state in states.values() for row in state.rows])
        silent = [r for r in mine if r not in states or not states[r].ended]
        if not silent:
            return ""
        if all(r in states and states[r].overdue(time.time()) for r in silent):
            return f"some ranks are frozen or hang: {silent}"
        time.sleep(0.1)
    if node_context.deadline.left_s() <= 0:
        keep(
            rank_stage.given_up(
                node_context, rank_stage.read(node_context.scratch / "ranks", mine, keep.opened)
            )
        )
        return f"the ranks did not finish before the deadline of {node_context.deadline.seconds:g} s"
    return f"the rank checks took longer than {node_context.bundle.stage_s:g} s"


def _merged(store: Store, node_context: NodeContext, attempt: str, begun: str, out: Path) -> None:
    files: dict[str, bytes] = {}
    for index, member in enumerate(node_context.roster.members):
        try:
            store.wait([f"prelaunch/report/{index}"], timedelta(seconds=node_context.bundle.network_s))
            files[member.name] = store.get(f"prelaunch/report/{index}")
        except RuntimeError as error:
            print(f"{member.name} left no report: {error}", file=sys.stderr)
    report = merge(node_context.bundle, attempt, files, begun)
    write_whole(out, dump(report))
    show(decide(report, node_context.bundle.policy, builtin()), "text")


def _own_address() -> str:
    """The address of this host on the route to the rendezvous."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
        return str(probe.getsockname()[0])
