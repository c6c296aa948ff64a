"""Matrices of other tools: what is read is what was written, and what is cut or contradictory is told, never passed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.culprit.matrix import Better, Matrix, Span
from checks.explain import registry
from checks.explain.matrix import detect, read
from checks.explain.reading import ExplainError, Garbled, OutputKind, Reading, ReadOptions
from tests.checks.culprit.matrix_texts import csv_long, csv_square, p2p, rates

NAMES = [f"ip-10-0-0-{i}" for i in range(11, 17)]
VALUES = rates(6, bad=(2,))
SQUARE, LONG = csv_square(NAMES, VALUES), csv_long(NAMES, VALUES)


def _cells(matrix: Matrix) -> dict[tuple[str, str], float | None]:
    names = [part.name for part in matrix.endpoints]
    tests = zip(matrix.sources, matrix.targets, matrix.values, strict=True)
    return {(names[a], names[b]): value for a, b, value in tests}


def _only(text: str, asked: ReadOptions | None = None) -> Matrix:
    reading = read(text, asked or ReadOptions())
    assert () == reading.unread
    (table,) = reading.tables
    return table.matrix


def _edited(text: str, row: int, change: Callable[[list[str]], list[str]]) -> str:
    lines = text.splitlines()
    lines[row] = ",".join(change(lines[row].split(",")))
    return "\n".join(lines) + "\n"


FORMS = {
    "square": SQUARE,
    "square, semicolons": SQUARE.replace(",", ";"),
    "square, tabs": SQUARE.replace(",", "\t"),
    "square, comments and blank lines": SQUARE.replace("\n", "\n# measured at night\n\n"),
    "long": LONG,
    "long, other words": LONG.replace("source,target,bandwidth_gbps", "From,To,GB/s"),
}  # fmt: skip


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_each_form_is_recognised_and_read_alike(text: str) -> None:
    """Row to column, without the diagonal, to the digits that were written."""
    matrix = _only(text)

    assert detect(text)
    assert (Better.HIGHER, Span.BETWEEN, 30) == (matrix.better, matrix.span, len(matrix.values))
    pairs = [(i, j) for i in range(6) for j in range(6) if i != j]
    written = {(NAMES[i], NAMES[j]): pytest.approx(VALUES[i][j], abs=0.006) for i, j in pairs}
    assert written == _cells(matrix)


@pytest.mark.parametrize("word", ["nan", "-", "failed", "timeout", "0", "0.00"])
def test_a_test_that_gave_nothing_is_no_number(word: str) -> None:
    """It was tried: the decoder sees it as bad."""
    text = _edited(SQUARE, 1, lambda row: [*row[:3], word, *row[4:]])

    assert _cells(_only(text))[NAMES[0], NAMES[2]] is None


@pytest.mark.parametrize(
    ("corner", "better", "unit"),
    [("GB/s", Better.HIGHER, "GB/s"), ("Gbit/s", Better.HIGHER, "Gbit/s"), ("us", Better.LOWER, "us"),
     ("latency", Better.LOWER, ""), ("busbw_gbps", Better.HIGHER, "gbps"), ("RTT (ms)", Better.LOWER, "ms")],
)  # fmt: skip
def test_the_header_says_the_unit_and_what_is_good(corner: str, better: Better, unit: str) -> None:
    """Latency is good when it is low."""
    matrix = _only(csv_square(NAMES, VALUES, corner))

    assert (better, unit) == (matrix.better, matrix.unit)


@pytest.mark.parametrize("corner", ["", "x", "bandwidth/latency"])
def test_matrix_reader_requires_the_better_option_for_an_unclear_header(corner: str) -> None:
    """The option is named, and helps."""
    text = csv_square(NAMES, VALUES, corner)

    with pytest.raises(Garbled, match="--better higher"):
        read(text, ReadOptions())
    assert Better.LOWER is _only(text, ReadOptions(better=Better.LOWER)).better


def test_an_option_that_the_header_contradicts_is_refused() -> None:
    """Turned, all that is bad would pass."""
    with pytest.raises(Garbled, match="not --better lower"):
        read(SQUARE, ReadOptions(better=Better.LOWER))


def _broken() -> dict[str, tuple[str, str]]:
    row_lost = "\n".join(SQUARE.splitlines()[:-2]) + "\n"
    return {
        "a word": (_edited(SQUARE, 2, lambda r: [*r[:4], "fast", *r[5:]]), 'line 3 (ip-10-0-0-12), column ip-10-0-0-14 is "fast"'),
        "a number with a unit": (_edited(SQUARE, 2, lambda r: [*r[:4], "4 GB/s", *r[5:]]), "which is no number"),
        "infinite": (_edited(SQUARE, 2, lambda r: [*r[:4], "1e999", *r[5:]]), "an impossible value"),
        "below all units": (_edited(SQUARE, 2, lambda r: [*r[:4], "1e-320", *r[5:]]), "an impossible value"),
        "below zero": (_edited(SQUARE, 2, lambda r: [*r[:4], "-4.0", *r[5:]]), "an impossible value"),
        "no latency": (csv_square(NAMES, [[0.0] * 6] * 6, "us"), "an impossible value"),
        "a short row": (_edited(SQUARE, 3, lambda r: r[:-1]), "line 4 (ip-10-0-0-13) has 6 fields, it must have 7"),
        "cut in a row": (SQUARE[: len(SQUARE) - 20], "line 7 (ip-10-0-0-16) has 3 fields, it must have 7"),
        "a long row": (_edited(SQUARE, 3, lambda r: [*r, "1.0"]), "has 8 fields"),
        "a name twice": (_edited(SQUARE, 0, lambda r: [*r[:2], r[1], *r[3:]]), "is there twice (names 1 and 2)"),
        "no name": (_edited(SQUARE, 0, lambda r: [*r[:2], "", *r[3:]]), "name 2 ('') is no name"),
        "a row twice": (_edited(SQUARE, 3, lambda r: [NAMES[0], *r[1:]]), "names no column, or an earlier row has the name"),
        "a stranger's row": (_edited(SQUARE, 3, lambda r: ["other", *r[1:]]), '"other" names no column'),
        "two tables": (f"{SQUARE}\n{SQUARE}", "names no column"),
        "an end without a name": (LONG.replace("ip-10-0-0-12,", ",", 1), "is no name"),
        "no values": (LONG.replace("bandwidth_gbps", "colour"), "does not say which values are better"),
        "two metrics": ("source,target,gbps,latency_us\na,b,4.0,1\nb,a,5.0,2\n", "one metric"),
        "a size beside": ("source,target,gbps,size\na,b,4.0,1024\nb,a,5.0,2048\n", "one metric"),
        "a blank line in a table": (p2p(4).replace("\n     2 ", "\n\n     2 "), "it must be GPU 2's row"),
        "p2p, cut": (p2p(4)[:2000], "it must be GPU"),
        "p2p, twice": (p2p(4) * 2, "several outputs"),
        "the last row is lost, then another table": (f"{row_lost}\nx,y\n1,2\n", "has 2 fields"),
    }  # fmt: skip


@pytest.mark.parametrize(("text", "said"), _broken().values(), ids=_broken())
def test_matrix_reader_rejects_contradictions_with_their_place(text: str, said: str) -> None:
    """Nothing of it is judged."""
    with pytest.raises(Garbled) as error:
        read(text, ReadOptions())

    assert said in str(error.value)


def _incomplete() -> dict[str, tuple[str, str]]:
    half = [[value if j > i else "" for j, value in enumerate(row)] for i, row in enumerate(VALUES)]
    cut = p2p(4)
    return {
        "a row missing": ("\n".join(SQUARE.splitlines()[:-1]), "5 of 30 directions were not measured"),
        "upper half": (csv_square(NAMES, half), "15 of 30 directions were not measured"),
        "long, one way": (_one_way(LONG), "15 of 30 directions were not measured"),
        "long, the end cut off": ("\n".join(LONG.splitlines()[:-2]), "2 of 30 directions were not measured"),
        "n/a": (_edited(SQUARE, 1, lambda r: [*r[:3], "N/A", *r[4:]]), "ip-10-0-0-11 -> ip-10-0-0-13"),
        "one part": (csv_long(NAMES[:1], [[1.0]]) + "a,a,1\n", "no test between two parts"),
        "p2p, its end lost": (cut[: cut.index("P2P=Enabled Latency")], "it contains 5 of its 6 matrices"),
        "p2p, its last block lost": (cut[: cut.rindex("   CPU")], "it ends before its last matrix"),
    }  # fmt: skip


def _one_way(text: str) -> str:
    head, *rows = text.splitlines()
    return "\n".join([head, *(row for row in rows if row.split(",")[0] < row.split(",")[1])]) + "\n"


@pytest.mark.parametrize(("text", "said"), _incomplete().values(), ids=_incomplete())
def test_matrix_reader_names_what_is_missing(text: str, said: str) -> None:
    """The rest is read; the answer is no pass."""
    reading = read(text, ReadOptions())

    assert said in " | ".join(reading.unread)


def test_the_six_matrices_of_p2p_are_read() -> None:
    """Matrices between GPUs of one host; the rest is named."""
    reading = read(p2p(8), ReadOptions())

    assert (6, ()) == (len(reading.tables), reading.unread)
    assert {Span.INSIDE} == {table.matrix.span for table in reading.tables}
    better = {table.matrix.unit: table.matrix.better for table in reading.tables}
    assert {"GB/s": Better.HIGHER, "us": Better.LOWER} == better
    assert ("latency CPU: it is the time that the host takes to ask for a copy",) == reading.left_out


@pytest.mark.parametrize(
    "line", ["Cuda failure p2pBandwidthLatencyTest.cu:213: 'unspecified launch failure'", "a word"]
)
def test_p2p_reader_names_unread_lines_between_the_tables(line: str) -> None:
    """An error of CUDA among them is no part of a good output."""
    text = p2p(4).replace("P2P Connectivity Matrix", f"{line}\nP2P Connectivity Matrix")
    reading = registry.read("checks.explain.matrix", text, ReadOptions())

    assert () == read(p2p(4), ReadOptions()).unread
    assert any("not read" in sentence for sentence in reading.unread)


@pytest.mark.parametrize("which", [0, 3, 4])
def test_p2p_excerpt_with_one_matrix_is_judged_and_names_the_others(which: int) -> None:
    """An excerpt without the tool's own beginning is no cut output."""
    whole = p2p(8).splitlines()
    starts = [at for at, line in enumerate(whole) if "Matrix (" in line]
    reading = read("\n".join(whole[starts[which] : starts[which] + 10]) + "\n", ReadOptions())

    assert () == reading.unread and 1 == len(reading.tables)
    assert any("this excerpt does not contain them" in line for line in reading.left_out)


def test_nodes_and_rails_are_taken_from_names() -> None:
    """Inside of nodes and between them are two matrices; rails that nobody measured across are not missed."""
    names = [f"node-{node}/rank-{4 * node + local}" for node in range(3) for local in range(4)]
    tests = [
        (a, b) for a in range(12) for b in range(12)
        if a != b and (a // 4 == b // 4 or a % 4 == b % 4)
    ]  # fmt: skip
    text = "from,to,latency_us\n" + "".join(f"{names[a]},{names[b]},{10 + a}\n" for a, b in tests)
    reading = read(text, ReadOptions())
    inside, between = sorted((t.matrix for t in reading.tables), key=lambda m: m.span is Span.BETWEEN)

    assert () == reading.unread
    assert (36, 24) == (len(inside.values), len(between.values))
    assert ("node-2", 3) == (between.endpoints[11].node, between.endpoints[11].rail)


def test_a_test_made_again_is_there_again() -> None:
    """In long form a pair may be measured several times; each keeps its line."""
    (table,) = read(LONG + f"{NAMES[0]},{NAMES[1]},39.5\n", ReadOptions()).tables

    assert (31, 39.5, 32) == (len(table.matrix.values), table.matrix.values[-1], table.lines[-1])


@settings(max_examples=20)
@given(st.text(alphabet='ab,;\t\n#-1.5eN/"[]{}: ', max_size=200), st.integers(0, len(SQUARE)))
def test_no_text_makes_a_reader_stumble(text: str, at: int) -> None:
    """Whatever stands in the middle of a good one: a reading, or a refusal that says why."""
    for made in (text, SQUARE[:at] + text + SQUARE[at:], LONG[:at] + text + LONG[at:]):
        detect(made)
        try:
            reading: Reading | None = read(made, ReadOptions())
        except ExplainError as error:
            assert str(error)
        else:
            assert reading is not None and reading.output_kind is OutputKind.MATRIX
            assert reading.tables or reading.unread
