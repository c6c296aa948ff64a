"""The list of known vulnerabilities: what could not be looked up is never a good result."""

from __future__ import annotations

import importlib.util
from importlib import metadata
from pathlib import Path

import pytest

from tests.architecture import installed

# What stands in for pip-audit: it checks how it is called, then says what the test gave it.
FAKE = """
import json, sys
from importlib import metadata
from pathlib import Path
requirements = Path(sys.argv[sys.argv.index("--requirement") + 1]).read_text().split()
assert "--disable-pip" in sys.argv and "--no-deps" in sys.argv
assert not [line for line in requirements if "+" in line or line.startswith("prelaunch==")]
{body}
"""
ALL = "rows = [dict(name=line.partition('==')[0], version='1', vulns=[]) for line in requirements]\n"
SAY = "print(json.dumps(dict(dependencies=rows)))\n"


def test_without_pip_audit_it_says_that_it_could_not_look(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the command that installs it; the exit code is 3."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    assert 3 == installed.audit()
    assert "were not looked up: pip-audit is not installed. Install it: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        (ALL + SAY, 0, "0 have known vulnerabilities"),
        (
            ALL + "rows[0]['vulns'] = [dict(id='PYSEC-1', fix_versions=['2'])]\n" + SAY + "sys.exit(1)",
            1,
            "1: PYSEC-1, fixed in 2",
        ),
        (
            ALL + "rows[0] = dict(name='odd', skip_reason='not on the index')\n" + SAY,
            3,
            "odd: not looked up: not on the index",
        ),
        (ALL + "del rows[0]\n" + SAY, 3, "packages were looked up"),
        (
            "sys.exit('ConnectionError: no route to host')",
            3,
            "reached no database: ConnectionError: no route",
        ),
        ("print('[]')", 3, "reached no database"),
        ("", 3, "reached no database: it said nothing"),
    ],
    ids=["none", "one", "skipped", "left out", "offline", "another answer", "silent"],
)
def test_the_audit_is_good_only_if_all_was_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], body: str, code: int, says: str
) -> None:  # fmt: skip
    """pip-audit without a network ends with 1, as it does for a vulnerability: its answer tells them apart."""
    (tmp_path / "pip_audit.py").write_text(FAKE.format(body=body))
    few = {name: metadata.distribution(name) for name in ("prelaunch", "pydantic", "torch")}
    monkeypatch.setattr(installed, "installed", lambda: few)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)

    assert code == installed.audit()
    assert says in "".join(capsys.readouterr())
