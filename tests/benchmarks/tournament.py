"""What the tournament costs inside a running job: `python tests/benchmarks/tournament.py`. JSON on stdout, about a minute.

Real torchrun on this machine, gloo over loopback, each rank a node of its own: 16 ranks are 15 rounds and 120 pairs.
Seconds are of the slowest rank, from the moment that all ranks were there until its row was made: medians over the runs.
`planned_s` is of the 15 rounds, `total_s` with what was measured again, `cpu_s` what all ranks took of the processors: where
other programs run, that is what can be compared. `failures` are those of all runs: 0 where all
ranks are well. `--profile` takes the check's numbers as shipped for that profile, `--nodes` and `--ranks` other worlds.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RUNS = 5
TIMES = ("planned_s", "total_s", "cpu_s")
LOAD = re.compile(r"in ([0-9.]+) s, \d+ planned in ([0-9.]+) s")


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--nodes", type=int, default=16)
    asked.add_argument("--ranks", type=int, default=1, help="of each node")
    asked.add_argument("--runs", type=int, default=RUNS)
    asked.add_argument("--profile", default="quick", choices=("quick", "standard", "deep"))
    asked.add_argument("--option", action="append", default=[], metavar="NAME=NUMBER")
    asked.add_argument("--rank-into", default="", help=argparse.SUPPRESS)
    chosen = asked.parse_args(argv)
    if chosen.rank_into:
        _rank(chosen)
    made = [_summary(run(argv, chosen.nodes * chosen.ranks)) for _ in range(chosen.runs)]
    medians = {key: round(statistics.median(one[key] for one in made), 3) for key in TIMES}
    counts = {key: made[0][key] for key in ("ranks", "pairs")}
    failures = sum(one["failures"] for one in made)
    print(json.dumps({**counts, "runs": chosen.runs, **medians, "failures": failures}, indent=2))
    return 0


def run(argv: Sequence[str], ranks: int) -> list[Mapping[str, Any]]:
    """One job under torchrun: the row of each rank."""
    with tempfile.TemporaryDirectory() as folder:
        command = (
            sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--nproc-per-node", str(ranks),
            "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", __file__, *argv, "--rank-into", folder,
        )  # fmt: skip
        env = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        return [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(ranks)]


def _summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    spent = [LOAD.search(row["evidence"]) for row in rows]
    pairs = {tuple(sorted((rank, peer))) for rank, row in enumerate(rows) for peer in row["peers"]}
    return {
        "ranks": len(rows),
        "pairs": len(pairs),
        "planned_s": max(float(found[2]) for found in spent if found),
        "total_s": max(row["seconds"] for row in rows),
        "cpu_s": sum(row["cpu_s"] for row in rows),
        "failures": sum(why != "ok" for row in rows for why in row["failures"]),
    }


def _rank(chosen: argparse.Namespace) -> None:
    """One rank's life."""
    import torch
    import torch.distributed as dist

    from checks.check import Context, Measurement, RankPlace
    from checks.facts.profile_options import options
    from checks.model import Declared, Profile
    from checks.probes.pairs import pairs
    from checks.roster import Roster
    from tests.exchanges import access

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    store: Any = dist.distributed_c10d._get_default_store()
    profile = Profile(chosen.profile)
    asked = {name: float(number) for name, _, number in (o.partition("=") for o in chosen.option)}
    context = Context(
        access=access(),
        catalogue="",
        declared=Declared("cpu", chosen.nodes, 0, chosen.ranks),
        profile=profile,
        node=f"node-{rank // chosen.ranks}",
        node_rank=rank // chosen.ranks,
        roster=Roster((), 1, ""),
        scratch=Path(chosen.rank_into),
        timeout_s=120.0,
        options=options("collective.pairs", profile, asked),
        place=RankPlace(rank, rank % chosen.ranks, world, "cpu"),
        store=store.clone(),
    )
    dist.all_reduce(torch.ones(1))  # everybody is there
    begun, before = time.monotonic(), time.process_time()
    result = pairs.collective_pairs.body(context)
    assert isinstance(result, Measurement)
    seconds = time.monotonic() - begun
    row = {**result.metrics, "evidence": result.evidence, "seconds": seconds}
    row["cpu_s"] = time.process_time() - before
    (Path(chosen.rank_into) / f"{rank}.json").write_text(json.dumps(row))
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
