"""Nodes that hold: one answer for all of them, or nobody starts. Over real sockets."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from checks.documents.answer import ANSWER, ASKING, AnswerWord, GateAnswer, dump_answer, load_answer
from checks.exchange.exchange import Responder
from checks.exit_codes import Exit
from checks.roster import Member, Roster
from checks.runner.barrier import NodeBarrier
from checks.runner.in_job.hold import Refusal, hold
from tests.checks.runner.test_barrier import board, node_contexts
from tests.exchanges import access
from tests.waiting import until

GATE, ATTEMPT, QUESTION = "board", "a-token", "ask: node-0: system.clock: it is not synchronised"
NO_APPROVAL = Refusal(Exit.NO_GO, f"no approval was given within 1 s: {QUESTION}")
Write = Callable[[int, bytes], None]


def answer(word: AnswerWord = AnswerWord.LAUNCH, attempt: str = ATTEMPT, at: str = "now") -> bytes:
    """What Ada says."""
    return dump_answer(GATE, attempt, word, "ada", "no spare node", at)


def held(folder: Path, says: Callable[[Write], None], ask_s: float = 4.0) -> list[GateAnswer | Refusal]:
    """What each of two nodes does once `says` ran, which writes answers to nodes that hold."""
    outs = [folder / f"out-{index}" for index in (0, 1)]

    def write(index: int, data: bytes) -> None:
        path = outs[index] / ATTEMPT / ANSWER
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".tmp").write_bytes(data)
        path.with_suffix(".tmp").replace(path)

    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        places = node_contexts(folder, network_s=2.0)
        boards = [stack.enter_context(board(node_context)) for node_context in places]
        ended = pool.map(lambda out, one: hold(GATE, ATTEMPT, out, one, ask_s, QUESTION), outs, boards)
        asking = [out / ATTEMPT / ASKING / f"node-{index}" for index, out in enumerate(outs)]
        until(lambda: all(path.exists() for path in asking))
        assert [f"{QUESTION}\n"] * 2 == [path.read_text() for path in asking]
        says(write)
        found = list(ended)
        assert [False, False] == [path.exists() for path in asking]
    return found


def test_nodes_that_hold_go_on_by_one_answer(tmp_path: Path) -> None:
    """Which both have seen, some moments apart."""

    def say(write: Write) -> None:
        write(1, answer())
        time.sleep(0.7)
        write(0, answer())

    found = held(tmp_path, say)

    assert [load_answer(answer(), GATE, ATTEMPT)] * 2 == found


def test_an_answer_that_is_given_twice_is_the_first_hosts(tmp_path: Path) -> None:
    """So that every host makes the same pass of it."""

    def say(write: Write) -> None:
        write(0, answer(at="earlier"))
        write(1, answer(at="later"))

    assert [load_answer(answer(at="earlier"), GATE, ATTEMPT)] * 2 == held(tmp_path, say)


@pytest.mark.parametrize("host", [0, 1])
def test_a_refusal_names_who_and_why(tmp_path: Path, host: int) -> None:
    """One host is told; the other one learns it from the first, and nobody is held up until the deadline."""
    found = held(tmp_path, lambda write: write(host, answer(AnswerWord.REFUSE)), ask_s=60.0)

    assert [Refusal(Exit.NO_GO, f"refused by ada: no spare node ({QUESTION})")] * 2 == found


def test_nodes_that_hold_refuse_without_an_answer_in_time(tmp_path: Path) -> None:
    """Silence launches nothing."""
    assert [NO_APPROVAL] * 2 == held(tmp_path, lambda write: None, ask_s=1.0)


def test_an_answer_to_another_attempt_starts_nothing(tmp_path: Path) -> None:
    """Nor a garbled one."""

    def say(write: Write) -> None:
        write(0, answer(attempt="an-earlier-start"))
        write(1, answer()[:40])

    assert [NO_APPROVAL] * 2 == held(tmp_path, say, ask_s=1.0)


def test_yes_here_and_no_there_is_no(tmp_path: Path) -> None:
    """The answer was changed while the hosts looked at it."""

    def say(write: Write) -> None:
        write(0, answer())
        write(1, answer(AnswerWord.REFUSE))

    assert [True, True] == [isinstance(one, Refusal) for one in held(tmp_path, say)]


def test_a_host_that_did_not_come_to_hold_is_not_waited_for(tmp_path: Path) -> None:
    """Nobody is asked about a start that cannot be."""
    first, second = node_contexts(tmp_path, network_s=0.5)
    with board(first) as one:
        found = hold(GATE, ATTEMPT, tmp_path, one, 60.0, QUESTION)

    assert isinstance(found, Refusal)
    assert (Exit.CANNOT_TELL, True) == (found.code, second.node in found.reason)
    assert not (tmp_path / ATTEMPT).exists()


def test_a_host_that_ends_while_all_hold_ends_it(tmp_path: Path) -> None:
    """Its gate answers no more: a launch could not reach all."""
    first, second = node_contexts(tmp_path, network_s=2.0)
    with board(first) as one, ThreadPoolExecutor(1) as pool:
        with board(second) as other:
            ended = pool.submit(hold, GATE, ATTEMPT, tmp_path, one, 60.0, QUESTION)
            assert "" == other.agree("asking", "")
        refusal = Refusal(Exit.CANNOT_TELL, "cannot_tell: node-1 no longer waits: its gate ended")
        assert refusal == ended.result()


def test_single_node_holds_without_peers(tmp_path: Path) -> None:
    """No peers, no barrier; the deadline is the same."""
    (tmp_path / ATTEMPT).mkdir()
    (tmp_path / ATTEMPT / ANSWER).write_bytes(answer())
    roster, own = Roster((Member("node-0", "127.0.0.1", 1),), 1, "lo"), access("node-0", GATE)
    alone = NodeBarrier(roster, own, 0.5, Responder(own, ""))

    assert load_answer(answer(), GATE, ATTEMPT) == hold(GATE, ATTEMPT, tmp_path, alone, 60.0, QUESTION)
