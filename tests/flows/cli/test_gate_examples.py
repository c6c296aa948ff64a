"""`prelaunch gate` and `plan` of a file whose values are still an example's: refused before anything starts, or said and run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flows.cli.main import main
from tasks.gate.context import open_gate_context
from tasks.gate.submission import PreflightFailed, run_preflight
from tasks.gate_file.request import GateRequest
from tasks.store.base import Store
from tasks.store.layout import preflight_key
from tests.flows.gates import write_gate

SAGEMAKER = Path(__file__).parents[3] / "deployments" / "gates" / "sagemaker-p5.toml"


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of its own, where no service is named."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)


def test_a_gate_with_an_example_is_rejected_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 with file, key, line, the remedy and the other places; nothing was written, and every file says it."""
    code = main(["gate", str(SAGEMAKER), "--format", "json", "--summary", "summary.md"])
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]

    assert (2, "cluster.options.image", 21) == (code, error["path"], error["line"])
    assert (
        "line 21: cluster.options.image: 123456789012 is an example, and has to be replaced. Write your own"
        in err
    )
    assert "The same holds for cluster.options.role_arn (line 22)" in error["message"]
    assert "REJECTED" in (tmp_path / "summary.md").read_text()
    assert not (tmp_path / ".prelaunch").exists()


def test_plan_ends_as_the_gate_would(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2, said above the tables; offline it only shows what the file asks for."""
    monkeypatch.setattr("flows.cli.plan.preflight", lambda launcher, plans: ())
    code, out = main(["plan", str(SAGEMAKER)]), capsys.readouterr().out

    assert 2 == code
    assert "This gate would not start: cluster.options.image (line 21): 123456789012 is an example" in out
    assert 0 == main(["plan", str(SAGEMAKER), "--offline"])


def kept(file: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A session as far as the preflight goes, of an engine that says nothing; `session.put` is what was stored."""
    monkeypatch.setattr("tasks.gate.submission.preflight", lambda launcher, plans: ())
    put: dict[str, bytes] = {}
    real = open_gate_context(GateRequest(gate_file=str(file)))
    context = replace(real, store=cast(Store, SimpleNamespace(put=put.__setitem__)))
    return SimpleNamespace(context=context, preflight_done=False, launches=True, gate_id="g-1", put=put)


def test_a_run_on_a_server_is_rejected_by_its_preflight(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the key, so that its line is found; nothing is kept of a gate that begins nothing."""
    session = kept(SAGEMAKER, monkeypatch)
    with pytest.raises(PreflightFailed, match="an example, and has to be replaced") as caught:
        run_preflight(session)

    assert ("cluster.options.image", True, {}) == (caught.value.key, session.preflight_done, session.put)


def test_a_gate_that_may_run_warns_of_what_may_be_an_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The preflight keeps it with key and line, so that it stands on the gate's pages; a healthy file has no such line."""
    file = write_gate(tmp_path)
    healthy = kept(file, monkeypatch)
    run_preflight(healthy)
    text = file.read_text()
    file.write_text(f'{text}\n[approval]\napprovers = ["U012AB3CD"]\n')
    session = kept(file, monkeypatch)
    run_preflight(session)
    (line,) = json.loads(session.put[preflight_key("g-1")])

    assert {} == healthy.put
    assert ("warning", "approval.approvers[0]") == (line["result"], line["key"])
    assert f"(line {len(file.read_text().splitlines())})" in line["subject"]
