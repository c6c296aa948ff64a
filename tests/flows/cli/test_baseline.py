"""`prelaunch fleet baseline` and `judge --baseline`: what is written, what is refused, and who is named."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from checks.documents.report import dump, dump_plain
from checks.judge.baseline.bands import digest_of, load
from checks.model import Report
from tests.flows.cli.conftest import Ended, Run
from tests.sample_reports import POLICY, healthy, with_metric, wrong_sums

GATES = Path(__file__).parents[3] / "deployments" / "gates"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The sample policy, and two reports of four healthy nodes."""
    (tmp_path / "policy.json").write_bytes(dump_plain(POLICY))
    for index in range(2):
        write(tmp_path, f"r{index}.json", replace(healthy(4, 2), gate_id=f"gate-{index}"))
    return tmp_path


def write(folder: Path, name: str, report: Report) -> Path:
    """The report as a file."""
    (folder / name).write_bytes(dump(report))
    return folder / name


def learn(run: Run, folder: Path, *words: object) -> Ended:
    """Learn from both reports."""
    reports = (folder / "r0.json", folder / "r1.json")
    files = ("--policy", folder / "policy.json", "--out", folder / "b.json")
    return run("fleet", "baseline", "learn", *reports, *files, *words)


def test_learning_writes_a_baseline_and_says_what_it_knows(run: Run, folder: Path) -> None:
    """Text on stdout, the digest on stderr, the file whole."""
    done = learn(run, folder)
    made = load((folder / "b.json").read_bytes())

    assert 0 == done.code, done.err
    assert "compute.gemm gflops: median 43.5" in done.out
    assert digest_of(made) in done.err and len(made.reports) == 2


def test_a_baseline_is_not_written_over(run: Run, folder: Path) -> None:
    """Unless --force says so; the old one stays as it was."""
    (folder / "b.json").write_text("mine")
    refused = learn(run, folder)
    kept = (folder / "b.json").read_text()
    forced = learn(run, folder, "--force")

    assert (2, "mine", 0) == (refused.code, kept, forced.code)
    assert "--force" in refused.err


def test_a_dangling_link_is_there_already(run: Run, folder: Path) -> None:
    """What the name points to is not made."""
    os.symlink(folder / "elsewhere", folder / "b.json")

    assert (2, False) == (learn(run, folder).code, (folder / "elsewhere").exists())


def test_a_report_that_cannot_be_read_stops_the_learning(run: Run, folder: Path) -> None:
    """It is named, and nothing is written: whoever leaves it out does so knowingly."""
    (folder / "r1.json").write_bytes((folder / "r1.json").read_bytes()[:-20])
    done = learn(run, folder, "--format", "json")

    assert (2, False) == (done.code, (folder / "b.json").exists())
    assert "it is not a report of Prelaunch" in done.err
    assert "r1.json" in json.loads(done.out)["error"]["file"]


def test_baseline_command_writes_no_file_when_it_learned_no_value(run: Run, folder: Path) -> None:
    """Two reports of which one node has failed in each, too few of everything else: nobody can tell."""
    for index in range(2):
        write(folder, f"r{index}.json", wrong_sums(replace(healthy(2, 2), gate_id=f"g{index}")))
    done = learn(run, folder)

    assert (3, False) == (done.code, (folder / "b.json").exists())
    assert "Left out of the baseline" in done.out and "node-1" in done.out


def test_show_prints_what_learn_printed(run: Run, folder: Path) -> None:
    """The file says all of it."""
    learned, shown = learn(run, folder), run("fleet", "baseline", "show", folder / "b.json")

    assert (0, learned.out) == (shown.code, shown.out)


@pytest.mark.parametrize("text", ["", "{}", '{"schema_version": 1, "bands": []}', "[1"])
def test_baseline_and_judge_reject_a_file_that_is_no_baseline(run: Run, folder: Path, text: str) -> None:
    """By show and by judge, and nothing is judged without it."""
    (folder / "b.json").write_text(text)
    shown = run("fleet", "baseline", "show", folder / "b.json")
    judged = run("judge", folder / "r0.json", "--baseline", folder / "b.json", "--format", "json")

    assert (2, 2) == (shown.code, judged.code)
    assert "b.json" in json.loads(judged.out)["error"]["file"]


def test_judge_warns_below_the_band(run: Run, folder: Path) -> None:
    """The finding, and the baseline's digest, are in the document."""
    learn(run, folder)
    report = with_metric(healthy(4, 2), "compute.gemm", "node-1/rank-3", "gflops", 9.0)
    slow = write(folder, "slow.json", report)
    words = ("judge", slow, "--policy", folder / "policy.json", "--format", "json")
    without, within = run(*words), run(*words, "--baseline", folder / "b.json")
    verdicts = [json.loads(done.out) for done in (without, within)]

    assert ["PASS", "WARN"] == [verdict["level"] for verdict in verdicts]
    assert "below the learned band" in verdicts[1]["findings"][0]["message"]
    assert digest_of(load((folder / "b.json").read_bytes())) == verdicts[1]["digests"]["baseline"]
    assert within.out == run(*words, "--baseline", folder / "b.json").out


@pytest.mark.parametrize("kind", ["folder", "store", "gate file"])
def test_a_store_without_a_report_teaches_nothing_yet(run: Run, tmp_path: Path, kind: str) -> None:
    """Exit code 3 and one line; a folder that is not there is a mistake, and 2."""
    (tmp_path / "store" / "gates").mkdir(parents=True)
    (tmp_path / "folder").mkdir()
    text = (GATES / "local.toml").read_text().replace('".prelaunch"', f'"{tmp_path}/none"')
    (tmp_path / "gate.toml").write_text(text)
    named = tmp_path / {"gate file": "gate.toml"}.get(kind, kind)
    ended = run("fleet", "baseline", "learn", named, "--out", tmp_path / "made.json")
    misspelt = run("fleet", "baseline", "learn", tmp_path / "stor", "--out", tmp_path / "made.json")

    assert (3, "", 1) == (ended.code, ended.out, ended.err.count("\n")), ended.err
    assert "no baseline was written: " in ended.err
    assert "it holds no reports yet. Each range needs 8" in ended.err
    assert 2 == misspelt.code
