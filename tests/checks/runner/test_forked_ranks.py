"""Ranks that are forks of one process: when they are, what they get, and how they may end. Real ones: tests/survival/test_ranks.py."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from checks import bundle as bundles
from checks.exchange.exchange import Responder
from checks.facts.builtin import builtin
from checks.model import Declared, Profile
from checks.process.fork_server import ForkServer
from checks.runner import rank_process, rank_stage
from checks.runner.barrier import NodeBarrier
from checks.runner.node_context import NodeContext
from checks.runner.node_run import barrier_of
from tests.checks.local_policy import local_policy, lone_node


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
    ("threads", "store", "reason"),
    [
        (2, object, "the process that imported torch has 2 threads"),
        (1, None, "torch cannot be imported: ImportError"),
    ],
)
def test_a_process_that_cannot_be_forked_says_why_and_ends(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    threads: int,
    store: object,
    reason: str,
) -> None:
    """Also if Python does not know of the thread."""
    torch = ModuleType("torch.distributed")
    if store:
        monkeypatch.setattr(torch, "TCPStore", store, raising=False)
    monkeypatch.setitem(sys.modules, "torch.distributed", torch)
    monkeypatch.setattr(rank_process, "thread_count", lambda: threads)
    with pytest.raises(SystemExit):
        rank_process.prepare("2")

    assert f"checks: torchrun starts the ranks, because {reason}" in capsys.readouterr().err


@pytest.fixture
def node_context(tmp_path: Path) -> NodeContext:
    """The only node of a gate, with two ranks."""
    of_two = Declared("cpu", 1, 0, 2, ("node-0",))
    return lone_node(tmp_path, bundles.make("forks", of_two, Profile.QUICK, local_policy(), builtin()))


def test_a_rank_gets_the_environment_that_torchrun_gives(node_context: NodeContext) -> None:
    """As far as PyTorch reads it: each rank its number, and all of them one store that none of them keeps."""
    first, second = (rank_process.environment(node_context, local) for local in (0, 1))

    assert {"RANK": "1", "LOCAL_RANK": "1"} == dict(second.items() - first.items())
    assert ("2", "127.0.0.1", "2000") == (first["WORLD_SIZE"], first["MASTER_ADDR"], first["MASTER_PORT"])
    assert "True" == first["TORCHELASTIC_USE_AGENT_STORE"]


def staged(
    node_context: NodeContext, monkeypatch: pytest.MonkeyPatch, fork: Callable[..., Any], may: bool = True
) -> tuple[str, list[tuple[str, ...]]]:
    """What the stage says where the server forks so, and the words of each fork and wait; torchrun ends with 7."""
    words = list[tuple[str, ...]]()

    def noted(server: ForkServer, given: tuple[str, ...], timeout_s: float) -> Any:
        words.append(given)
        return fork()

    monkeypatch.setattr(rank_stage, "may_fork", lambda *given: may)
    monkeypatch.setattr(ForkServer, "__init__", lambda server, *given, **named: None)
    monkeypatch.setattr(ForkServer, "close", lambda server: None)
    monkeypatch.setattr(ForkServer, "fork", noted)
    monkeypatch.setattr(NodeBarrier, "get_all", lambda barrier, keys, until: words.append((*keys,)))
    monkeypatch.setattr(rank_stage, "torchrun", lambda *given: ("sh", "-c", "exit 7"))
    keep: Any = type("Keep", (), {"opened": 0.0, "__call__": lambda self, rows: None})()
    barrier = barrier_of(node_context, Responder(node_context.access, ""))
    try:
        return rank_stage.run_stage(node_context, keep, barrier), words
    except rank_stage.RanksNotReached as error:
        return str(error), words


def forked(*argv: str) -> subprocess.Popen[bytes]:
    """A process in the place of a fork."""
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, stdout=pipe, stderr=subprocess.STDOUT, start_new_session=True)


def ended() -> subprocess.Popen[bytes]:
    """A process that is killed at once."""
    return forked("sh", "-c", "kill -9 $$")


def refused() -> None:
    """As of a server that has ended."""
    raise BrokenPipeError("nothing answers")


def late() -> None:
    """As of a server that still imports."""
    raise TimeoutError


def test_ranks_that_end_early_are_named(
    node_context: NodeContext, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The store is there before them, until the ranks of every node have ended, and no rank of one is waited for."""
    said, [store, *others] = staged(node_context, monkeypatch, ended)
    logged = capsys.readouterr().err.splitlines()

    killed = "rank 0 was ended by SIGKILL (out of memory, or somebody ended it)"
    assert f"the rank checks did not start: {killed}" == said
    assert ("--store", "127.0.0.1", "2000") == store
    assert ["0", "1", "ranked/node-0"] == [word[-1] for word in others]
    assert ["rank 0", "rank 1"] == [line.removeprefix("checks: ").partition(" (")[0] for line in logged]


def test_rank_stage_ends_forked_ranks_when_a_later_fork_fails(
    node_context: NodeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is started beside them: two processes would write the file of one rank, and a healthy machine would look broken."""
    started = list[subprocess.Popen[bytes]]()

    def fork() -> Any:
        if len(started) == 2:  # the store and the first rank
            refused()
        started.append(forked("sleep", "60"))
        return started[-1]

    said = staged(node_context, monkeypatch, fork)[0]

    assert said == "the rank checks did not start: rank 1 could not be forked: nothing answers"
    assert [-9, -9] == [child.poll() for child in started]


def test_rank_stage_uses_torchrun_when_no_rank_can_be_forked(
    node_context: NodeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the reason is, which its process has said, or another node's; what is late is not started twice."""
    started = "the rank checks did not start: the process that starts the ranks ended with exit code 7"

    assert started == staged(node_context, monkeypatch, refused)[0]
    assert (started, []) == staged(node_context, monkeypatch, ended, may=False)
    with monkeypatch.context() as beside:
        beside.setattr(NodeBarrier, "agree", lambda *given: rank_stage.TORCHRUN)
        assert started == staged(node_context, beside, ended)[0]
    monkeypatch.setattr(rank_stage, "STARTUP_S", -1.0)

    assert "the rank checks: 2 ranks did not start within -1 s" == staged(node_context, monkeypatch, late)[0]
