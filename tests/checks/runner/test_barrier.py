"""Barriers between nodes, over real sockets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from checks import bundle as bundles
from checks.documents.report import dump_plain
from checks.exchange import admission, secret_key
from checks.exchange.authentication import ExchangeSession
from checks.exchange.exchange import Responder
from checks.process.free_ports import free_port
from checks.roster import Member, Roster
from checks.runner import barrier
from checks.runner.barrier import NodeBarrier
from checks.runner.node_context import NodeContext, open_node_context
from checks.runner.node_run import barrier_of
from tests.survival.world import World


def node_contexts(folder: Path, network_s: float, nodes: int = 2) -> list[NodeContext]:
    """The nodes of one gate on loopback."""
    bundle = World(nodes, 1, network_s=network_s).bundle("board")
    members = tuple(Member(name, "127.0.0.1", free_port()) for name in bundle.declared.node_names)
    (folder / "bundle.json").write_bytes(bundles.dump(bundle))
    (folder / "exchange.key").write_bytes(secret_key.make())
    (folder / "roster.json").write_bytes(dump_plain(Roster(members, free_port(), "lo")))
    files = (folder / "bundle.json", folder / "roster.json")
    return [open_node_context(*files, member.name, folder / member.name) for member in members]


@contextmanager
def board(node_context: NodeContext, delay_s: float = 0.0) -> Iterator[NodeBarrier]:
    """A node's board; its responder starts after a delay."""
    responder = Responder(node_context.access, node_context.bundle.catalogue)
    member = node_context.roster.members[node_context.node_rank]
    starter = threading.Timer(delay_s, responder.listen, (member.address, member.probe_port))
    starter.start()
    try:
        yield barrier_of(node_context, responder)
    finally:
        starter.join()
        responder.close()


def meet(boards: Sequence[NodeBarrier], objections: Sequence[str] = ()) -> list[str]:
    """What each node concludes at the barrier."""
    given = objections or [""] * len(boards)
    with ThreadPoolExecutor(len(boards)) as pool:
        return list(pool.map(lambda one, objection: one.agree("here", objection), boards, given))


def test_a_first_node_that_starts_later_is_waited_for(tmp_path: Path) -> None:
    """Nodes never start at one moment."""
    zero, one = node_contexts(tmp_path, 5)
    with board(zero, delay_s=1.0) as first, board(one) as second:
        assert ["", ""] == meet([first, second])


def test_an_objection_is_heard_by_all_at_once(tmp_path: Path) -> None:
    """Who does not object does not wait for the deadline."""
    zero, one = node_contexts(tmp_path, 600)
    with board(zero) as first, board(one) as second:
        assert ["no", "no"] == meet([first, second], ("", "no"))


def test_a_first_node_that_does_not_come_is_named(tmp_path: Path) -> None:
    """It holds the board, so there is none."""
    _, one = node_contexts(tmp_path, 0.5)
    with board(one) as second:
        assert "cannot reach node-0" in second.agree("here", "")


def test_a_node_that_is_still_at_its_checks_is_waited_for(tmp_path: Path) -> None:
    """It answers, so it is not missing: a diagnostic takes minutes longer on one node than on another."""
    zero, one = node_contexts(tmp_path, 0.6)

    def arrive(made: NodeBarrier, after_s: float) -> str:
        time.sleep(after_s)
        return made.agree("here", "", patience_s=20.0)

    with board(zero) as first, board(one) as second, ThreadPoolExecutor(2) as pool:
        assert ["", ""] == list(pool.map(arrive, (first, second), (0.0, 2.5)))


def test_a_node_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    """However long its checks may take: its runner is gone."""
    zero, _ = node_contexts(tmp_path, 0.6)
    with board(zero) as first:
        said = first.agree("here", "", patience_s=600.0)

    assert "node-1 did not reach the barrier 'here' in time" in said


def test_more_nodes_meet_than_the_first_one_has_connections_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that wait leave room for those that arrive: a limit of 1,024 open files leaves 512 connections."""
    monkeypatch.setattr(admission, "_descriptors", lambda: 24)
    with ExitStack() as stack:
        boards = [stack.enter_context(board(one)) for one in node_contexts(tmp_path, 20, 30)]
        assert [""] * 30 == meet(boards)


def test_many_nodes_ask_for_the_notes_of_all_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request for each note of each node is a million of them where a thousand nodes meet, and takes longer than anybody waits."""
    nodes, asked = 12, list[str]()
    whole = Responder._serve

    def counted(self: Responder, link: socket.socket, session: ExchangeSession) -> None:
        asked.append(session.op.name)
        whole(self, link, session)

    monkeypatch.setattr(Responder, "_serve", counted)
    with ExitStack() as stack, ThreadPoolExecutor(nodes) as pool:
        boards = [stack.enter_context(board(one)) for one in node_contexts(tmp_path, 20, nodes)]
        assert [""] * nodes == meet(boards)
        list(pool.map(lambda one: one.linger(5.0), boards))

    assert len(asked) < 8 * nodes


def test_a_node_that_came_is_not_late_because_the_first_one_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first node said before it fell silent stays known: the node that did not come is named."""
    _, one, _ = node_contexts(tmp_path, 0.5, 3)
    answers = iter([["ok", "ok", None], [None, None, None]])
    with board(one) as second:
        monkeypatch.setattr(second, "put", lambda *_: "")
        monkeypatch.setattr(second, "get_all", lambda *_: next(answers, [None] * 3))
        asked: list[str] = []

        def answers_twice(member: Member, patience_s: float, last: float) -> bool:
            asked.append(member.name)
            return len(asked) < 3

        monkeypatch.setattr(second, "_answers", answers_twice)
        said = second.agree("here", "", patience_s=20.0)

    assert "node-2 did not reach the barrier 'here' in time" == said
    assert {"node-2"} == set(asked)


@pytest.mark.parametrize(
    ("node_rank", "keys", "requests"),
    [(0, (), 0), (1, (), 0), (0, ("here/node-0",), 0), (1, ("here/node-0",), 1)],
    ids=["first, nothing", "other, nothing", "first, one note", "other, one note"],
)
def test_a_node_asks_only_for_what_it_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node_rank: int, keys: tuple[str, ...], requests: int
) -> None:
    """With nothing to wait for nobody is asked: the first node has left by then, and would be asked until the deadline."""
    asked: list[object] = []

    def answer(member: Member, access: object, keys: Sequence[str], *times: object) -> list[str | None]:
        asked.append(keys)
        return ["ok"] * len(keys)

    monkeypatch.setattr(barrier, "ask_notes", answer)
    with board(node_contexts(tmp_path, 0.5)[node_rank]) as made:
        made.responder.put("here/node-0", "ok")
        found = made.get_all(keys, time.monotonic() + 20.0)

    assert (["ok"] * len(keys), requests) == (found, len(asked))
