"""`prelaunch explain` of a matrix: 0 nobody stands out, 1 somebody does, 3 nobody can tell.

And of a kernel log with Xids: each line has one remedy.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checks.culprit.matrix_texts import csv_square, p2p, rates
from tests.flows.cli.conftest import Run

NAMES = [f"ip-10-0-0-{i}" for i in range(11, 19)]
GOOD, BAD = csv_square(NAMES, rates(8)), csv_square(NAMES, rates(8, bad=(5,)))
LINK = rates(8)
LINK[2][6] = LINK[6][2] = 7.0
Explained = Callable[..., tuple[int, str]]


@pytest.fixture
def explain(run: Run, tmp_path: Path) -> Explained:
    """The command in this process: its exit code, and what it printed."""

    def runner(text: str, *words: object) -> tuple[int, str]:
        file = tmp_path / "matrix.txt"
        file.write_text(text, encoding="utf-8")
        ended = run("explain", file, *words)
        return ended.code, " ".join((ended.out + ended.err).split())

    return runner


def half(a: int, b: int) -> float:
    """GPU 3's port has half its width."""
    return 0.5 if 3 in (a, b) else 1.0


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (GOOD, 0, "no part is worse than the rest; 56 tests"),
        (BAD, 1, "FAIL HARDWARE matrix: ip-10-0-0-16 is slow to and from its peers: "),
        (csv_square(NAMES, LINK), 1, "matrix: link ip-10-0-0-13<->ip-10-0-0-17 is slow: "),
        (p2p(8), 0, "P2P=Enabled Latency (P2P Writes): no part is worse than the rest"),
        (p2p(8, half), 1, "FAIL HARDWARE matrix: GPU 3 is slow to and from its peers"),
        (csv_square(NAMES[:2], rates(2)), 3, "too few pairs to compare"),
        ("\n".join(GOOD.splitlines()[:-1]), 3, "7 of 56 directions were not measured, the first is ip-10-0-0-18"),
        (csv_square(NAMES, rates(8), ""), 3, "--better higher (bandwidth) or --better lower (latency)"),
        (csv_square(NAMES, [["failed"] * 8] * 8), 3, "none of its 56 tests gave a number"),
        (csv_square(NAMES, [[""] * 8] * 8), 3, "it holds no test between two parts"),
    ],
    ids=["good", "node", "link", "p2p", "p2p node", "two", "cut", "unsaid", "failed", "empty"],
)  # fmt: skip
def test_the_exit_code_is_the_answer(explain: Explained, text: str, code: int, said: str) -> None:
    """And the words name who, or why nobody can tell."""
    found, out = explain(text)

    assert code == found
    assert said in out


def test_matrix_that_is_slow_everywhere_fails_only_below_a_floor(explain: Explained) -> None:
    """Held against each other none stands out, which is said; a floor refuses the whole fabric, and blames no node."""
    slow = csv_square(NAMES, rates(8, usual=2.0))
    (without, out), (held, floor) = explain(slow), explain(slow, "--floor", 10)

    assert (0, 1) == (without, held)
    assert "values are only compared with each other" in out and "held against each other alone" not in floor
    assert "FAIL CONFIGURATION matrix: bandwidth between nodes is bad as a whole: 56 of 56 tests" in floor
    assert "HARDWARE" not in floor
    assert 3 == explain(p2p(4), "--floor", 10)[0]  # GB/s are no microseconds


def test_matrix_options_decide_which_values_are_bad(explain: Explained) -> None:
    """--ratio moves the line, --better turns it."""
    fifth = csv_square(NAMES, rates(8, bad=(5,), share=0.8))

    assert [0, 1] == [explain(fifth)[0], explain(fifth, "--ratio", 0.9)[0]]
    assert 1 == explain(csv_square(NAMES, rates(8, bad=(5,), share=5.0), ""), "--better", "lower")[0]


@pytest.mark.parametrize(
    "words",
    [("--ratio", 1.5), ("--ratio", 0), ("--floor", -1), ("--floor", "nan"), ("--kind", "dcgmi", "--floor", 1)],
)  # fmt: skip
def test_an_option_without_sense_is_rejected(explain: Explained, words: tuple[object, ...]) -> None:
    """Before anything is judged."""
    assert 2 == explain(GOOD, *words)[0]


def test_json_holds_suspects_and_the_noise(explain: Explained) -> None:
    """For programs: every field of the decoder's answer."""
    document = json.loads(explain(BAD, "--format", "json")[1].partition(" policy: ")[0])
    (decoded,) = document["decoded"]
    (suspect,) = decoded["suspects"]

    assert ("no_go", "named", "GB/s") == (document["answer"], decoded["answer"], decoded["unit"])
    assert ("node", "ip-10-0-0-16", 14) == (suspect["kind"], suspect["subject"], suspect["bad"])
    assert {"hiccup", "line", "sensitivity", "spread", "usual"} == set(decoded["noise"])


def test_a_node_that_the_matrix_lacks_is_missed_by_who_declared_it(explain: Explained) -> None:
    """--nodes says how many there are."""
    code, out = explain(GOOD, "--instance-type", "p5.48xlarge", "--nodes", 9)

    assert 3 == code
    assert "it contains 8 nodes, but 9 are declared" in out


GPU = "NVRM: Xid (PCI:0000:b9:00): "


def log(folder: Path, *said: str) -> str:
    """A kernel's log from its start to an hour later, with these messages."""
    lines = [f"[ {900 + at}.000000] {line}" for at, line in enumerate(said)]
    path, begin = folder / "dmesg.txt", "[    0.000000] Linux version 6.1.119 (x)"
    path.write_text("\n".join([begin, *lines, "[ 3600.000000] all well", ""]))
    return str(path)


def test_a_gpu_that_fell_off_the_bus_has_one_first_action(run: Run, tmp_path: Path) -> None:
    """Two checks read the same line: the node is restarted, then replaced (NVIDIA's catalogue: RESTART_BM, then CONTACT_SUPPORT)."""
    said = f"{GPU}79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    out = " ".join(run("explain", log(tmp_path, said)).out.split())

    assert 1 == out.count("Do: Restart the node when no job runs") and "Reset the node" not in out
    assert 1 == out.count("Do: Follow the remedy above for the same lines.")
    assert out.index("Do: Restart") < out.index("is logged again after the restart, replace the node")
    assert out.index("FAIL HARDWARE kernel.xid") < out.index("FAIL HARDWARE kernel.hardware")
