"""The known vulnerabilities of what is installed beside Prelaunch: `make audit`. The licences are in the SBOM of a release.

The audit asks pip-audit. Its exit code is 0 where every package was looked up and none is vulnerable, 1 where one is, and 3
where anything could not be looked up: nobody shall take that for a good result.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

OURS = "prelaunch"
AUDIT_S = 300
FOUND, NOT_LOOKED = 1, 3


def installed() -> dict[str, metadata.Distribution]:
    """Each installed distribution by its name; the first on the path is the one that is imported."""
    found: dict[str, metadata.Distribution] = {}
    for distribution in metadata.distributions():
        name = str(distribution.metadata["Name"] or "")
        if name:
            found.setdefault(name, distribution)
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def audit() -> int:
    """Print what pip-audit knows of the installed versions; returns the exit code."""
    if importlib.util.find_spec("pip_audit") is None:
        return _not_looked("pip-audit is not installed. Install it: .venv/bin/pip install pip-audit")
    # A local part, such as +cpu, is unknown to the database; the version before it is the one that was released.
    pins = [f"{name}=={one.version.partition('+')[0]}" for name, one in installed().items() if name != OURS]
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "installed.txt"
        requirements.write_text("".join(f"{pin}\n" for pin in pins))
        words = (
            "--disable-pip", "--no-deps", "--format", "json", "--progress-spinner", "off", "--requirement", str(requirements),
        )  # fmt: skip
        try:
            done = subprocess.run(
                (sys.executable, "-m", "pip_audit", *words), capture_output=True, text=True, timeout=AUDIT_S, check=False
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return _not_looked(f"pip-audit did not end within {AUDIT_S} s")
    try:
        rows = [dict(row) for row in json.loads(done.stdout)["dependencies"]]
    except (ValueError, KeyError, TypeError):
        last = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()[-1]
        return _not_looked(
            f"pip-audit ended with exit code {done.returncode} and reached no database: {last[:300]}"
        )
    return _judge(rows, len(pins))


def _judge(rows: list[dict[str, Any]], asked: int) -> int:
    looked_up = [row for row in rows if "vulns" in row]
    found = [row for row in looked_up if row["vulns"]]
    for row in found:
        for one in row["vulns"]:
            fixed = ", ".join(one.get("fix_versions", ())) or "no version"
            print(f"{row['name']} {row['version']}: {one['id']}, fixed in {fixed}")
    skipped = [row for row in rows if "vulns" not in row]
    for row in skipped:
        print(f"{row.get('name')}: not looked up: {row.get('skip_reason', 'no reason given')}")
    print(f"{len(looked_up)} of {asked} packages were looked up, {len(found)} have known vulnerabilities")
    if found:
        return FOUND
    return NOT_LOOKED if len(looked_up) < asked else 0


def _not_looked(why: str) -> int:
    print(f"Known vulnerabilities were not looked up: {why}", file=sys.stderr)
    return NOT_LOOKED


if __name__ == "__main__":
    sys.exit(audit())
