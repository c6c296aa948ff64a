"""What the decoder found, shown: suspects with what they rest on, and "nobody" as an answer."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from checks.culprit.matrix import Better, Endpoint, Entity, Matrix, MatrixAnswer, Span
from checks.facts.builtin import builtin
from checks.judge.verdict import decide
from checks.model import Observation, Outcome, Report, Value, rank_subject
from tasks.render.context import VerdictContext, verdict_context
from tasks.render.html import html
from tasks.render.markdown import markdown
from tasks.render.views.maps import MAPS, TABLE, heat_map, maps_of, settled
from tasks.render.views.suspects import matrices_table, said_of, suspects_table
from tests.catalogue_reports import policy_of
from tests.tasks.render.decoded import between, inside, shown, with_shown
from tests.tasks.render.fleets import TYPE, fleet
from tests.tasks.render.test_html import LIMIT

BAD, GOOD = between(12, bad=(7,)), between(8, 4)
FIVE, EIGHT = "ip-10-0-0-16", "ip-10-0-0-18"


def test_a_suspect_says_what_it_rests_on() -> None:
    """Who, how sure, how many tests of how many, and the noise that was fitted."""
    (row,), (held,) = suspects_table([BAD]).body, matrices_table([BAD]).body
    _, answer, bad, usual, threshold, sensitivity, hiccup = held

    assert (f"node {EIGHT}", "22 of 22, both ways") == (row[0], row[2])
    assert 0.19 < float(row[3]) < 0.21
    assert float(row[1].strip("> %")) > 99
    assert ("1 suspect", "22 of 132") == (answer, bad)
    assert threshold.startswith("below 2") and usual.endswith(" GB/s")
    assert sensitivity and hiccup


def test_suspects_view_states_that_no_part_stands_out() -> None:
    """One line in every form; the page has what was compared with what below it, closed."""
    verdict, decoded = with_shown(8, GOOD, GOOD)
    page, text = html(fleet(8, peers=False), verdict, "x", decoded), markdown(None, verdict, "x", decoded)
    line = "Pair tests: no single node or link is worse than the rest."

    assert f'<details id="suspects"><summary>{line}</summary>' in page and "below 2" in page
    assert line in text.splitlines() and not re.search("Suspects|below 2|Sensitivity", text)


@pytest.mark.parametrize(
    ("answer", "said"),
    [(MatrixAnswer.FABRIC, "Nearly all tests are bad"), (MatrixAnswer.UNEXPLAINED, "no single part explains"),
     (MatrixAnswer.TOO_FEW, "too few tests")],
)  # fmt: skip
def test_suspects_view_clears_no_part_for_an_inconclusive_answer(answer: MatrixAnswer, said: str) -> None:
    """A fabric that is bad, tests that nothing explains, and too few of them."""
    one = replace(GOOD, decoded=replace(GOOD.decoded, answer=answer))

    assert said in said_of([one])
    assert "No single node or link is worse than the rest" not in said_of([one])


def test_nodes_are_a_map_of_the_worst_rail() -> None:
    """One rail of one node of four: its row and column are dark, first, and crossed."""
    made = heat_map(between(8, 4, bad_rails=[(5, 2)]))
    first = [cell for cell in made.lines[0][1] if cell.text]

    assert FIVE == made.lines[0][0] and all(cell.bad for cell in first)
    assert {2} == {cell.step for cell in first}
    assert {5} == {cell.step for _, row in made.lines[1:] for cell in row[1:] if cell.text}


def test_heat_map_leaves_untested_cells_blank_and_marks_failed_ones() -> None:
    """A sparse tournament has no holes; a test that failed is one, and one that two more do not repeat is none."""
    one = between(12, partners=4)
    values = [None if k == 3 else v for k, v in enumerate(one.matrix.values)]
    rows = heat_map(shown(replace(one.matrix, values=values))).lines
    cells = [cell for _, row in rows for cell in row]
    parts = (Endpoint("a", "a"), Endpoint("b", "b"))
    again = Matrix("bandwidth", "GB/s", Better.HIGHER, Span.BETWEEN, parts, [0] * 3 + [1] * 3, [1] * 3 + [0] * 3,
                   [1.0, 40.0, 41.0, None, None, 40.0])  # fmt: skip

    assert (1, 144 - 48) == (sum(c.text == "none" for c in cells), sum(c.text == "" for c in cells))
    assert {(0, 1): 40.0, (1, 0): None} == settled(shown(again))


def test_the_inside_of_a_node_that_has_a_suspect_is_drawn_whole() -> None:
    """Its GPUs by their own names; other nodes' are not, and a matrix without a bad test has no map."""
    (made,) = maps_of([inside(6, 4, bad=[(5, 3)]), inside(6, 4)])

    assert ("Bandwidth inside nodes, ip-10-0-0-16", "rank-23") == (made.title, made.lines[0][0])
    assert MAPS == len(maps_of([BAD] * (MAPS + 3)))


def test_a_thousand_nodes_of_eight_rails_stay_small() -> None:
    """The page has the worst nodes, says how many more there are, and is below 3 MB."""
    verdict, decoded = with_shown(8, between(1000, 8, bad=(3, 700), partners=3))
    page = html(fleet(8, peers=False), verdict, "x", decoded)

    assert len(page.encode()) < LIMIT
    assert f"{1000 - TABLE} more, none worse" in page


def test_every_form_names_the_suspect() -> None:
    """Page and Markdown."""
    verdict, decoded = with_shown(12, BAD)
    report = fleet(12, peers=False)

    assert f'<th scope="row">node {EIGHT}</th>' in html(report, verdict, "x", decoded)
    assert f"| node {EIGHT} |" in markdown(report, verdict, "x", decoded)


def test_names_are_inert() -> None:
    """A matrix of another tool names its parts."""
    name = "<script>alert(1)</script>|[x](http://e.example)"
    ends = BAD.matrix.endpoints
    parts = tuple(replace(part, name=name + part.name, node=name + part.node) for part in ends)
    hostile = VerdictContext(matrices=(shown(replace(BAD.matrix, endpoints=parts)),))
    verdict, _ = with_shown(8)

    assert Entity.NODE is hostile.matrices[0].decoded.suspects[0].kind
    assert 1 == html(None, verdict, "x", hostile).count("<script")
    text = markdown(None, verdict, "x", hostile)
    assert "<script" not in text and "](http" not in text


def test_a_reports_own_tournament_is_shown() -> None:
    """From the ranks' rows, by the policy that judges them, to the page: one GPU's rail at a fifth."""
    report = fleet(4)
    slow = {name: rank for name, rank in _ranks(report).items() if rank == 9}
    rows = tuple(_tournament(report, rank, name, set(slow.values())) for name, rank in _ranks(report).items())
    others = tuple(row for row in report.observations if row.check != "nccl.pairs")
    played = replace(report, observations=(*others, *rows))
    rules = policy_of(TYPE)
    verdict = decide(played, rules, builtin())
    page = html(played, verdict, "x", verdict_context(played, rules, verdict, facts=builtin()))

    assert {"ip-10-0-0-12/rank-9"} == {f.subject for f in verdict.findings if f.check == "nccl.pairs"}
    assert '<th scope="row">rank ip-10-0-0-12/rank-9</th>' in page


def _ranks(report: Report) -> dict[str, int]:
    per = report.declared.ranks_per_node
    ranks = [(node.name, node.rank * per + local) for node in report.nodes for local in range(per)]
    return {rank_subject(name, rank): rank for name, rank in ranks}


def _tournament(report: Report, rank: int, subject: str, slow: set[int]) -> Observation:
    """One rank's row: each other rank of its node, and its rail on each other node."""
    per = report.declared.ranks_per_node
    others = [peer for peer in range(report.declared.ranks) if peer != rank]
    peers = tuple(p for p in others if p // per == rank // per or p % per == rank % per)
    speeds = tuple(_gbps(rank, peer, per, slow) for peer in peers)
    metrics: dict[str, Value] = {
        "peers": peers, "results": ("ok",) * len(peers), "failures": ("ok",) * len(peers), "bandwidth_gbps": speeds,
        "latency_us": (10.0,) * len(peers), "slowest_us": (20.0,) * len(peers), "wrong_elements": (0,) * len(peers),
        "message_bytes": (1 << 20,) * len(peers),
        "in_round": tuple(range(len(peers))), "began_s": tuple(0.1 * at for at in range(len(peers))),
        "rounds": len(peers), "rounds_left_out": 0,
    }  # fmt: skip
    return Observation("nccl.pairs", subject, Outcome.MEASURED, 1.0, metrics)


def _gbps(rank: int, peer: int, per: int, slow: set[int]) -> float:
    if rank // per == peer // per:
        return 370.0 + (rank + peer) % 5
    return (8.0 if {rank, peer} & slow else 45.0) + (rank + peer) % 3
