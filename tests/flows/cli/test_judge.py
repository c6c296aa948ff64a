"""`prelaunch judge`: the verdict from the report alone; 0 only for a go, and one document on stdout for every code."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

import pytest

from checks.documents.report import dump, load, plain
from checks.facts.builtin import builtin
from checks.judge.verdict import decide
from checks.model import Report
from tasks.render.findings import verdict_json
from tasks.reports.read import exit_code, worst_code
from tests.flows.cli.conftest import Run
from tests.flows.cli.test_store import policy_file
from tests.flows.gates import KEYS
from tests.sample_reports import POLICY, healthy, verdict_of, with_metric, without_node, wrong_sums

GOOD, BAD, MISSING = healthy(), wrong_sums(healthy()), without_node(healthy(3, 1), "node-2")
WHOLE_POLICY = "name = 'x'\ninstance_types = []\non_warn = 'go'\nchecks = {}\n"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """The sample policy as JSON."""
    return policy_file(tmp_path, POLICY)


def _write(folder: Path, report: Report | bytes, name: str = "report.json") -> Path:
    file = folder / name
    file.write_bytes(report if isinstance(report, bytes) else dump(report))
    return file


@pytest.mark.parametrize(
    ("report", "code", "answer", "level"),
    [(GOOD, 0, "go", "PASS"), (BAD, 1, "no_go", "FAIL"), (MISSING, 3, "cannot_tell", "FAIL")],
)
def test_the_exit_code_is_the_answer(
    run: Run, tmp_path: Path, policy: Path, report: Report, code: int, answer: str, level: str
) -> None:
    """0 go, 1 no-go, 3 cannot tell; the document says the same, with every key."""
    ended = run("judge", _write(tmp_path, report), "--policy", policy, "--format", "json")

    assert (code, answer, level) == (ended.code, ended.document["answer"], ended.document["level"])
    assert set(ended.document) == {*KEYS, "cost"}


def test_the_document_is_as_designed(run: Run, tmp_path: Path, policy: Path) -> None:
    """Coverage by declared and required, findings with seven keys, digests."""
    document = run("judge", _write(tmp_path, BAD), "--policy", policy, "--format", "json").document
    verdict = decide(load(dump(BAD)), POLICY, builtin())

    assert {
        "nodes": {"observed": 2, "declared": 2},
        "gpus": {"observed": 0, "declared": 0},
        "ranks": {"observed": 4, "declared": 4},
        "checks": {"observed": 25, "required": 25},
    } == document["coverage"]
    assert plain(verdict.findings) == document["findings"]
    assert ["node-1"] == document["condemned"]
    assert {"report", "policy", "facts", "baseline", "engine"} == set(plain(verdict.digests))  # type: ignore[call-overload]


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_same_twice_is_the_same_bytes(run: Run, tmp_path: Path, policy: Path, form: str) -> None:
    """In another process, with another hash seed, too."""
    words = ["judge", str(_write(tmp_path, MISSING)), "--policy", str(policy), "--format", form]
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path.cwd())}
    argv = [sys.executable, "-m", "flows.cli.main", *words]
    there = subprocess.run(argv, capture_output=True, env=env)

    assert run(*words).out == there.stdout.decode()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"[]", id="list"),
        pytest.param(dump(GOOD)[:-9], id="truncated"),
        pytest.param(dump(GOOD).replace(b'"schema_version":1', b'"schema_version":9'), id="unknown schema"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b'{"\\ud800":1}', id="lone surrogate"),
    ],
)
@pytest.mark.parametrize("with_policy", [True, False])
def test_judge_cannot_tell_from_a_file_that_is_no_report(
    run: Run, tmp_path: Path, policy: Path, data: bytes, with_policy: bool
) -> None:
    """3, a whole verdict, coverage of nothing; every format works, no traceback."""
    file = _write(tmp_path, data)
    words = ("--policy", policy) if with_policy else ()
    ended = run("judge", file, *words, "--format", "json")

    assert (3, "cannot_tell") == (ended.code, ended.document["answer"])
    assert ended.document["coverage"]["nodes"] == {"observed": 0, "declared": 1}  # type: ignore[index]
    for form in ("text", "markdown", "junit") if with_policy else ():
        again = run("judge", file, *words, "--format", form)
        assert (3, "") == (again.code, again.err)
        assert "cannot be read" in again.out


def test_a_lone_surrogate_in_a_report_reaches_every_output(run: Run, tmp_path: Path, policy: Path) -> None:
    """JSON says it as it was, the rest writes it out."""
    report = replace(with_metric(BAD, "system.identity", "node-0", "kernel", "\ud800"), gate_id="\udfff")
    file = _write(tmp_path, report)
    page = tmp_path / "page.html"
    for form in ("text", "json", "markdown", "junit"):
        ended = run("judge", file, "--policy", policy, "--format", form, "--html", page)
        assert 1 == ended.code
        assert "\\ud800" in ended.out or "\\udfff" in ended.out
    assert "\\udfff" in page.read_text(encoding="utf-8")


def test_files_are_written_beside(run: Run, tmp_path: Path, policy: Path) -> None:
    """--junit, --summary and --html, whatever stdout gets."""
    files = {flag: tmp_path / f"out.{flag}" for flag in ("junit", "summary", "html")}
    words = [word for flag, file in files.items() for word in (f"--{flag}", file)]
    ended = run("judge", _write(tmp_path, BAD), "--policy", policy, "--format", "json", *words)

    assert 1 == ended.code and ended.document["level"] == "FAIL"
    assert "1" == xml.fromstring(files["junit"].read_text()).get("failures")
    assert files["summary"].read_text().startswith("# NO-GO sample-gate: node-1, rank 3 computes wrong sums")
    assert files["html"].read_text().startswith("<!doctype html>")
    assert {"out.junit", "out.summary", "out.html", "report.json", "policy.json"} == set(os.listdir(tmp_path))


@pytest.mark.parametrize("place", ["missing/out.html", "."])
def test_a_file_that_cannot_be_written_is_rejected_at_once(
    run: Run, tmp_path: Path, policy: Path, place: str
) -> None:
    """2, before anything is judged; nothing is left behind."""
    words = ("judge", _write(tmp_path, GOOD), "--policy", policy, "--format", "json")
    ended = run(*words, "--html", tmp_path / place)

    assert (2, {"error"}) == (ended.code, set(ended.document))
    assert {"report.json", "policy.json"} == set(os.listdir(tmp_path))


def test_a_missing_report_is_rejected(run: Run, tmp_path: Path, policy: Path) -> None:
    """2 with the error's five keys; the text on stderr names file and remedy."""
    file = tmp_path / "gone.json"
    ended = run("judge", file, "--policy", policy, "--format", "json")
    error = ended.document["error"]

    assert isinstance(error, dict)
    assert {"kind", "file", "path", "line", "message", "nearest"} == set(error)
    assert (2, str(file)) == (ended.code, error["file"])
    assert "gone.json" in ended.err and "Name a report" in ended.err


@pytest.mark.parametrize(
    ("text", "path", "nearest"),
    [
        ("name = 'x'\nnaem = 1", "naem", "name"),
        ("name = ", None, None),
        ("a = [" + "[" * 5000, None, None),
        (WHOLE_POLICY + "max_unfit_fraction = 0x" + "f" * 5000, "max_unfit_fraction", None),
        (WHOLE_POLICY + "max_unfit_fraction = nan", "max_unfit_fraction", None),
        ("\udcff", None, None),
    ],
)
def test_a_bad_policy_is_rejected_with_its_place(
    run: Run, tmp_path: Path, text: str, path: str | None, nearest: str | None
) -> None:
    """File, dotted path, nearest key."""
    file = tmp_path / "policy.toml"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    ended = run("judge", _write(tmp_path, GOOD), "--policy", file, "--format", "json")
    error = ended.document["error"]

    assert isinstance(error, dict)
    assert (2, str(file), path, nearest) == (ended.code, error["file"], error["path"], error["nearest"])


def test_the_default_policy_is_the_types_own_and_is_named(run: Run, tmp_path: Path) -> None:
    """On stderr; a type without one is rejected."""
    ended = run("judge", _write(tmp_path, GOOD), "--format", "json")
    other = replace(GOOD, declared=replace(GOOD.declared, instance_type="zz.9"))
    rejected = run("judge", _write(tmp_path, other), "--format", "json")

    assert "policy: local (" in ended.err and "local.toml" in ended.err
    assert (2, {"error"}) == (rejected.code, set(rejected.document))


def test_a_folder_stdin_and_a_pipe_are_read(run: Run, tmp_path: Path, policy: Path) -> None:
    """A folder that holds one report, at any depth; "-"; a FIFO as shells make it."""
    deep = tmp_path / "gates" / "g1"
    deep.mkdir(parents=True)
    _write(deep, BAD, "health_check_metrics.json")
    command = f"{shlex.quote(sys.executable)} -m flows.cli.main judge %s --policy {shlex.quote(str(policy))} --format json"
    cat = f"cat {deep}/health_check_metrics.json"
    scripts = [f"{cat} | {command % '-'}", command % f"<({cat})"]
    ends = [subprocess.run(["bash", "-c", script], capture_output=True, text=True) for script in scripts]
    words = ("--policy", policy, "--format", "json")
    folders = [run("judge", folder, *words) for folder in (deep, tmp_path / "gates")]

    assert [1] * 4 == [*(end.returncode for end in ends), *(end.code for end in folders)], ends
    assert 1 == len({*(end.stdout for end in ends), *(end.out for end in folders)})


def test_a_folder_with_none_or_two_reports_is_rejected(run: Run, tmp_path: Path, policy: Path) -> None:
    """Nobody guesses."""
    assert 2 == run("judge", tmp_path, "--policy", policy).code
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        _write(tmp_path / name, GOOD, "health_check_metrics.json")
    ended = run("judge", tmp_path, "--policy", policy)

    assert 2 == ended.code and "2 files" in ended.err


def test_an_endless_device_is_not_read(run: Run, policy: Path) -> None:
    """/dev/zero is no report."""
    assert 2 == run("judge", "/dev/zero", "--policy", policy).code


@pytest.mark.parametrize(
    ("reports", "code"),
    [([GOOD, GOOD], 0), ([GOOD, MISSING], 3), ([MISSING, BAD, GOOD], 1), ([BAD, None, MISSING], 2)],
)
def test_judge_of_several_reports_exits_with_the_worst_code(
    run: Run, tmp_path: Path, policy: Path, reports: list[Report | None], code: int
) -> None:
    """In the order 2, 1, 3, 0; each has its row in the one document."""
    pairs = [(f"{i}.json", report) for i, report in enumerate(reports)]
    files = [tmp_path / name if report is None else _write(tmp_path, report, name) for name, report in pairs]
    ended = run("judge", *files, "--policy", policy, "--format", "json")
    rows = ended.document["verdicts"]

    assert isinstance(rows, list)
    assert (code, [str(file) for file in files]) == (ended.code, [row["file"] for row in rows])
    assert {("error", "file", "verdict")} == {tuple(sorted(row)) for row in rows}
    assert code == run("judge", *files, "--policy", policy).code


def test_judge_rejects_html_for_two_reports(run: Run, tmp_path: Path, policy: Path) -> None:
    """--html of two reports is a mistake."""
    file = _write(tmp_path, GOOD)

    assert 2 == run("judge", file, file, "--policy", policy, "--html", tmp_path / "x.html").code
    assert not (tmp_path / "x.html").exists()


def test_worst_of_nothing_is_not_a_go() -> None:
    """Nothing judged, nothing known."""
    assert (3, 2, 1) == (worst_code([]), worst_code([0, 3, 1, 2]), worst_code([3, 1, 0]))


def test_a_question_is_not_a_go() -> None:
    """ASK exits 1 until somebody has answered."""
    report = with_metric(GOOD, "system.clock", "node-0", "synchronised", False)
    asked = verdict_of(report, replace(POLICY, on_warn=type(POLICY.on_warn)("ask")))

    assert (1, "ask") == (exit_code(asked), verdict_json(asked)["answer"])


def _gemm(document: Any) -> Any:
    return document["checks"]["compute.gemm"]


def _first(document: Any) -> Any:
    return document["nodes"][0]


# What makes a report of two nodes hostile.
SWOLLEN: dict[str, Callable[[Any], object]] = {
    "two reports for one node": lambda d: d["nodes"].append({**_first(d), "rank": 1}),
    "two names for one rank": lambda d: d["nodes"][1].update(rank=0),
    "a list of a million": lambda d: _gemm(d)["metrics"]["gflops"].__setitem__(0, [1.5] * 1_000_000),
    "a name of a megabyte": lambda d: _first(d).update(name="n" * 1_000_000),
    "an identity of 20,000 names": lambda d: _first(d).update(
        identity={f"key-{i}": "x" for i in range(20_000)}
    ),
    "evidence of two megabytes": lambda d: _gemm(d)["evidence"].__setitem__(0, "e" * 2_000_000),
    "50,000 problems": lambda d: d.update(collection=[f"problem {index}" for index in range(50_000)]),
    "2,000 checks": lambda d: d["checks"].update({f"made.c{index}": _gemm(d) for index in range(2_000)}),
    "digits without end": lambda d: d["nodes"][1].update(rank="DIGITS"),
    "lists within lists": lambda d: _gemm(d)["metrics"]["gflops"].__setitem__(0, "LISTS"),
}
# What Python's own writer of JSON does not write.
TEXTS = {'"DIGITS"': "9" * 100_000, '"LISTS"': "[" * 3000 + "]" * 3000}


# Large, and whole: nothing is wrong with what they say.
HARMLESS = ("a list of a million", "an identity of 20,000 names", "evidence of two megabytes")


@pytest.mark.parametrize("part", SWOLLEN)
def test_a_hostile_report_is_answered_soon_and_in_few_words(
    run: Run, tmp_path: Path, policy: Path, part: str
) -> None:
    """Nobody can tell, or it is as healthy as it says; without a traceback, and on a page that people can open."""
    document = json.loads(dump(healthy()))
    SWOLLEN[part](document)
    text = json.dumps(document)
    for placeholder, real in TEXTS.items():
        text = text.replace(placeholder, real)
    file = _write(tmp_path, text.encode())
    begun = time.process_time()
    page = run("judge", file, "--policy", policy, "--format", "text")

    code, answer = (0, "GO ") if part in HARMLESS else (3, "CANNOT TELL ")
    assert (code, True, "") == (page.code, page.out.startswith(answer), page.err)
    assert len(page.out) < 100_000
    assert time.process_time() - begun < 20
