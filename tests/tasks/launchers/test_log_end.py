"""What the log of a node says of the end of its command. The tables are as torchrun of torch 2.13 prints them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.launchers.log_end import MOST_RANKS, NodeLog, cause_of, node_log, rank_ends

HEAD = "E1127 01:46:54.844000 22907 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 0\n"
RULE = "-" * 60
NONE = "<NO_OTHER_FAILURES>"
NOTICE = (
    "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded, "
    "please further tune the variable for optimal performance in your application as needed. "
)


def entry(rank: int, code: str) -> str:
    """One rank of the table."""
    return (
        f"[{rank}]:\n  time      : 2026-11-27_01:46:54\n  host      : localhost\n  rank      : {rank} (local_rank: {rank})\n"
        f"  exitcode  : {code}\n  error_file: <N/A>\n  traceback : To enable traceback see: https://pytorch.org\n"
    )


def table(*failures: str, root: str) -> str:
    """The ranks that failed later, and the one that failed first."""
    return f"{HEAD}t.py FAILED\n{RULE}\nFailures:\n{''.join(failures)}{RULE}\nRoot Cause (first observed failure):\n{root}"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("", ""),
        ("one\ntwo\n\n", "two"),
        ("one\n=====\n", "one"),
        ("E torch/distributed/elastic failed\nthe end\n", "the end"),
        ("my rank : 3 apples\n", "my rank : 3 apples"),
        (
            "no loss\n" + table(entry(0, "1 (pid: 22913) "), root=entry(1, "7 (pid: 22914) ")),
            "no loss; rank 0 ended with exit code 1; rank 1 ended first, with exit code 7",
        ),
        (
            "step 1\n" + table(entry(1, "-9 (pid: 12)  (SIGKILL)"), root=entry(0, "-11 (pid: 11)")),
            "step 1; rank 0 was ended first by signal 11; rank 1 was ended by SIGKILL",
        ),
        (f"{NONE}\n" + table(root=entry(3, "1 (pid: 5)")), f"{NONE}; rank 3 ended first, with exit code 1"),
        ("mine\nE torch/distributed/elastic failed\nexitcode  : 7\n", "mine; a rank ended with exit code 7"),
        # torchrun prints it before anything runs, with and without the mark of a log line.
        (f"{NOTICE}\n" + table(root=entry(0, "7 (pid: 5)")), "rank 0 ended first, with exit code 7"),
        (f"mine\nW1127 11:36:26 9 torch/distributed/run.py:852] {NOTICE}\n", "mine"),
    ],
)
def test_the_end_of_a_log(log: str, expected: str) -> None:
    """The command's own last line, and one end for each rank, in the order of the ranks."""
    assert expected == node_log("a", log).last


def test_log_end_names_a_few_of_many_failed_ranks() -> None:
    """The first that failed is among them, and the others are counted."""
    log = table(*(entry(rank, "1 (pid: 1)") for rank in range(63)), root=entry(63, "7 (pid: 1)"))
    said = node_log("a", log).last

    assert len(rank_ends(log)) == 64 and said.count("with exit code") == MOST_RANKS
    assert said.endswith(f"rank 63 ended first, with exit code 7; {64 - MOST_RANKS} more ranks failed")


RECORDED = Path(__file__).parents[2] / "recordings/torchrun"


def read(name: str) -> list[NodeLog]:
    """The logs of both nodes of a recorded training."""
    texts = {node: (RECORDED / f"{name}.{node}.txt").read_text("utf-8") for node in ("node-0", "node-1")}
    return [node_log(node, text) for node, text in texts.items()]


def test_the_rank_with_an_error_of_its_own_is_the_cause() -> None:
    """Rank 1 raised an error; the other three lost their connections to it, and one of them stands last in the first log."""
    cause = "node-0, rank 1: RuntimeError: my loss exploded; rank 1 ended first, with exit code 1"
    assert cause == cause_of(read("raised")).text == cause_of(read("raised")[::-1]).text


def test_a_victim_that_aborted_is_not_the_cause() -> None:
    """Rank 3 of the second node raised the error; on the first node a rank lost its connection, and aborted for that."""
    cause = "node-1, rank 3: RuntimeError: my loss exploded; rank 3 ended first, with exit code 1"
    assert cause == cause_of(read("victims_abort")).text


def raised(error: str, rank: int | None = None) -> str:
    """What a rank prints of an error; before it is in a process group, it names no rank."""
    mark = "" if rank is None else f"[rank{rank}]: "
    return f"{mark}Traceback (most recent call last):\n{mark}  x()\n{mark}{error}\n"


FIRST = table(root=entry(0, "1 (pid: 3) "))
KILLED = table(root=entry(1, "-9 (pid: 12)  (SIGKILL)"))
LOST = raised("RuntimeError: Connection closed by peer", 0)
CLOSED = "Failed to recv, got 0 bytes. Connection was likely closed."
STORE = raised(f"torch.distributed.DistNetworkError: {CLOSED}")
KEY = "KeyError: 'x'"
CHILD = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"
HANDLING = "\nDuring handling of the above exception, another exception occurred:\n\n"
BOTH = table(entry(0, "1 (pid: 1)"), root=entry(1, "1 (pid: 2)"))


@pytest.mark.parametrize(
    ("logs", "expected", "node"),
    [
        ([], "", ""),
        ([("a", "")], "", ""),
        ([("a", "no loss\n"), ("b", "other\n")], "a: no loss", ""),
        ([("a", ""), ("b", "other\n")], "b: other", "b"),
        # Nobody prints a line for SIGKILL; the ranks that talked to it do.
        ([("a", LOST + FIRST), ("b", KILLED)], "b: rank 1 was ended first by SIGKILL", "b"),
        ([("a", LOST + KILLED), ("b", LOST)], "a: rank 1 was ended first by SIGKILL", "a"),
        ([("a", KILLED), ("b", KILLED)], "a: rank 1 was ended first by SIGKILL", ""),
        ([("a", "step 8\n" + KILLED)], "a: step 8; rank 1 was ended first by SIGKILL", "a"),
        ([("a", LOST), ("b", LOST)], "a: [rank0]: RuntimeError: Connection closed by peer", ""),
        ([("a", LOST), ("b", raised("KeyError: 'x'"))], "b: KeyError: 'x'", "b"),
        ([("a", LOST), ("b", raised("KeyError: 'x'", 7))], "b, rank 7: KeyError: 'x'", "b"),
        ([("a", raised(KEY, 0)), ("b", raised(KEY, 7))], "a, rank 0: KeyError: 'x'", ""),
        # What torchrun prints of its own end is no error of a rank, and neither is a store that the other node closed.
        ([("a", HEAD + raised(CHILD))], f"a: {CHILD}", "a"),
        ([("a", STORE), ("b", "Fault\n" + KILLED)], "b: Fault; rank 1 was ended first by SIGKILL", "b"),
        # The error that ended a rank, not the one that it was handling.
        ([("a", raised("KeyError: 'x'") + HANDLING + raised("KeyError: 'y'"))], "a: KeyError: 'y'", "a"),
        # Both have one: that of the rank which ended first counts.
        (
            [("a", raised("KeyError: 'y'", 0) + raised("KeyError: 'x'", 1) + BOTH)],
            "a, rank 1: KeyError: 'x'; rank 0 ended with exit code 1; rank 1 ended first, with exit code 1",
            "a",
        ),
    ],
)
def test_the_log_that_says_most(logs: list[tuple[str, str]], expected: str, node: str) -> None:
    """An error of its own, then a rank that was killed, then the first log. A script that is missing on every node is the fault of
    none of them.
    """
    found = cause_of([node_log(name, log) for name, log in logs])

    assert (expected, node) == (found.text, found.node)


def test_the_cause_is_said_without_the_other_ranks() -> None:
    """It is the first line that people read; how the others ended follows."""
    table_of = table(entry(1, "7 (pid: 2)"), root=entry(0, "7 (pid: 1)"))
    found = cause_of([node_log("a", table_of)])

    assert found.cause == "a: rank 0 ended first, with exit code 7"
    assert found.ends == ("rank 1 ended with exit code 7",)
    error = cause_of([node_log("a", raised("KeyError: 'x'", 0) + table_of)])
    assert (error.cause, len(error.ends)) == ("a, rank 0: KeyError: 'x'", 2)
