"""Matrices of other tools, as they write them: no check of ours measures one, so there are recordings alone.

The files are made by tests/checks/culprit/matrix_texts.py, in the tools' form and with made-up numbers.
"""

from __future__ import annotations

from checks.explain.reading import OutputKind
from checks.model import Level
from tests.corpus.case import Recording

P2P = {
    r"^\[P2P ": "the tool's own name",
    r"^Device: ": "a GPU that is there has a row in each matrix",
    r"CAN Access Peer": "how a pair may reach each other is seen in what it reached",
    r"^\*\*\*NOTE|^NOTE": "a remark",
    r"^P2P Connectivity Matrix|^D\\D     0     1 |^\d\t     1": "as above, as a table of ones",
    r"^\s*$": "it is empty",
}


def _matrix(name: str, level: Level, irrelevant: dict[str, str] | None = None) -> Recording:
    return Recording(f"matrix/{name}", OutputKind.MATRIX, level, irrelevant=irrelevant or {})


RECORDINGS = [
    _matrix("p2p_4_gpus.txt", Level.PASS, P2P),
    _matrix("p2p_4_gpus_slow_link.txt", Level.FAIL),
    _matrix("nodes.csv", Level.PASS),
    _matrix("nodes_slow.csv", Level.FAIL),
    _matrix("nodes_long.csv", Level.PASS),
]
