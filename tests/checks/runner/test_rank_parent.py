"""Ranks that are forks of one process: what they get, how they may end, and when torchrun starts them instead.

Most of these processes have a small folder in torch's place, so that they start fast.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from checks.facts.builtin import builtin
from checks.model import Declared
from checks.process import own_packages
from checks.process.tree import alive, end_tree, start_ticks
from checks.runner import rank_parent, rank_stage

ROOT = Path(__file__).resolve().parents[3]
ENOUGH_S = 60.0
STORE = """
class TCPStore:
    def __init__(self, *given): print("store", *given[:4], flush=True)
    def set(self, key, value): print("set", key, flush=True)
    def wait(self, keys): print("wait", *keys, flush=True)
"""
THREAD = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
TORCHRUN = "import os, sys\nprint('torchrun', os.getpid(), *sys.argv[1:], flush=True)\nsys.exit(7)\n"
# The process of rank_parent, whose ranks run BODY in the place of their checks.
DRIVER = """
import os, signal, sys, time
from checks.runner import rank_parent, rank_process
def main(argv):
    rank = int(os.environ["RANK"])
{body}
    return 0
rank_process.main = main
sys.exit(rank_parent.main(sys.argv[1:]))
"""

SAY = "os.write(1, f'rank {rank}\\n'.encode())"


@dataclass(frozen=True)
class Ended:
    """How rank_parent ended, and what it and its ranks printed."""

    code: int
    lines: list[str]

    def starting(self, word: str) -> list[str]:
        """The lines that begin with the word."""
        return [line for line in self.lines if line.startswith(word)]


def fake_torch(folder: Path, distributed: str = STORE, at_import: str = "") -> Path:
    """A folder for PYTHONPATH with a torch that imports at once."""
    package = folder / "fake" / "torch" / "distributed"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text(at_import)
    (package / "__init__.py").write_text(distributed)
    (package / "run.py").write_text(TORCHRUN)
    return folder / "fake"


def options(folder: Path, ranks: int = 2, nodes: int = 1, node_rank: int = 0, port: int = 1) -> list[str]:
    """torchrun's options and the command of a rank."""
    numbers = {"nnodes": nodes, "node-rank": node_rank, "nproc-per-node": ranks, "master-port": port}
    words = [word for name, value in numbers.items() for word in (f"--{name}", str(value))]
    words += ["--max-restarts", "0", "--master-addr", "127.0.0.1", "--log-dir", str(folder / "torchrun")]
    return [*words, *rank_parent.RANK, "BUNDLE", "ROSTER"]


def started(body: str, torch: Path | None, argv: list[str]) -> subprocess.Popen[str]:
    """A process of rank_parent whose ranks run the body (the lines of a function that knows `rank`)."""
    path = os.pathsep.join((str(ROOT), *([str(torch)] if torch else ())))
    code = DRIVER.format(body="\n".join(f"    {line}" for line in body.splitlines()))
    return subprocess.Popen(
        (sys.executable, "-c", code, *argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": ""},
        text=True,
        start_new_session=True,
    )


def run(body: str, torch: Path | None, argv: list[str]) -> Ended:
    """The same, until its end."""
    child = started(body, torch, argv)
    try:
        said = child.communicate(timeout=ENOUGH_S)[0]
    finally:
        end_tree(child.pid, 0.0)
    return Ended(child.returncode, said.splitlines())


def until(said: Callable[[], Any]) -> Any:
    """What it returns, once that is true."""
    deadline = time.monotonic() + ENOUGH_S
    while not (value := said()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
    return value


def declared(gpus: int = 0, ranks: int = 2, instance_type: str = "cpu") -> Declared:
    """One node."""
    return Declared(instance_type, 1, gpus, ranks)


@pytest.mark.parametrize(
    ("given", "environ", "forks"),
    [
        (declared(), {"OMP_NUM_THREADS": "1"}, True),
        (declared(), {}, True),  # torchrun's default for several ranks is one thread each
        (declared(ranks=1), {}, False),  # and it has none for one rank
        (declared(ranks=1), {"OMP_NUM_THREADS": "1"}, True),
        (declared(), {"OMP_NUM_THREADS": "4"}, False),
        (declared(gpus=2), {"OMP_NUM_THREADS": "1"}, False),
        (declared(instance_type="trn1.32xlarge"), {"OMP_NUM_THREADS": "1"}, False),
        (declared(instance_type="of-no-table"), {"OMP_NUM_THREADS": "1"}, True),
    ],
)
def test_ranks_are_forked_only_without_accelerators_and_with_one_thread(
    given: Declared, environ: dict[str, str], forks: bool
) -> None:
    """A driver does not survive a fork, and neither does a lock that another thread holds."""
    instance = builtin().instances.get(given.instance_type)

    assert forks == rank_stage.may_fork(given, instance, environ)


@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        (0, ("-u", *own_packages.module("checks.runner.rank_parent"))),
        (2, own_packages.module("torch.distributed.run")),
    ],
)
def test_torchrun_itself_starts_the_ranks_of_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: int, words: tuple[str, ...]
) -> None:
    """The options are the same. torchrun starts ranks with -u, so their parent has it here."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    node_context: Any = SimpleNamespace(
        bundle=SimpleNamespace(declared=declared(gpus)),
        roster=SimpleNamespace(members=(SimpleNamespace(address="127.0.0.1"),), rendezvous_port=1),
        node_rank=0,
        scratch=tmp_path,
    )
    argv = rank_stage.torchrun(node_context, (*rank_parent.RANK, "BUNDLE", "ROSTER"))

    assert words == argv[1 : len(words) + 1]
    assert vars(rank_parent._parser().parse_args(options(tmp_path))) == vars(
        rank_parent._parser().parse_args(argv[len(words) + 1 :])
    )


def test_a_process_with_a_second_thread_does_not_fork() -> None:
    """Also if Python does not know of the thread."""
    assert "" == rank_parent.why_not_with(1)
    assert "the process that imported torch has 2 threads" == rank_parent.why_not_with(2)


TELL = """
import json
path = f"/proc/{os.getpid()}/fd"
kept = sorted(name for name in map(os.readlink, [f"{path}/{n}" for n in os.listdir(path) if n not in "012"
    and os.path.lexists(f"{path}/{n}")]) if not name.startswith("/proc"))
told = {"environment": dict(os.environ), "leads": os.getsid(0) == os.getpid(), "folder": os.getcwd(),
    "argv": sys.argv, "files": kept, "threads": len(os.listdir("/proc/self/task")),
    "ignored": [n for n in range(1, 32) if signal.getsignal(n) is signal.SIG_IGN]}
open(os.environ["TOLD"] + os.environ["RANK"], "w").write(json.dumps(told))
"""


def test_a_rank_is_a_process_as_torchrun_starts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a session and its number, no other open file, one thread, and the signals of a new process, also in a shell's background
    job, which ignores SIGQUIT.
    """
    monkeypatch.setenv("TOLD", str(tmp_path / "rank"))
    before = signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    try:
        ended = run(TELL, fake_torch(tmp_path), options(tmp_path))
    finally:
        signal.signal(signal.SIGQUIT, before)

    assert 0 == ended.code, ended.lines
    for rank in (0, 1):
        told = json.loads((tmp_path / f"rank{rank}").read_text())
        added = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
        assert added == {name: told["environment"][name] for name in added}
        assert (True, [], 1) == (told["leads"], told["files"], told["threads"])
        assert ["BUNDLE", "ROSTER"] == told["argv"][1:]
        assert signal.SIGQUIT not in told["ignored"]


@pytest.mark.parametrize("node_rank", [0, 1])
def test_no_rank_begins_before_the_store_is_there(tmp_path: Path, node_rank: int) -> None:
    """The store is made after the forks, and the first node keeps it until every node has ended. The others do not wait."""
    ended = run(SAY, fake_torch(tmp_path), options(tmp_path, nodes=2, node_rank=node_rank))
    end = ["set ended/0", "wait ended/0 ended/1"] if node_rank == 0 else ["set ended/1"]

    assert 0 == ended.code
    assert ended.lines[0] == f"store 127.0.0.1 1 2 {node_rank == 0}"
    assert [f"rank {2 * node_rank}", f"rank {2 * node_rank + 1}"] == sorted(ended.lines[1:3])
    assert end == ended.lines[3:]


def test_a_rank_that_fails_is_named_and_the_others_continue(tmp_path: Path) -> None:
    """What the others observe is evidence; torchrun would end them after 30 s."""
    body = (
        "if rank == 0: os.kill(os.getpid(), signal.SIGKILL)\n"
        "if rank == 1: sys.exit(3)\n"
        "if rank == 2: raise ZeroDivisionError('deliberate')\n"
        "time.sleep(0.3)\nos.write(1, b'rank 3 is done\\n')"
    )
    ended = run(body, fake_torch(tmp_path), options(tmp_path, ranks=4))
    named = sorted(re.sub(r" \(process \d+\)", "", line) for line in ended.starting("checks:"))

    assert (1, ["rank 3 is done"], []) == (ended.code, ended.starting("rank"), ended.starting("wait"))
    assert [
        "checks: rank 0 was ended by SIGKILL (out of memory, or somebody ended it)",
        "checks: rank 1 ended with exit code 3",
        "checks: rank 2 ended with exit code 1",
    ] == named
    assert "ZeroDivisionError: deliberate" in ended.lines


PIDS = "open(os.environ['TOLD'] + str(rank), 'w').write(str(os.getpid()))\n"
HANG = PIDS + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(300)"


def ranks_of(folder: Path) -> list[tuple[int, int | None]]:
    """The two ranks that have written their numbers: number and start."""
    found = [folder / f"pid{rank}" for rank in (0, 1)]
    if not all(path.exists() and path.read_text() for path in found):
        return []
    return [(pid, start_ticks(pid)) for pid in (int(path.read_text()) for path in found)]


def test_no_rank_outlives_the_process_that_forked_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even one that ignores SIGTERM in a session of its own."""
    monkeypatch.setenv("TOLD", str(tmp_path / "pid"))
    child = started(HANG, fake_torch(tmp_path), options(tmp_path))
    ranks = until(lambda: ranks_of(tmp_path))
    child.kill()
    child.communicate(timeout=ENOUGH_S)

    until(lambda: not any(alive(pid, ticks) for pid, ticks in ranks))


def test_a_store_that_cannot_be_made_ends_the_ranks(tmp_path: Path) -> None:
    """The port is in use, say: no rank begins, and the exit code says so."""
    store = "class TCPStore:\n    def __init__(self, *given): raise RuntimeError('EADDRINUSE')\n"
    ended = run("print('rank began', flush=True)", fake_torch(tmp_path, store), options(tmp_path))

    assert (1, []) == (ended.code, ended.starting("rank"))
    assert "RuntimeError: EADDRINUSE" in ended.lines


@pytest.mark.parametrize(
    ("distributed", "at_import", "reason"),
    [
        (STORE, THREAD, "the process that imported torch has 2 threads"),
        ("", "", "torch cannot be imported: ImportError"),
        (STORE, "raise OSError('libtorch is damaged')", "torch cannot be imported: OSError"),
    ],
)
def test_where_it_cannot_fork_the_process_becomes_torchrun(
    tmp_path: Path, distributed: str, at_import: str, reason: str
) -> None:
    """It keeps its number, so that its end is still its parent's to decide, and gets the same options."""
    torch = fake_torch(tmp_path, distributed, at_import)
    argv = options(tmp_path)
    if "damaged" in at_import:  # torchrun itself would not start either, as without rank_parent
        ended = run("print('rank began')", torch, argv)
        assert 1 == ended.code
    else:
        child = started("print('rank began')", torch, argv)
        said = child.communicate(timeout=ENOUGH_S)[0].splitlines()
        ended = Ended(child.returncode, said)
        assert (7, f"torchrun {child.pid} {' '.join(argv)}") == (ended.code, said[-1])
    assert f"checks: torchrun starts the ranks, because {reason}" in ended.lines[0]
