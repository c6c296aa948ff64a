"""The ranks of a small job, each in its namespace: they run the tournament each time they are asked to. Run by tests.

argv: FOLDER NETWORK NODES ADDRESS PORT (of rank 0). One process imports torch and forks the ranks, so that a job of eight is there
in seconds. They wait for FOLDER/go-0, go-1, ...; row k of rank r goes to
FOLDER/row-k-r.json; FOLDER/stop ends them, and so does the end of the first process.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from checks.catalog import CATALOG
from checks.check import Context, RankPlace
from checks.documents.report import plain
from checks.facts import profile_options
from checks.model import Declared, Profile, rank_subject
from checks.process.observe import probe
from checks.process.tree import die_with_parent
from checks.roster import Member, Roster
from tests.exchanges import access
from tests.survival.world import LOCAL

PAIRS = "collective.pairs"
CLONE_NEWNET = 0x40000000


def main(folder: Path, network: str, nodes: int, address: str, port: str) -> None:
    """Fork the ranks, and wait for their end."""
    import torch.distributed  # noqa: F401 - once, before the forks

    pids = []
    for rank in range(nodes):
        pid = os.fork()
        if not pid:
            die_with_parent()
            _enter(f"{network}-{rank}")
            _rank(folder, rank, nodes, address, port)
            os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)


def _enter(namespace: str) -> None:
    """This process's network is that of the namespace (os.setns needs Python 3.12)."""
    with open(f"/run/netns/{namespace}", "rb") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {namespace}")


def _rank(folder: Path, rank: int, nodes: int, address: str, port: str) -> None:
    """Join, then a tournament a request."""
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR=address, MASTER_PORT=port, RANK=str(rank), WORLD_SIZE=str(nodes))
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    store: Any = dist.distributed_c10d._get_default_store()
    connection = store.clone()
    dist.barrier()
    (check,) = (one for one in CATALOG if one.name == PAIRS)
    names = tuple(f"node-{index}" for index in range(nodes))
    options = profile_options.options(PAIRS, Profile.QUICK, LOCAL.checks[PAIRS].options)
    own, declared = access(names[rank]), Declared("cpu", nodes, 0, 1, names)
    roster = Roster(tuple(Member(name, address, 1) for name in names), int(port), "eth0")
    about = (own, "", declared, Profile.QUICK, names[rank], rank, roster, folder, check.timeout_s, options)
    context = Context(*about, RankPlace(rank, 0, nodes, "cpu"), store=connection)
    turn = 0
    while not (folder / "stop").exists():
        if not (folder / f"go-{turn}").exists():
            time.sleep(0.02)
            continue
        row = probe(check, context, rank_subject(names[rank], rank))
        written = folder / f"row-{turn}-{rank}.tmp"
        written.write_text(json.dumps(plain(row)))
        written.rename(folder / f"row-{turn}-{rank}.json")
        turn += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5])
