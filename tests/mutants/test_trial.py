"""A mutant lives where tests are weak, and dies where they are strong."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.architecture.graph import graph
from tests.mutants.__main__ import summed_up
from tests.mutants.choice import fast_tests
from tests.mutants.mutations import mutants_of
from tests.mutants.survivors import Survivor
from tests.mutants.trial import Copy, Fate, Trial

PLANTED = b"def passed(value):\n    while value == 99:\n        pass\n    return value < 3\n"
WEAK = "from planted.limit import passed\n\ndef test_weak():\n    assert passed(1)\n"
STRONG = "from planted.limit import passed\n\ndef test_strong():\n    assert passed(2) and not passed(3)\n"


def write(folder: Path, files: dict[str, str]) -> None:
    """These texts, below a folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    """A copy of a tree with one function and two tests of it."""
    root = tmp_path / "root"
    write(root, {"planted/limit.py": PLANTED.decode(), "test_weak.py": WEAK, "test_strong.py": STRONG})
    markers = "\n".join(f"  {name}" for name in ("long", "alone", "root", "needs", "browser"))
    (root / "pytest.ini").write_text(f"[pytest]\nmarkers =\n{markers}\n")
    subprocess.run(("git", "init", "-q", str(root)), check=True)
    return Copy(root, tmp_path / "copy")


def test_a_mutant_lives_with_a_weak_test_and_dies_of_a_strong_one_or_of_the_time(
    copy: Copy, tmp_path: Path
) -> None:
    """Neither the tree nor the copy keeps a change."""
    mutant = next(one for one in mutants_of("planted.limit", PLANTED, {}) if one.change == "< -> <=")
    fates = [
        copy.try_on(mutant.module, mutant.source, (test,), 60).fate
        for test in ("test_weak.py", "test_strong.py")
    ]

    assert [Fate.SURVIVED, Fate.KILLED] == fates
    endless = next(one for one in mutants_of("planted.limit", PLANTED, {}) if one.change == "== -> !=")
    assert Fate.TIMED_OUT is copy.try_on(endless.module, endless.source, ("test_weak.py",), 1.5).fate
    assert {PLANTED} == {(tmp_path / where / "planted/limit.py").read_bytes() for where in ("root", "copy")}


@pytest.mark.parametrize(
    ("survivors", "listed", "status"), [(0, 0, 0), (1, 0, 1), (1, 1, 0), (2, 2, 1)],
    ids=["all die", "one is not listed", "one is listed", "too many"],
)  # fmt: skip
def test_the_exit_status_follows_from_who_survived(survivors: int, listed: int, status: int) -> None:
    """A survivor without a reason fails the command; so does a share below 90 %, whatever is listed."""
    mutants = mutants_of("m", b"".join(b"x%d = %d\n" % (n, n) for n in range(10)), {})
    fates = [Fate.SURVIVED] * survivors + [Fate.KILLED] * (10 - survivors)
    known = [Survivor("m", mutant.original, mutant.change, "equivalent") for mutant in mutants[:listed]]
    tried = [(mutant, Trial(fate, 0.0, "")) for mutant, fate in zip(mutants, fates, strict=True)]

    assert status == summed_up(tried, known, 0.0)


FILES = {
    "checks/judge/limit.py": "",
    "checks/judge/verdict.py": "from checks.judge.limit import passed",
    "tests/checks/judge/test_limit.py": "from checks.judge.limit import passed",
    "tests/checks/judge/test_verdict.py": "from checks.judge.verdict import judged",
    "tests/checks/test_report.py": "from checks.judge.verdict import judged",
    "tests/checks/judge/test_served.py": "from moto import server\nfrom checks.judge.limit import passed",
    "tests/checks/judge/test_helped.py": "from tests.helper import start\nfrom checks.judge.limit import passed",
    "tests/helper.py": "import subprocess",
    "tests/survival/test_gate.py": "from checks.judge.limit import passed",
}


def test_the_nearest_fast_tests_come_first(tmp_path: Path) -> None:
    """The tests of the module itself, then those of its folder; none that starts a server or a process, by itself or by a helper."""
    write(tmp_path, FILES)

    assert (
        "tests/checks/judge/test_limit.py",
        "tests/checks/judge/test_verdict.py",
        "tests/checks/test_report.py",
    ) == (fast_tests("checks.judge.limit", graph(tmp_path, "checks", "tests"), tmp_path))
