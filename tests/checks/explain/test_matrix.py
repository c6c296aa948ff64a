"""Matrices of other tools: what is read is what was written, and what is cut or contradictory is told, never passed."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.culprit.matrix import Better, Matrix, Span
from checks.explain.matrix import detect, read
from checks.explain.reading import Broken, ExplainError, Kind, Reading, ReadOptions
from checks.model import Answer
from tasks.reports.explain import explain_text
from tests.checks.culprit.matrix_texts import (
    csv_long,
    csv_square,
    nvbandwidth,
    nvbandwidth_of_host,
    p2p,
    rates,
)
from tests.corpus.case import declared

NAMES = [f"ip-10-0-0-{i}" for i in range(11, 17)]
VALUES = rates(6, bad=(2,))
SQUARE, LONG = csv_square(NAMES, VALUES), csv_long(NAMES, VALUES)


def _cells(matrix: Matrix) -> dict[tuple[str, str], float | None]:
    names = [part.name for part in matrix.parts]
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


def _json(**more: object) -> str:
    return json.dumps({"names": NAMES, "values": VALUES, **more})


FORMS = {
    "square": SQUARE,
    "square, semicolons": SQUARE.replace(",", ";"),
    "square, tabs, each line ending in one": SQUARE.replace(",", "\t").replace("\n", "\t\n"),
    "square, R's without a corner": SQUARE.replace("GB/s,", "", 1).join(["# bandwidth GB/s\n", ""]),
    "square, the title above": "Bandwidth (GB/s)\n" + csv_square(NAMES, VALUES, ""),
    "long": LONG,
    "long, other words": LONG.replace("source,target,bandwidth_gbps", "From;To;GB/s".replace(";", ",")),
    "JSON": _json(unit="GB/s"),
    "JSON, better": _json(better="higher"),
    "a JSON list of tests": json.dumps(
        [{"src": a, "dst": b, "bandwidth": VALUES[i][j]} for i, a in enumerate(NAMES) for j, b in enumerate(NAMES)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_each_form_is_recognised_and_read_alike(text: str) -> None:
    """Row to column, without the diagonal, to the digits that were written."""
    matrix = _only(text)

    assert detect(text)
    assert (Better.HIGHER, Span.BETWEEN, 30) == (matrix.better, matrix.span, len(matrix.values))
    assert {
        (a, b): pytest.approx(VALUES[i][j], abs=0.006)
        for i, a in enumerate(NAMES)
        for j, b in enumerate(NAMES)
        if a != b
    } == _cells(matrix)


@pytest.mark.parametrize("word", ["", "nan", "-", "failed", "timeout", "0", "0.00"])
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
def test_what_nobody_says_is_asked(corner: str) -> None:
    """The option is named, and helps."""
    text = csv_square(NAMES, VALUES, corner)

    with pytest.raises(Broken, match="--better higher"):
        read(text, ReadOptions())
    assert Better.LOWER is _only(text, ReadOptions(better=Better.LOWER)).better


def test_an_option_that_the_header_contradicts_is_refused() -> None:
    """Turned, all that is bad would pass."""
    with pytest.raises(Broken, match="not --better lower"):
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
        "no name": (_edited(SQUARE, 0, lambda r: [*r[:2], "", *r[3:]]), "name 2 is empty"),
        "a row twice": (_edited(SQUARE, 3, lambda r: [NAMES[0], *r[1:]]), "lines 2 and 4 both are the row"),
        "a stranger's row": (_edited(SQUARE, 3, lambda r: ["other", *r[1:]]), '"other" is the name of no column'),
        "two tables": (f"{SQUARE}\n{SQUARE}", "it holds several tables"),
        "sizes": ("source,target,gbps,size\na,b,4.0,1024\nb,a,5.0,2048\n", "it mixes 2 message sizes"),
        "an end without a name": (LONG.replace("ip-10-0-0-12,", ",", 1), "does not say"),
        "no values": (LONG.replace("bandwidth_gbps", "colour"), "none of its columns is named"),
        "JSON, a row short": (json.dumps({"names": NAMES, "values": VALUES[:-1], "unit": "GB/s"}), "values has 5 rows"),
        "JSON, a cell short": (_json(values=[*VALUES[:-1], VALUES[0][:-1]], unit="us"), "the row of ip-10-0-0-16 has 5 cells"),
        "JSON, a name twice": (json.dumps({"names": NAMES[:1] * 6, "values": VALUES, "unit": "us"}), "is there twice"),
        "JSON, a misspelt key": (_json(units="GB/s"), 'is "unit" meant?'),
        "JSON, cut": (_json(unit="GB/s")[:-40], "not valid JSON"),
        "JSON, NaN": (_json(unit="GB/s").replace("[", "[NaN, ", 2), "what gave nothing is null"),
        "JSON, true": (_json(unit="GB/s").replace(json.dumps(VALUES[0][1]), "true"), '"True", which is no number'),
        "p2p, cut": (p2p(4)[:2000], "must be the row of GPU"),
        "p2p, twice": (p2p(4) * 2, "several outputs"),
        "both tools": (p2p(4) + nvbandwidth(4), "Explain them one by one"),
        "nvbandwidth, a digit lost": (nvbandwidth(4).replace("    39", "     9", 1), "a cell was lost or changed"),
        "the last row is lost, then another table": (f"{row_lost}\nx,y\n1,2\n", "several tables"),
    }  # fmt: skip


@pytest.mark.parametrize(("text", "said"), _broken().values(), ids=_broken())
def test_what_contradicts_itself_is_refused_with_its_place(text: str, said: str) -> None:
    """Nothing of it is judged."""
    with pytest.raises(Broken) as error:
        read(text, ReadOptions())

    assert said in str(error.value)


def _incomplete() -> dict[str, tuple[str, str]]:
    half = [[value if j > i else "" for j, value in enumerate(row)] for i, row in enumerate(VALUES)]
    cut = p2p(4)
    return {
        "a row missing": ("\n".join(SQUARE.splitlines()[:-1]), "it holds nothing that ip-10-0-0-16 sent"),
        "upper half": (csv_square(NAMES, half), "it holds one direction of each pair only"),
        "long, one way": (_one_way(LONG), "it holds one direction of each pair only"),
        "long, the end cut off": ("\n".join(LONG.splitlines()[:-2]), "2 of 30 directions were not measured: ip-"),
        "n/a": (_edited(SQUARE, 1, lambda r: [*r[:3], "N/A", *r[4:]]), "ip-10-0-0-11 -> ip-10-0-0-13"),
        "one part": (csv_long(NAMES[:1], [[1.0]]) + "a,a,1\n", "no test between two parts"),
        "p2p, its end lost": (cut[: cut.index("P2P=Enabled Latency")], "it contains no matrix P2P=Enabled Latency"),
        "p2p, its last block lost": (cut[: cut.rindex("   CPU")], "it ends before its last matrix"),
        "nvbandwidth, waived": ("Waiving device_to_device_memcpy_read_ce.\n" + nvbandwidth(4), "was not run"),
        "nvbandwidth, an error": (nvbandwidth(4) + "\nCUDA_ERROR_NO_DEVICE\n", "CUDA_ERROR_NO_DEVICE"),
        "nvbandwidth, broken off": (nvbandwidth(4) + "Running device_to_device_bidirectional_memcpy_read_ce.\n", "shows no result"),
        "nvbandwidth, JSON, failed": (_nv_json("Error"), "its status is Error"),
    }  # fmt: skip


def _one_way(text: str) -> str:
    head, *rows = text.splitlines()
    return "\n".join([head, *(row for row in rows if row.split(",")[0] < row.split(",")[1])]) + "\n"


def _nv_json(status: str = "Passed") -> str:
    matrix = [
        ["N/A" if a == b else f"{value:.2f}" for b, value in enumerate(row)] for a, row in enumerate(VALUES)
    ]
    cases = [
        {"name": "host_to_device_memcpy_ce", "status": "Passed", "bandwidth_matrix": [["55.2", "55.1"]],
         "bandwidth_description": "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)"},
        {"name": "device_to_device_memcpy_read_ce", "status": status, "bandwidth_matrix": matrix,
         "bandwidth_description": "memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)"},
        {"name": "multinode_device_to_device_memcpy_read_ce", "status": "Waived"},
    ]  # fmt: skip
    return json.dumps({"nvbandwidth": {"version": "v0.8", "testcases": cases}}, indent=1)


@pytest.mark.parametrize(("text", "said"), _incomplete().values(), ids=_incomplete())
def test_what_is_missing_is_told(text: str, said: str) -> None:
    """The rest is read; the answer is no pass."""
    reading = read(text, ReadOptions())

    assert said in " | ".join(reading.unread)


def test_the_tools_of_nvidia_are_read() -> None:
    """Matrices between GPUs of one host; the rest is named."""
    six, two = read(p2p(8), ReadOptions()), read(nvbandwidth(8), ReadOptions())

    assert [6, 2] == [len(one.tables) for one in (six, two)]
    assert ((), ()) == (six.unread, two.unread)
    assert {Span.INSIDE} == {table.matrix.span for one in (six, two) for table in one.tables}
    assert {"GB/s": Better.HIGHER, "us": Better.LOWER} == {t.matrix.unit: t.matrix.better for t in six.tables}
    assert ("latency CPU: it is the time that the host takes to ask for a copy",) == six.left_out
    assert [{"h2d_gbps": (55.25,) * 8}] == [part.metrics for part in two.parts]


@pytest.mark.parametrize(
    "text", [nvbandwidth(4, lambda a, b: 0.5 if (a, b) == (1, 3) else 1.0), _nv_json()], ids=["text", "JSON"]
)
def test_an_arrow_says_who_sends(text: str) -> None:
    """ "GPU(row) <- GPU(column)" is what the row's GPU receives."""
    reading = read(text, ReadOptions())
    if len(reading.tables) == 2:
        slow = [min((v, k) for k, v in _cells(t.matrix).items() if v is not None)[1] for t in reading.tables]
        assert [("GPU 1", "GPU 3")] * 2 == slow
    else:
        assert pytest.approx(VALUES[4][1], abs=0.006) == _cells(reading.tables[0].matrix)["GPU 1", "GPU 4"]


HOST = nvbandwidth_of_host([[55.1, 54.8, 55.0], [46.0, 45.8, 46.1]], [[53.0, 53.2, 52.9]])


def test_copies_between_cpus_and_gpus_are_what_compute_transfer_measures() -> None:
    """Two CPUs and three GPUs are a matrix of 2 x 3; what ran beside other copies is named, and not judged."""
    reading = read(HOST, ReadOptions())
    down, up = reading.parts

    assert ((), ()) == (reading.unread, reading.tables)
    assert (55.1, 54.8, 55.0, 46.0, 45.8, 46.1) == down.metrics["h2d_gbps"]
    assert (53.0, 53.2, 52.9) == up.metrics["d2h_gbps"]
    assert ["compute.transfer"] * 2 == [part.check for part in reading.parts]
    assert any("host_to_device_bidirectional" in said for said in reading.left_out)


@pytest.mark.parametrize(
    ("kind", "slow", "answer"),
    [("", 1.6, Answer.NO_GO), ("p5.48xlarge", 20.0, Answer.NO_GO), ("", 54.8, Answer.GO)],
)
def test_copies_between_cpus_and_gpus_are_judged(kind: str, slow: float, answer: Answer) -> None:
    """By the narrowest link of all types, and by the declared model's own; the finding names CPU and GPU."""
    text = nvbandwidth_of_host([[55.1, slow, 55.0]], [[53.0, 53.2, 52.9]])
    asked = ReadOptions(declared(kind, 1)) if kind else ReadOptions()
    verdict = explain_text("-", "input", text.encode(), None, None, asked).verdict

    assert answer is verdict.answer, verdict.findings
    assert answer is Answer.GO or "CPU 0, GPU 1" in verdict.findings[0].evidence


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("     55.10", "", "must be the row of CPU 0"),
        ("     55.10", "     45.10", "a cell was lost or changed"),
        (" 1     46.00     45.80     46.10\n", "", "a cell was lost or changed"),
        ("SUM host_to_device_memcpy_ce 302.80", "", "the sum below it is missing"),
        ("           0         1         2\n", "", "the line that names the GPUs is missing"),
    ],
)
def test_copies_that_were_cut_are_told(old: str, new: str, said: str) -> None:
    """The sum below each matrix shows what is missing."""
    assert HOST.count(old)
    try:
        found = " | ".join(read(HOST.replace(old, new, 1), ReadOptions()).unread)
    except Broken as error:
        found = str(error)

    assert said in found


@pytest.mark.parametrize("which", [0, 3, 4])
def test_one_matrix_of_p2p_alone_is_judged_and_the_others_are_named(which: int) -> None:
    """An excerpt without the tool's own beginning is no cut output."""
    whole = p2p(8).splitlines()
    starts = [at for at, line in enumerate(whole) if "Matrix (" in line]
    reading = read("\n".join(whole[starts[which] : starts[which] + 10]) + "\n", ReadOptions())

    assert () == reading.unread and 1 == len(reading.tables)
    assert 5 == sum("this excerpt does not contain it" in said for said in reading.left_out)


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
    assert ("node-2", 3) == (between.parts[11].node, between.parts[11].rail)


def test_json_may_say_where_parts_are() -> None:
    """Nodes, rails and switches by name or in the names' order."""
    nodes = {name: f"n{place // 2}" for place, name in enumerate(NAMES)}
    text = _json(
        unit="GB/s", nodes=nodes, rails=[0, 1] * 3, switches={name: ["leaf", "spine"] for name in NAMES}
    )
    part = read(text, ReadOptions()).tables[0].matrix.parts[3]

    assert (NAMES[3], "n1", 1, ("leaf", "spine")) == (part.name, part.node, part.rail, part.switches)


def test_a_test_made_again_is_there_again() -> None:
    """In long form a pair may be measured several times; each keeps its line."""
    (table,) = read(LONG + f"{NAMES[0]},{NAMES[1]},39.5\n", ReadOptions()).tables

    assert (31, 39.5, 32) == (len(table.matrix.values), table.matrix.values[-1], table.lines[-1])


def test_bandwidth_and_latency_beside_each_other_are_two_matrices() -> None:
    """A time stamp is none."""
    rows = [f"{a},{b},1700000000,40.0,12.5" for a in NAMES for b in NAMES if a != b]
    reading = read("\n".join(["source,target,timestamp_ms,bandwidth_gbps,latency_us", *rows]), ReadOptions())

    assert [Better.HIGHER, Better.LOWER] == [table.matrix.better for table in reading.tables]


@settings(max_examples=60)
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
            assert reading is not None and reading.kind is Kind.MATRIX
            assert reading.tables or reading.unread
