"""What reads files alone works where Prefect is broken, and does not import it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from checks.documents.report import dump, dump_plain
from tests.installation.hostile import TRAP, environment
from tests.sample_reports import POLICY, healthy

ROOT = Path(__file__).parents[3]
PAGES = ("--html", "page.html", "--junit", "page.xml", "--summary", "page.md")


@pytest.mark.parametrize(
    ("words", "code"),
    [(("facts", "p5.48xlarge"), 0), (("judge", "good.json", "--policy", "policy.json", *PAGES), 0)],
    ids=["facts", "judge"],
)
def test_files_are_read_where_prefect_is_broken(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    """A package `prefect` that raises when it is imported is first on the path; it also writes that it was imported."""
    imported = tmp_path / "imported"
    broken = tmp_path / "packages" / "prefect"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text(TRAP.format(marker=str(imported)))
    (tmp_path / "good.json").write_bytes(dump(healthy()))
    (tmp_path / "policy.json").write_bytes(dump_plain(POLICY))
    done = subprocess.run(
        (sys.executable, "-m", "flows.cli.main", *words), cwd=tmp_path,
        env=environment(f"{broken.parent}:{ROOT}", PRELAUNCH_DEBUG="1"),
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (code, False) == (done.returncode, imported.exists()), done.stderr
    assert "Traceback" not in done.stderr
