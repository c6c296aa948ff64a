"""`prelaunch gate` in this process: what a gate stands on is opened once, however many steps need it."""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from checks.facts import builtin
from checks.facts.provenance import table_bytes
from flows.cli.main import main
from flows.cli.prefect_server import HEARTBEAT, QUIET
from tasks.orchestration.foreground import release_signals
from tests.flows.pools import fake_gate

pytestmark = pytest.mark.usefixtures("engine")
_SEEN: list[Counter[Path]] = []
FACTS = Path(builtin.__file__).parent


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and _SEEN and isinstance(arguments[0], str):
        _SEEN[-1][Path(arguments[0])] += 1


@contextmanager
def openings() -> Iterator[Counter[Path]]:
    """How often this process opens each file for the time of the block."""
    if not _SEEN:
        sys.addaudithook(_hook)
    _SEEN.append(Counter())
    try:
        yield _SEEN[-1]
    finally:
        _SEEN.append(Counter())


def _with_topology(folder: Path) -> Path:
    """A gate file that names a policy and a topology beside it."""
    folder.mkdir(exist_ok=True)
    (folder / "topology.conf").write_text("SwitchName=leaf Nodes=node-[0-1]\n", encoding="utf-8")
    return fake_gate(folder, cluster='topology = "topology.conf"')


@pytest.mark.usefixtures("prefect_backend")
def test_a_gate_of_the_command_line_opens_each_of_its_files_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command opens gate file, policy, topology and facts; the run's name and the flow use what it has read."""
    path = _with_topology(tmp_path)
    builtin.builtin.cache_clear()
    table_bytes.cache_clear()
    for key, value in {**QUIET, **HEARTBEAT}.items():
        monkeypatch.setenv(key, value)  # the command sets them for good
    heeded = signal.getsignal(signal.SIGTERM)
    try:
        with openings() as seen:
            code = main(["gate", str(path), "--check-only", "--format", "json"])
    finally:
        release_signals()
        signal.signal(signal.SIGTERM, heeded)

    written = capsys.readouterr()
    assert 0 == code, written.err
    assert "go" == json.loads(written.out)["verdict"]["answer"]
    assert {"gate.toml": 1, "policy.toml": 1, "topology.conf": 1} == {
        file.name: count for file, count in seen.items() if file.parent == tmp_path and file.suffix
    }
    facts = {
        file.name: count for file, count in seen.items() if file.parent == FACTS and file.suffix == ".json"
    }
    assert dict.fromkeys(sorted(path.name for path in FACTS.glob("*.json")), 1) == dict(sorted(facts.items()))
