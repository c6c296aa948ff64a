"""The gate in a pipeline: what it refuses, the next step does not run; and the shipped pipeline files are right."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from checks.version import ENGINE
from tasks.orchestration.server.server import EmbeddedServer
from tasks.reports.schema import RESULT_PATH
from tests.flows.cli.test_gate import KEYS
from tests.flows.gates import processes_below, write_gate
from tests.linters import finds_nothing
from tests.pipelines.pipeline import ROOT, Played, fake_command, load, play, prelaunch
from tests.waiting import until

SCRIPT = ROOT / "deployments" / "ci" / "gate.sh"
WORKFLOW = ROOT / ".github" / "workflows" / "gate-then-train.yml"
SHIPPED = ROOT / "deployments" / "github" / WORKFLOW.name
RESULTS = ["junit.xml", "prelaunch.json", "report.html", "summary.md"]


def results(code: int) -> list[str]:
    """The files of a gate that ended with this code: also the logs, unless it was a go."""
    return sorted([*RESULTS, *(["logs.txt"] if code else [])])


def _pipeline(folder: Path, command: str, environment: Mapping[str, str]) -> Played:
    """The shipped workflow's job with this command, and its own training step replaced by one that leaves a file."""
    gate = write_gate(folder)
    job = load(WORKFLOW)["jobs"]["train"]
    steps = [dict(step) for step in job["steps"] if step.get("name") != "Install"]
    assert steps[-1]["name"] == "Train"
    steps[-1]["run"] = "touch trained"
    steps[1]["with"] = {**steps[1]["with"], "command": command}
    return play({"steps": steps}, {"gate-file": str(gate)}, folder, {"GITHUB_ACTIONS": "true", **environment})


@pytest.mark.parametrize(
    ("node", "code", "decision"),
    [("wrong", 1, "refused"), pytest.param("healthy", 0, "passed", marks=pytest.mark.long)],
)
def test_pipeline_does_not_train_after_a_refusal(
    tmp_path: Path, prefect_backend: EmbeddedServer, node: str, code: int, decision: str
) -> None:
    """The exit code is the design's, the results are kept either way, the summary is on the step's page."""
    environment = {"FAKE_NODE": node, **prefect_backend.client_environment({})}
    played = _pipeline(tmp_path, prelaunch(), environment)
    out = tmp_path / "prelaunch-results"

    assert (played.code, (tmp_path / "trained").exists()) == (code, code == 0), played.said
    assert played.kept == results(code)
    assert f"exit-code={code}\ndecision={decision}\n" in played.output
    assert played.summary.startswith("# NO-GO test: " if code else "# GO test: ")
    cases = ElementTree.parse(out / "junit.xml").getroot()
    assert (int(cases.get("failures", "0")) > 0) is bool(cases.findall(".//failure")) is (code == 1)
    assert "<html" in (out / "report.html").read_text()
    said = json.loads((out / "prelaunch.json").read_text())
    assert (KEYS, decision) == (set(said), said["decision"])
    assert {"job_id": None, "state": None} == said["training"]
    assert ("NOTIFICATION NO-GO test: node-1, rank 3 computes wrong sums" in played.said) is (code == 1)
    shown = [line.partition("::")[2] for line in played.said.splitlines() if line.startswith("::")]
    assert (["NO-GO test: node-1, rank 3"] if code else []) == [
        line.rpartition("::")[2].partition(" computes")[0] for line in shown
    ]


def test_pipeline_trains_on_nodes_that_passed(tmp_path: Path) -> None:
    """By the exit code alone: this gate writes no page."""
    (tmp_path / "go").write_text(SAYS_GO)
    played = _pipeline(tmp_path, f"sh {tmp_path / 'go'}", {})

    assert (0, True) == (played.code, (tmp_path / "trained").exists()), played.said
    assert "exit-code=0\ndecision=passed\n" in played.output


def _script(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PREFECT_API_URL": "", "PRELAUNCH": prelaunch(), **environment}
    return subprocess.run([SCRIPT], cwd=folder, env=env, capture_output=True, text=True)


def gated(folder: Path, text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The script with the name of a gate file, and a fake command that does this instead of Prelaunch."""
    own = {"PRELAUNCH": fake_command(folder, text), "PRELAUNCH_GATE_FILE": "gate.toml"}
    return _script(folder, **(own | environment))


def test_pipeline_replaces_an_old_verdict_when_the_gate_is_rejected(tmp_path: Path) -> None:
    """A file that is no gate: exit code 2, the pages of an earlier run say now that it was rejected, and GitHub shows the line."""
    out = tmp_path / "prelaunch-results"
    out.mkdir()
    for name in RESULTS:
        (out / name).write_text("GO of yesterday")
    (tmp_path / "gate.toml").write_text("name = 1\n")

    done = _script(
        tmp_path, PRELAUNCH_GATE_FILE="gate.toml", GITHUB_ACTIONS="true", GITHUB_WORKSPACE=str(tmp_path)
    )

    assert done.returncode == 2
    assert "::error file=gate.toml,line=1,title=" in done.stderr
    assert (out / "summary.md").read_text() in done.stderr  # no page shows it
    assert "error" in json.loads((out / "prelaunch.json").read_text())
    assert int(ElementTree.parse(out / "junit.xml").getroot().get("errors", "0")) > 0
    assert (out / "summary.md").read_text().startswith("# REJECTED gate\n\ngate.toml, line 1: name: ")
    assert "<h1>REJECTED</h1>" in (out / "report.html").read_text()
    assert "yesterday" not in "".join((out / name).read_text() for name in RESULTS)


@pytest.mark.parametrize("named", [{}, {"PRELAUNCH_GATE_FILE": "a", "PRELAUNCH_DEPLOYMENT": "gate/a"}])
def test_pipeline_requires_exactly_one_of_gate_file_and_deployment(
    tmp_path: Path, named: dict[str, str]
) -> None:
    """Neither, or both, is a mistake of the pipeline; the results say so as well."""
    done = _script(tmp_path, **named)
    out, said = tmp_path / "prelaunch-results", "PRELAUNCH_DEPLOYMENT), one of the two"

    assert (done.returncode, done.stderr.count(said)) == (2, 1)
    document = json.loads((out / "prelaunch.json").read_text())
    jsonschema.Draft202012Validator(json.loads(RESULT_PATH.read_text())).validate(document)
    assert document["error"]["message"].endswith(said)
    assert "1" == ElementTree.parse(out / "junit.xml").getroot().get("errors")
    assert all(said in (out / name).read_text() for name in RESULTS)


def test_a_deployment_without_a_server_is_rejected(tmp_path: Path) -> None:
    """Nothing was started, and the remedy is named."""
    done = _script(tmp_path, PRELAUNCH_DEPLOYMENT="gate/p5")

    assert done.returncode == 2
    assert "Name its API, such as PREFECT_API_URL=" in done.stderr


# Ends as `prelaunch gate` does: tests/flows/cli/test_gate.py has how that ends what it started, and its pages.
CANCELLED = """trap 'sleep 0.2; echo told >told; exit 5' TERM
echo "$$" >began
while :; do sleep 0.05; done
"""


def cancelled(folder: Path, program: str, number: int, **more: str) -> tuple[int, str]:
    """The exit code and stderr of a pipeline that gets the signal while this program is its gate."""
    command = fake_command(folder, program)
    env = {**os.environ, "PRELAUNCH": command, "PRELAUNCH_GATE_FILE": "gate.toml", **more}
    running = subprocess.Popen([SCRIPT], cwd=folder, env=env, stderr=subprocess.PIPE, text=True)
    try:
        until(lambda: (folder / "began").exists() or running.poll() is not None)
        time.sleep(0.5)  # coreutils' timeout hands no signal on before its fork has returned
        running.send_signal(number)
        _, stderr = running.communicate()
    finally:
        running.kill()
    assert processes_below(folder) == []
    return running.returncode, stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_cancelled_pipeline_tells_the_gate_and_waits_for_it(tmp_path: Path, number: signal.Signals) -> None:
    """Whichever signal it is (GitHub sends SIGINT first), the gate is told, and its exit code is the pipeline's."""
    code, stderr = cancelled(tmp_path, CANCELLED, number)

    assert (5, "told\n") == (code, (tmp_path / "told").read_text()), stderr


SCHEMAS = (
    ("vendor.github-actions", ROOT / "deployments/github/action.yml"),
    ("vendor.gitlab-ci", ROOT / "deployments/gitlab/prelaunch.gitlab-ci.yml"),
    *(("vendor.github-workflows", path) for path in (SHIPPED, *sorted(WORKFLOW.parent.glob("*.yml")))),
)


@pytest.mark.parametrize(("schema", "file"), SCHEMAS)
def test_the_pipeline_files_fit_their_schemas(schema: str, file: Path) -> None:
    """The schemas come with the linter; nothing is fetched."""
    command = (sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, file)
    done = subprocess.run(command, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_script_is_clean() -> None:
    """shellcheck has nothing to say."""
    start = ROOT / "tasks" / "launchers" / "start.sh"
    finds_nothing("shellcheck", SCRIPT, SCRIPT.with_name("install.sh"), start)


def test_no_value_of_a_pipeline_becomes_code() -> None:
    """Expressions stand in `env` and `with` alone: a script that they were pasted into would run what they hold."""
    for path in (ROOT / "deployments/github/action.yml", SHIPPED, WORKFLOW):
        text = load(path)
        steps = (
            text["runs"]["steps"]
            if "runs" in text
            else [s for job in text["jobs"].values() for s in job["steps"]]
        )

        assert [] == [step["run"] for step in steps if "${{" in step.get("run", "")]


def test_the_workflow_that_is_copied_is_the_one_that_runs_here() -> None:
    """Except that it installs a release, with what a gate on the runner itself needs; GitLab's job says the same of its own."""
    here, shipped = load(WORKFLOW), load(SHIPPED)
    places = [job["jobs"]["train"]["steps"][1] for job in (here, shipped)]
    install = [place.pop("run") for place in places][1]
    package = shipped["on"]["workflow_dispatch"]["inputs"].pop("package")

    assert {"PACKAGE": "${{ inputs.package }}"} == places[1].pop("env") and '"$PACKAGE"' in install
    assert here == shipped and {"name": "Install"} == places[0] == places[1]
    release = f"prelaunch[torch]=={ENGINE}"
    assert release == package["default"] and f'"{release}"' in GITLAB.read_text()


GITLAB = ROOT / "deployments" / "gitlab" / "prelaunch.gitlab-ci.yml"
MARK = "<<'END_OF_GATE_SH'\n"


def test_gitlab_runs_the_same_script() -> None:
    """It stands in the job itself, so that another project needs no file of this one; its results are kept whatever happens."""
    if os.environ.get("UPDATE_GOLDEN"):
        head, mark, rest = GITLAB.read_text().partition(MARK)
        tail = rest[rest.index("      END_OF_GATE_SH\n") :]
        lines = SCRIPT.read_text().splitlines()
        GITLAB.write_text(head + mark + "".join(f"      {line}\n" if line else "\n" for line in lines) + tail)
    job = load(GITLAB)[".prelaunch-gate"]
    (script,) = job["script"]

    assert script.partition(MARK)[2].partition("END_OF_GATE_SH")[0] == SCRIPT.read_text()
    assert (job["allow_failure"], job["artifacts"]["when"]) == ("false", "always")
    assert job["artifacts"]["reports"]["junit"] == f"{job['variables']['PRELAUNCH_OUT']}/junit.xml"
    assert job["variables"]["PRELAUNCH_PACKAGE"] == f"prelaunch=={ENGINE}"


SAYS_GO = """printf '{\n  "decision": "passed",\n  "x": "%s"\n}\n' "$*"
"""


@pytest.mark.parametrize("named", ["{command}", "sh {command}", "  env  A=1   sh {command} "])
@pytest.mark.parametrize("name", ["plain", "with blanks"])
def test_the_command_may_have_several_words(tmp_path: Path, named: str, name: str) -> None:
    """They are split at blanks and nothing is expanded; the path of a program may have blanks itself."""
    folder = tmp_path / name
    folder.mkdir()
    command = named.format(command=fake_command(folder, SAYS_GO))
    done = _script(
        tmp_path, PRELAUNCH=command, PRELAUNCH_GATE_FILE="gate.toml", PRELAUNCH_SETS="a=$(touch x)\n"
    )

    works = name == "plain" or named.startswith("{")
    assert works is (done.returncode == 0), done.stderr
    assert not (tmp_path / "x").exists()
    result = tmp_path / "prelaunch-results" / "prelaunch.json"
    assert not works or "gate gate.toml --format json" in result.read_text()


# Does not know its own time limit, as a gate that cannot answer.
SLOW = """trap 'echo told >told; exit {code}' TERM
while :; do sleep 0.05; done
"""


@pytest.mark.long
@pytest.mark.parametrize(("own", "code"), [(143, 3), (5, 5)])
def test_a_gate_that_does_not_end_itself_in_time_is_told(tmp_path: Path, own: int, code: int) -> None:
    """Ten seconds later; the exit code is 3, or the gate's own where it says more, such as machines that are left."""
    done = gated(tmp_path, SLOW.format(code=own), PRELAUNCH_TIMEOUT_MINUTES="0.01")

    assert (code, "told\n") == (done.returncode, (tmp_path / "told").read_text())
    assert ("prelaunch: its time was up after 0.01 minutes, exit code 3" in done.stderr) is (code == 3)
    summary = (tmp_path / "prelaunch-results" / "summary.md").read_text()
    assert summary.startswith("# CANCELLED gate\n\nits time was up after 0.01") is (code == 3)
    assert processes_below(tmp_path) == []


def test_a_gate_that_ends_in_time_is_not_touched(tmp_path: Path) -> None:
    """Its exit code and its decision."""
    done = gated(tmp_path, SAYS_GO, PRELAUNCH_TIMEOUT_MINUTES="1")

    assert 0 == done.returncode and "passed, exit code 0" in done.stderr


@pytest.mark.parametrize("minutes", ["0", "0.0", "-1", "1h", "$(touch x)", "1" * 300])
def test_a_timeout_is_a_number_of_minutes(tmp_path: Path, minutes: str) -> None:
    """Nothing is run for another one."""
    done = _script(tmp_path, PRELAUNCH_GATE_FILE="g.toml", PRELAUNCH_TIMEOUT_MINUTES=minutes)

    assert (2, [tmp_path / "prelaunch-results"]) == (done.returncode, list(tmp_path.iterdir()))
    assert "timeout-minutes (PRELAUNCH_TIMEOUT_MINUTES) is not a number above 0" in done.stderr


def test_a_cancelled_pipeline_with_a_timeout_tells_the_gate(tmp_path: Path) -> None:
    """The program that measures the time hands the signal on, and no timeout is said."""
    program = SLOW.format(code=143).replace("while", "echo x >began\nwhile")
    code, stderr = cancelled(tmp_path, program, signal.SIGTERM, PRELAUNCH_TIMEOUT_MINUTES="5")

    assert (143, True, False) == (code, (tmp_path / "told").exists(), "time was up" in stderr)


def _zizmor(*paths: Path) -> subprocess.CompletedProcess[str]:
    argv = [str(Path(sys.executable).parent / "zizmor"), "--offline", "--no-progress", *map(str, paths)]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_zizmor_finds_nothing(tmp_path: Path) -> None:
    """In the action and the workflows; an action that is not pinned by its hash it finds."""
    action = ROOT / "deployments" / "github" / "action.yml"
    (tmp_path / "action.yml").write_text(
        action.read_text().replace("ea165f8d65b6e75b540449e92b4886f43607fa02", "v4")
    )
    clean, loose = _zizmor(action, SHIPPED, ROOT / ".github" / "workflows"), _zizmor(tmp_path / "action.yml")

    assert 0 == clean.returncode, clean.stdout
    assert 0 != loose.returncode and "unpinned-uses" in loose.stdout
