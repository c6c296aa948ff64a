"""What the log of a node says of the end of its command. The tables are as torchrun of torch 2.13 prints them."""

from __future__ import annotations

import pytest

from tasks.launchers.log_end import MOST_RANKS, last_log_line, rank_ends

HEAD = "E1127 01:46:54.844000 22907 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 0\n"
RULE = "-" * 60


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
        (
            "<NO_OTHER_FAILURES>\n" + table(root=entry(3, "1 (pid: 5)")),
            "<NO_OTHER_FAILURES>; rank 3 ended first, with exit code 1",
        ),
        ("mine\nE torch/distributed/elastic failed\nexitcode  : 7\n", "mine; a rank ended with exit code 7"),
    ],
)
def test_the_end_of_a_log(log: str, expected: str) -> None:
    """The command's own last line, and one end for each rank, in the order of the ranks."""
    assert expected == last_log_line(log)


def test_of_many_ranks_a_few_are_named() -> None:
    """The first that failed is among them, and the others are counted."""
    log = table(*(entry(rank, "1 (pid: 1)") for rank in range(63)), root=entry(63, "7 (pid: 1)"))
    said = last_log_line(log)

    assert len(rank_ends(log)) == 64 and said.count("with exit code") == MOST_RANKS
    assert said.endswith(f"rank 63 ended first, with exit code 7; {64 - MOST_RANKS} more ranks failed")
