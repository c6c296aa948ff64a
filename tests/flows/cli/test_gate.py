"""`prelaunch gate` as a person runs it: a process of its own, the embedded server, signals, and what its nodes lack."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock
from xml.etree import ElementTree

import jsonschema
import pytest
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from checks.documents.report import dump_plain
from flows.cli.prefect_server import HEARTBEAT, QUIET
from tasks.gate.context import open_gate_context
from tasks.gate.lease.lease import lease_of_cluster
from tasks.gate.lease.owner import is_dead
from tasks.gate.submission import PreflightFailed, run_preflight
from tasks.gate_file.request import GateRequest
from tasks.launchers.local.network import lacks_rights
from tasks.orchestration.foreground import release_signals
from tasks.orchestration.server.server import EmbeddedServer, ServerError
from tasks.reports.schema import RESULT_PATH
from tasks.store.base import Store
from tasks.store.layout import lease_key, preflight_key
from tests.flows.cli.conftest import Run
from tests.flows.gates import processes_below, runs, write_gate
from tests.tasks.gate.lease.test_lease import DEAD, NOW, lease
from tests.tasks.sessions import TRAIN_JOB

SAGEMAKER = Path(__file__).parents[3] / "deployments" / "gates" / "sagemaker-p5.toml"

ROOT = Path(__file__).parents[3]
KEYS = {
    "answer", "decision", "culprits", "rejected", "first_line", "verdict", "cost", "images", "training", "placement", "approval",
    "left_out", "report", "html", "gate_id", "reason",
}  # fmt: skip
SLEEPS = (
    "import time; print('step 1', flush=True); open('began', 'a').write('x'); time.sleep(3); print('trained')"
)
SLEEP = ("{python}", "-c", SLEEPS)


def environment(folder: Path, **more: str) -> dict[str, str]:
    """A person's environment, without a Prefect server."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PREFECT_", "PRELAUNCH_"))}
    own = {"PYTHONPATH": str(ROOT), "PREFECT_HOME": str(folder / "home"), "FAKE_NODE": "healthy"}
    return {**kept, "PRELAUNCH_STATE": os.environ["PRELAUNCH_STATE"], **own, **more}


def told(server: EmbeddedServer) -> dict[str, str]:
    """What names a server that runs already: where a test is not about the gate's own, it starts none."""
    return server.client_environment({})


COMMAND = (sys.executable, "-m", "flows.cli.main")


def start(path: Path, *words: str, **more: str) -> subprocess.Popen[str]:
    """Start the command with --format json."""
    argv = (*COMMAND, "gate", str(path), "--format", "json", *words)
    folder = path.parent
    return subprocess.Popen(
        argv, cwd=folder, env=environment(folder, **more), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finish(command: subprocess.Popen[str]) -> tuple[int, Any, str]:
    """Exit code, the one document of stdout, and stderr."""
    stdout, stderr = command.communicate()
    assert "Traceback" not in stderr
    document = json.loads(stdout)
    jsonschema.Draft202012Validator(json.loads(RESULT_PATH.read_text())).validate(document)
    return command.returncode, document, stderr


def gate(path: Path, *words: str, **more: str) -> tuple[int, Any, str]:
    """Run it to its end."""
    return finish(start(path, *words, **more))


def until(condition: Callable[[], object], command: subprocess.Popen[str]) -> None:
    """Wait for something that the command is to bring about, while it lives."""
    while not condition():
        assert command.poll() is None, command.communicate()
        time.sleep(0.02)


def clean(folder: Path) -> bool:
    """Whether no process, lease or copy is left."""
    store = folder / "store"
    leases = list((store / "leases").rglob("*.json"))
    return not processes_below(folder) and not leases and not list((store / "work").glob("*"))


def served(folder: Path) -> bool:
    """Whether a server of the gate's own was started."""
    return (folder / "store" / "prefect" / "server.log").exists()


def test_a_go_prints_one_document(tmp_path: Path, prefect_backend: EmbeddedServer) -> None:
    """Decision, verdict with coverage, training and files; nothing is left. Its own server is in tests/documents/test_readme.py."""
    code, said, stderr = gate(write_gate(tmp_path), **told(prefect_backend))

    assert (code, set(said), said["decision"]) == (0, KEYS, "launched")
    assert said["verdict"]["coverage"]["ranks"] == {"observed": 4, "declared": 4}
    assert said["training"] == {"job_id": f"{said['gate_id']}-train-1", "state": "succeeded"}
    assert said["placement"] == {"kind": "pinned", "proof": ["all 2 hosts confirmed: boot id"]}
    assert Path(said["report"]).is_file() and Path(said["html"]).is_file()
    assert "starting (" not in stderr and "SIG" not in stderr
    assert " | " not in stderr  # Prefect's own lines
    assert clean(tmp_path)


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (("--set", "cluster.declared.nodez=1"), "cluster.declared.nodez"),
        (("--set", "training.command=['sh']"), "training.command"),
        (("--junit", "/nonexistent/x.xml"), None),
    ],
)
def test_gate_command_rejects_bad_input_before_the_start(
    tmp_path: Path, run: Run, words: tuple[str, ...], path: str | None
) -> None:
    """Exit code 2, the error's place, and no store was made."""
    ended = run("gate", write_gate(tmp_path), "--format", "json", *words)
    said: Any = ended.document

    assert (ended.code, set(said), said["error"]["path"]) == (2, {"error"}, path)
    assert "checks:" not in ended.err
    assert not (tmp_path / "store").exists()


def test_an_unwritable_store_is_rejected(tmp_path: Path, run: Run) -> None:
    """A file stands where the folder should be."""
    (tmp_path / "store").write_text("")

    ended = run("gate", write_gate(tmp_path), "--format", "json")

    assert ended.code == 2 and "cannot be written" in ended.err


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A gate whose store lies on a read-only file system."""
    if why := lacks_rights():
        pytest.skip(why)
    path = write_gate(tmp_path / "gate")
    store = path.parent / "store"
    store.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(store)), check=True)
    yield path
    subprocess.run(("umount", "-l", str(store)), check=True)


@pytest.mark.root
def test_a_read_only_store_is_rejected(read_only: Path, run: Run) -> None:
    """Root ignores modes, but not this."""
    ended = run("gate", read_only, "--format", "json")

    assert ended.code == 2 and "cannot be written" in ended.err
    assert "server" not in ended.err, "none was to be started"


def test_a_second_gate_is_told_who_holds_the_cluster_and_an_interrupt_ends_the_first(
    tmp_path: Path, prefect_backend: EmbeddedServer, run: Run
) -> None:
    """The second is rejected before any server is started, and takes nothing from the first; then that one ends what it started."""
    path = write_gate(tmp_path)
    first = start(path, "--summary", "page.md", FAKE_NODE="hang", **told(prefect_backend))
    until(lambda: runs(tmp_path / "store") == 2, first)
    lease = tmp_path / "store" / "leases" / "test.json"

    code, out, stderr = run("gate", path, "--format", "json")
    said = json.loads(out)["error"]
    holder = json.loads(lease.read_bytes())["gate_id"]
    alive = first.poll() is None and len(processes_below(tmp_path)) > 2
    first.send_signal(signal.SIGINT)
    ended, document, _ = finish(first)

    assert (2, True) == (code, alive)
    assert holder == document["gate_id"] and holder in said["message"]
    assert "busy" == said["kind"] and str(first.pid) in said["message"]
    assert not served(tmp_path) and "checks:" not in stderr
    assert (130, KEYS, None) == (ended, set(document), document["decision"])
    page = (tmp_path / "page.md").read_text()
    assert page.startswith("# CANCELLED test\n\ncancelled by SIGINT") and "0 of 1 nodes" not in page
    assert "By then" in page or "Nothing had been measured by then" in page
    assert clean(tmp_path)


def test_a_signal_ends_what_was_started(tmp_path: Path, prefect_backend: EmbeddedServer) -> None:
    """While it trains: the document and the store say so, and no job or lease is left. While it checks: the test above."""
    pages = ("--summary", "page.md", "--junit", "junit.xml", "--html", "page.html", "--logs", "logs.txt")
    command = start(write_gate(tmp_path, training=SLEEP), *pages, **told(prefect_backend))
    began = "store/clusters/*/jobs/*-train-*/nodes/*/began"
    until(lambda: len(list(tmp_path.glob(began))) == 2, command)

    command.send_signal(signal.SIGTERM)
    ended, said, _ = finish(command)

    assert (ended, set(said), said["decision"]) == (143, KEYS, "launched")
    assert clean(tmp_path)
    kept = json.loads((tmp_path / "store" / "gates" / said["gate_id"] / "outcome.json").read_text())
    assert ("cancelled", 143, said["reason"]) == (kept["ending"], kept["exit_code"], kept["reason"])
    _says_go_and_cancelled(tmp_path, said, "by SIGTERM")


def _says_go_and_cancelled(folder: Path, said: dict[str, Any], by: str) -> None:
    """One story on every channel: the verdict was a GO, and the training was started and ended."""
    line = f"CANCELLED test: cancelled {by} after the verdict GO; the training that it had started was ended"
    store = folder / "store" / "gates" / said["gate_id"]
    suite = ElementTree.parse(folder / "junit.xml").getroot()

    assert ("go", line) == (said["answer"], said["first_line"])
    assert {"job_id": f"{said['gate_id']}-train-1", "state": "cancelled"} == said["training"]
    for page in (folder / "page.md", store / "summary.md"):
        assert page.read_text().startswith(f"# {line}\n") and "2 of 2 nodes" in page.read_text()
    for page in (folder / "page.html", store / "report.html"):
        assert "CANCELLED" in page.read_text()
    assert [line.partition(": ")[2]] == [one.get("message") for one in suite.iter("failure")]
    assert "-train-1, node-0 <==\nstep 1\n" in (folder / "logs.txt").read_text()


def test_a_server_that_does_not_answer_is_a_service_error(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 5: nothing was judged, and the lease is given back."""
    nobody = "http://127.0.0.1:9/api"
    for key, value in {**QUIET, **HEARTBEAT, "PREFECT_API_URL": nobody}.items():
        monkeypatch.setenv(key, value)  # the command sets them for good
    try:
        with temporary_settings({PREFECT_API_URL: nobody, PREFECT_CLIENT_MAX_RETRIES: 0}):
            ended = run("gate", write_gate(tmp_path), "--format", "json")
    finally:
        release_signals()
    said: Any = ended.document

    assert (ended.code, said["decision"], said["verdict"]) == (5, None, None)
    assert "Prefect server" in said["reason"]
    assert clean(tmp_path)


def test_an_early_end_forgets_no_old_job(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate was killed while its training ran, and this one has its lock. A person reads what may run on."""
    context = open_gate_context(GateRequest(gate_file=str(write_gate(tmp_path))))
    dead = replace(lease(), cluster="test", digest=context.digest, engine=context.engine, owner=DEAD)
    context.store.put(lease_key("test"), dump_plain(dead))
    monkeypatch.setattr("tasks.gate.session.running_jobs", lambda lease: (TRAIN_JOB,))
    monkeypatch.setattr("flows.cli.gate._require_local_nodes", lambda context, plans: None)
    monkeypatch.setattr("flows.cli.gate.start_server", Mock(side_effect=ServerError("full")))
    said = run("gate", context.file).err
    left = lease_of_cluster(context.store, "test")

    assert left is not None and TRAIN_JOB in left.jobs and is_dead(left.owner, left.expires_at, NOW)
    assert "The jobs of gate g-1" in said and "may run on: start the gate again" in said


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of its own, where no service is named."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)


def test_a_gate_with_an_example_is_rejected_before_anything_starts(tmp_path: Path, run: Run) -> None:
    """Exit code 2 with file, key, line, the remedy and the other places; nothing was written, and every file says it."""
    code, out, err = run("gate", SAGEMAKER, "--format", "json", "--summary", "summary.md")
    error = json.loads(out)["error"]

    assert (2, "cluster.options.image", 21) == (code, error["path"], error["line"])
    message = "cluster.options.image: 123456789012 is an example. Write your own"
    assert f"line 21: {message}" in err
    assert "The same holds for cluster.options.role_arn (line 22)" in error["message"]
    assert "subnets[0] (line 26): subnet-0123456789abcdef0 is an example. Write the id" in error["message"]
    assert "REJECTED" in (tmp_path / "summary.md").read_text()
    assert not (tmp_path / ".prelaunch").exists()


def test_plan_ends_as_the_gate_would(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 2, said above the tables; offline it only shows what the file asks for."""
    monkeypatch.setattr("flows.cli.plan.preflight", lambda launcher, plans: ())
    code, out, _ = run("plan", SAGEMAKER)

    assert 2 == code
    assert "This gate would not start: cluster.options.image (line 21): 123456789012 is an example" in out
    assert 0 == run("plan", SAGEMAKER, "--offline").code


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
    with pytest.raises(PreflightFailed, match="123456789012 is an example") as caught:
        run_preflight(session)

    assert ("cluster.options.image", True, {}) == (caught.value.key, session.preflight_done, session.put)


def test_a_gate_that_may_run_warns_of_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_nodes_of_this_machine_without_torch_are_told_before_a_server_runs(tmp_path: Path, run: Run) -> None:
    """By the very command that installs it; the cluster is not locked, and nothing waits for a server."""
    python = tmp_path / "bare-python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    python.chmod(0o755)
    path = write_gate(tmp_path)
    text = re.sub(r"(?m)^python = .*", f'python = "{python}"', path.read_text())
    policy = ROOT / "deployments" / "policies" / "local.toml"
    path.write_text(text.replace('"policy.toml"', json.dumps(str(policy))))

    ended = run("gate", path, "--format", "json")

    assert 2 == ended.code and "server" not in ended.err
    assert f"{python}, which runs the nodes, has no module torch" in str(ended.document["error"])
