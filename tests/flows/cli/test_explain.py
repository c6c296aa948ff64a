"""`prelaunch explain`: 0 only for what is recognised, whole and healthy; one document on stdout for every code."""

from __future__ import annotations

import io
import sys
from importlib import import_module
from pathlib import Path

import pytest

from checks.documents.report import dump
from checks.explain import registry
from checks.explain.reading import OutputKind
from tests.flows.cli.conftest import Ended, Run
from tests.sample_reports import healthy

POLICY = """
name = "x"
instance_types = ["p5.48xlarge"]
on_warn = "go"
max_unfit_fraction = 0.25
[checks."dcgm.diag"]
rules = [
  { metric = "wrong", equals = 0, source = "s", remedy = "Replace it." },
  { metric = "links", fact = "nvlinks", source = "s" },
]
"""
GOOD, BAD, CUT = "fake tool\nwrong 0\nend\n", "fake tool\nwrong 7\nend\n", "fake tool\nwrong 0\n"
KEYS = {"level", "answer", "coverage", "findings", "condemned", "suspect_policy", "seen_from", "digests"}
ABOUT = {"file", "kind", "title", "held", "not_judged"}


@pytest.fixture
def run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command in this process, with one reader and one policy; texts are written to files 0.txt, 1.txt ..."""
    monkeypatch.setattr(registry, "MODULES", {"tests.fakes.reader": (OutputKind.DCGMI,)})
    (tmp_path / "policy.toml").write_text(POLICY)

    def runner(*words: object, texts: tuple[str | bytes, ...] = ()) -> Ended:
        files = []
        by = () if "--policy" in words else ("--policy", str(tmp_path / "policy.toml"))
        for number, text in enumerate(texts):
            files.append(str(tmp_path / f"{number}.txt"))
            Path(files[-1]).write_bytes(text.encode() if isinstance(text, str) else text)
        return run("explain", *files, *words, *by)

    return runner


@pytest.mark.parametrize(
    ("text", "code", "answer"), [(GOOD, 0, "go"), (BAD, 1, "no_go"), (CUT, 3, "cannot_tell")]
)
def test_the_exit_code_is_the_answer(run: Run, text: str, code: int, answer: str) -> None:
    """And the document is the verdict, with what the input is."""
    ended = run("--format", "json", texts=(text,))

    assert (code, answer) == (ended.code, ended.document["answer"])
    assert KEYS | ABOUT == set(ended.document)


@pytest.mark.parametrize(
    "data",
    [b"", b" \n\n", b"hello world\n", b"\x7fELF\x02\x01\0\0\0", b"fake tool\nwrong 0\n\0\nend\n", b"\xff\xfe\x00f"],
    ids=["empty", "blank", "unknown", "binary", "a zero byte in it", "UTF-16"],
)  # fmt: skip
def test_explain_answers_3_for_text_of_no_known_tool(run: Run, data: bytes) -> None:
    """Nobody can tell, and one finding says why."""
    ended = run("--format", "json", texts=(data,))

    assert 3 == ended.code
    assert ["EVIDENCE"] == [f["cause"] for f in ended.document["findings"]]  # type: ignore[attr-defined]


def test_a_kind_that_is_given_is_not_guessed(run: Run) -> None:
    """A text that is of another kind is not judged as what it happens to look like."""
    ended = run("--kind", "dcgmi", texts=("another tool\nwrong 0\nend\n",))

    assert 3 == ended.code
    assert "it is no output of dcgmi that Prelaunch reads: no line of the text has its form" in ended.out


def test_a_text_that_several_readers_claim_is_not_guessed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kinds are named, and --kind decides."""
    both = {"tests.fakes.reader": (OutputKind.DCGMI,), "tests.fakes.other": (OutputKind.NEURON_LS,)}
    monkeypatch.setattr(registry, "MODULES", both)
    monkeypatch.setitem(sys.modules, "tests.fakes.other", import_module("tests.fakes.reader"))

    assert 3 == (ended := run(texts=(GOOD,))).code
    assert "it could be any of dcgmi, neuron-ls. Name the kind with --kind." in ended.out
    assert 0 == run("--kind", "dcgmi", texts=(GOOD,)).code


def test_a_reader_that_stumbles_is_no_pass(run: Run) -> None:
    """Whatever it raises costs this input alone."""
    ended = run("--format", "json", texts=("fake tool\nwrong zero\nend\n", GOOD))

    assert 3 == ended.code
    assert "ValueError" in ended.out
    assert [3, 0] == [{"go": 0}.get(row["verdict"]["answer"], 3) for row in ended.document["files"]]  # type: ignore[attr-defined]


def test_the_text_names_the_lines(run: Run) -> None:
    """What it is, the finding, its line with its number, and what to do."""
    ended = run(texts=(BAD,))
    lines = ended.out.splitlines()

    assert lines[0].startswith("NO-GO ")
    assert lines[0].endswith("0.txt: 1 hardware failure") and len(lines[0]) <= 100
    assert "Input: fake tool of any GPUs" == lines[1]
    assert [
        "FAIL HARDWARE dcgm.diag: wrong is 7, it must be 0",
        "  | 2: wrong 7",
        "  Do: Replace it.",
    ] == lines[4:7]
    assert (
        "Next: after that, test the node that printed this again. Type there: prelaunch check --instance-type TYPE"
        in lines[8]
    )


def test_explain_lists_what_was_not_judged(run: Run) -> None:
    """A fact without a declaration, in text and JSON."""
    text = "fake tool\nwrong 0\nlinks 18\nend\n"
    said = "dcgm.diag links: not judged without --instance-type"

    assert f"not judged: {said}\n" in run(texts=(text,)).out
    assert [said] == run("--format", "json", texts=(text,)).document["not_judged"]


def test_a_declaration_is_judged(run: Run) -> None:
    """17 of 18 links are a fault only for a type that has 18."""
    text = "fake tool\nwrong 0\nlinks 17\nend\n"

    assert 0 == run(texts=(text,)).code
    assert 1 == (ended := run("--instance-type", "p5.48xlarge", "--nodes", 2, texts=(text,))).code
    assert "fake tool of 8 GPUs" in ended.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--instance-type", "p5.48xlrge"], "Did you mean 'p5.48xlarge'?"),
        (["--nodes", "2"], "--instance-type"),
        (["--instance-type", "p5.48xlarge", "--nodes", "0"], "--nodes"),
        (["--kind", "nvidia"], "--kind"),
        (["--policy", "/nowhere.toml"], "/nowhere.toml"),
        (["/nowhere.txt"], "/nowhere.txt"),
        (["--html", "/nowhere/x.html"], "/nowhere/x.html"),
    ],
)
def test_a_wrong_request_is_rejected(run: Run, words: list[str], said: str) -> None:
    """2, one line, and a document where JSON was asked."""
    texts = () if words[0].startswith("/") else (GOOD,)
    ended = run("--format", "json", *words, texts=texts)

    assert 2 == ended.code
    assert {"error"} == set(ended.document)
    assert said in ended.err


@pytest.mark.parametrize(
    ("texts", "code"), [((GOOD, GOOD), 0), ((GOOD, CUT), 3), ((CUT, BAD), 1), ((BAD, GOOD), 1)]
)
def test_explain_of_several_files_exits_with_the_worst(run: Run, texts: tuple[str, ...], code: int) -> None:
    """In the order 2, 1, 3, 0; each file has its row."""
    ended = run("--format", "json", texts=texts)
    rows = ended.document["files"]

    assert code == ended.code
    assert isinstance(rows, list)
    assert [ABOUT | {"verdict", "error"}] * 2 == [set(row) for row in rows]


def test_a_file_that_is_not_there_outranks_all(run: Run) -> None:
    """2, and the others are explained all the same."""
    ended = run("/nowhere.txt", "--format", "json", texts=(BAD,))
    rows = ended.document["files"]

    assert 2 == ended.code
    assert isinstance(rows, list)
    assert ["no_go", None] == [row["verdict"] and row["verdict"]["answer"] for row in rows]


def test_stdin_is_a_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named by a dash."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BAD.encode())))

    assert 1 == run("-").code


def test_a_report_is_for_another_command(run: Run) -> None:
    """Recognised by itself, also where it is cut, and with the command that judges it."""
    data = dump(healthy())
    ends = [run("--format", "json", texts=(part,)) for part in (data, data[: len(data) // 2])]
    ends.append(run("--kind", "report", "--format", "json", texts=(GOOD,)))

    assert [2] * 3 == [ended.code for ended in ends]
    assert all("prelaunch judge " in ended.err for ended in ends)


def test_a_page_is_written_beside(run: Run, tmp_path: Path) -> None:
    """Of one input."""
    page = tmp_path / "page.html"

    assert 1 == run("--html", page, texts=(BAD,)).code and "wrong is 7" in page.read_text()
    assert 2 == run("--html", page, texts=(BAD, GOOD)).code


@pytest.mark.parametrize("form", ["text", "json"])
def test_explain_prints_no_escape_sequence_of_a_file(run: Run, form: str) -> None:
    """No escape sequence of a file reaches the terminal."""
    ended = run("--format", form, texts=("fake tool\n\x1b[31mwrong 1\nend\n", BAD))

    assert "\x1b" not in ended.out + ended.err


def test_lines_end_as_they_may(run: Run) -> None:
    """A file that went through Windows says the same."""
    assert 0 == run(texts=("\ufeff" + GOOD.replace("\n", "\r\n"),)).code
