"""`prelaunch plan`: what would run, and nothing started; `--offline` names what is wrong in a gate file for SageMaker."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from flows.cli.main import main
from flows.cli.plan_text import plan_text
from tasks.gate.context import GateContext, open_gate_context
from tasks.gate.forecast import forecast
from tasks.gate.jobs import planned_jobs
from tasks.gate_file.request import Advanced, GateRequest
from tasks.launchers.base import PreflightCheck, PreflightResult
from tasks.launchers.local.launcher import LocalLauncher
from tests.flows.cli.conftest import Captured, Run
from tests.flows.cli.test_check import SCRIPT as NO_PREFECT

ROOT = Path(__file__).parents[3]
GATES = ROOT / "deployments" / "gates"
CPU, P5 = "sagemaker-cpu", "sagemaker-p5"
LINE = r'placement = "pooled".*'

LOCAL = GATES / "local.toml"
GOLDEN = ROOT / "tests" / "golden" / "plan_gate_local.json"


@pytest.fixture
def plan(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The verb in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return lambda *words: run("plan", *words)


def test_the_plan_of_the_shipped_gate_is_as_recorded(plan: Run, tmp_path: Path) -> None:
    """Every request of both jobs. UPDATE_GOLDEN=1 writes the file anew."""

    done = plan(str(LOCAL), "--format", "json")
    text = done.out
    for value, name in ((str(tmp_path), "{cwd}"), (sys.executable, "{python}"), (str(ROOT), "{root}")):
        text = text.replace(json.dumps(value)[1:-1], name)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text)

    assert (done.code, done.err) == (0, "")
    assert text == GOLDEN.read_text()


def test_plan_command_writes_no_file_and_imports_no_prefect(tmp_path: Path) -> None:
    """The folder where it ran is as empty as before, and no Prefect was imported."""
    argv = (sys.executable, "-c", NO_PREFECT, "plan", str(LOCAL))
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_page_for_people_names_checks_stages_notifications_and_jobs() -> None:
    """Without a blank line too many, and without the requests; a check that the gate file skips is named with its consequence."""
    advanced = Advanced(overrides=['checks.skip=["kernel.sxid"]'])
    text = "\n".join(page(open_gate_context(GateRequest(gate_file=str(LOCAL), advanced=advanced))))
    head = "Plan of gate local: 22 checks on 2 nodes of cpu, 4 ranks; launcher local, "

    assert text.startswith(head) and "\n\n\n" not in text and "-m checks" not in text
    for row in (
        "every node (2: node-0, node-1): system.identity, ",
        "every rank (4, 2 per node): compute.gemm, ",
        "not run: no GPU declared: gpu.inventory, ",
        "not run: left out by the gate file (a warning in every verdict): kernel.sxid\n",
        "checks, profile quick: about 17 s, at most 6.0 min for 0.20 node-hours\n",
        "a node or a link is broken: hardware on-call, through the log, which calls nobody\n",
        "local-plan-check-1: health checks: process node-0, process node-1\n",
    ):
        assert 1 == text.count(f"\n  {row}"), row
    assert 1 == text.count("kernel.sxid")


@pytest.mark.parametrize("file", sorted(GATES.glob("*.toml")), ids=lambda file: str(file.stem))
def test_the_answer_has_at_most_12_lines(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each shipped gate file, with what stops the gate and some of many warnings; each line fits on three of a terminal."""
    monkeypatch.chdir(tmp_path)
    context = open_gate_context(GateRequest(gate_file=str(file)))
    warnings = [PreflightCheck(f"w{n}", PreflightResult.WARNING, "it is small") for n in range(9)]
    wrong = PreflightCheck("the role", PreflightResult.WRONG, "it does not exist")
    unseen = PreflightCheck("the quota", PreflightResult.UNSEEN, "no credentials")
    lines = page(context, wrong, wrong, unseen, *warnings, verbose=False)

    assert len(lines) <= 12 and max(map(len, lines)) <= 240, lines
    assert "This gate would not start: the role: it does not exist" == lines[1]
    assert ["WARNING: w0: it is small", "WARNING: w1: it is small (and 7 more)"] == lines[2:4]
    labels = [line.partition(":")[0] for line in lines[-8:-1]]
    assert ["Time", "Cost", "Jobs", "Notified", "To do", "Unknown", "Results"] == labels
    jobs = ", ".join(job.name for job in planned_jobs(context))
    log = "the log, which calls nobody"
    assert [f"Jobs:     {jobs}", f"Notified: {log}"] == lines[-6:-4]
    assert lines[-4].startswith("To do:    correct 1 more condition that would stop the gate")
    assert "Unknown:  1 condition could not be looked at (--verbose lists them)" == lines[-3]


def test_the_answer_says_who_is_notified_of_what(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hardware on-call of broken hardware, the gate's owner of the rest."""
    monkeypatch.setattr("flows.cli.plan_text.notifier_reach", lambda notify, side, environment: (side.value,))
    lines = page(open_gate_context(GateRequest(gate_file=str(LOCAL))), verbose=False)

    assert "Notified: broken hardware: oncall; everything else: owner" in lines


def test_a_job_of_many_nodes_says_how_many_it_leaves_out() -> None:
    """Eight are named."""
    advanced = Advanced(overrides=["cluster.declared.nodes=9"])
    text = "\n".join(page(open_gate_context(GateRequest(gate_file=str(LOCAL), advanced=advanced))))

    assert 2 == text.count("process node-6, process node-7 and 1 more\n")


def test_nodes_in_containers_are_called_so(tmp_path: Path) -> None:
    """Where the gate file names an image for them."""
    image = 'network = "loopback"\ncontainer_image = "registry.example/training:1"'
    file = gate(tmp_path, "local", 'network = "loopback"', image)
    text = "\n".join(page(open_gate_context(GateRequest(gate_file=str(file)))))

    assert text.count("container node-0, container node-1") == 2 and "process node" not in text


def test_the_requests_are_those_of_shell(plan: Run) -> None:
    """What runs on each node, in both jobs."""
    shell = plan(str(LOCAL), "--format", "shell").out

    assert (2, 2) == (shell.count("-m checks run"), shell.count("-m checks gate"))


def test_an_engine_that_gave_no_answer_is_the_second_line() -> None:
    """With what to do, once; a refusal goes first, and what merely could not be looked at is no such line."""
    context = open_gate_context(GateRequest(gate_file=str(LOCAL)))
    engine = PreflightCheck("slurmctld", PreflightResult.UNSEEN, "it does not answer", "Run it elsewhere.")
    silent = replace(engine, unreachable=True)
    unseen = PreflightCheck("free nodes", PreflightResult.UNSEEN, "sinfo failed")
    wrong = PreflightCheck("the role", PreflightResult.WRONG, "it does not exist", "Create it.")
    said = "The engine could not be asked: slurmctld: it does not answer. Run it elsewhere."

    assert [said] == [line for line in page(context, silent, silent) if line.startswith("The engine")]
    assert said == page(context, silent)[1]
    refusal = "This gate would not start: the role: it does not exist. Create it."
    assert refusal == page(context, silent, wrong)[1]
    assert page(context, unseen)[1] == page(context)[1]
    assert page(context)[1].startswith("Results are kept in ")
    doubt = PreflightCheck("this machine", PreflightResult.WARNING, "it is small", "Declare fewer nodes.")
    assert "WARNING: this machine: it is small. Declare fewer nodes." == page(context, doubt)[1]


@pytest.mark.parametrize(
    ("result", "unreachable", "code"),
    [
        (PreflightResult.UNSEEN, True, 3),
        (PreflightResult.UNSEEN, False, 0),
        (PreflightResult.WARNING, False, 0),
        (PreflightResult.WRONG, False, 2),
        (PreflightResult.NO_CAPACITY, False, 5),
    ],
)
def test_the_exit_code_says_whether_the_gate_would_start(
    monkeypatch: pytest.MonkeyPatch, result: PreflightResult, unreachable: bool, code: int
) -> None:
    """An engine that gives no answer is 3, as in doctor; offline nobody asks it."""
    line = PreflightCheck("the engine", result, "it says so", unreachable=unreachable)
    monkeypatch.setattr(LocalLauncher, "preflight", lambda self, plans: (line,))

    assert code == main(["plan", str(LOCAL), "--format", "json"])
    assert 0 == main(["plan", str(LOCAL), "--format", "json", "--offline"])


@pytest.mark.parametrize("verbose", [False, True])
def test_hostile_names_are_inert(verbose: bool) -> None:
    """Whatever a policy, a preflight, a store or a node is called."""
    hostile = "\x1b[31m\u202e[red]<b>" + "x" * 10_000
    context = open_gate_context(GateRequest(gate_file=str(LOCAL)))
    declared = replace(context.declared, node_names=(hostile, "b"))
    policy = replace(context.policy, name=hostile)
    context = replace(context, policy=policy, declared=declared, address=hostile)
    wrong = PreflightCheck(hostile, PreflightResult.WRONG, hostile)
    text = "\n".join(page(context, wrong, verbose=verbose))

    assert "\x1b" not in text and "\u202e" not in text and "[red]<b>" in text
    assert len(text) < 30_000


def test_the_plan_says_how_slow_a_part_must_be_to_be_named() -> None:
    """As the verdict does, which knows the noise as well; and what the policy asks for."""
    context = open_gate_context(GateRequest(gate_file=str(GATES / f"{P5}.toml")))
    checks = context.policy.checks
    options = {**checks["nccl.pairs"].options, "detects_slow_node": 0.1}
    pairs = replace(checks["nccl.pairs"], options=options)
    strict = replace(context.policy, checks={**checks, "nccl.pairs": pairs})

    (line,) = [line for line in page(context) if "slower than the others" in line]
    assert "nccl.pairs names a link that is at least 30 % slower" in line and "refused" not in line
    text = "\n".join(page(replace(context, policy=strict)))
    assert "refused if it could not name a node that is 10 % slower" in text


def page(context: GateContext, *lines: PreflightCheck, verbose: bool = True) -> list[str]:
    """The lines for people."""
    plans = [context.launcher.plan(job) for job in planned_jobs(context)]
    return plan_text(context, forecast(context, 0), plans, lines, {}, verbose).splitlines()


def test_an_example_that_was_not_replaced_is_a_note(plan: Run, tmp_path: Path) -> None:
    """By key and line, with what to write; the exit code is as without it, because only the engine knows what it refuses."""
    path = tmp_path / "gate.toml"
    text = LOCAL.read_text().replace("{here}/", "").replace("../", f"{ROOT}/deployments/")
    path.write_text(f'{text}\n[approval]\napprovers = ["U012AB3CD"]\n')
    people, shell = plan("gate.toml", "--verbose"), plan("gate.toml", "--format", "shell")
    line = len(path.read_text().splitlines())
    said = f"approval.approvers[0] (line {line}): U012AB3CD is an example. Write the ids of"

    assert (0, 0) == (people.code, shell.code), people.err
    assert f"  {said}" in people.out and f"prelaunch: {said}" in shell.err
    document = json.loads(plan("gate.toml", "--format", "json").out)
    assert [line] == [one["line"] for one in document["examples"]]


def test_a_relative_store_says_once_relative_to_what(plan: Run, tmp_path: Path) -> None:
    """An absolute one needs no such words."""
    relative = plan(str(LOCAL), "--verbose").out
    absolute = plan(str(LOCAL), "--verbose", "--set", f"store.path={tmp_path}/kept").out

    assert 1 == relative.count("relative to the folder where the command runs")
    assert f"Results are kept in {tmp_path}/.prelaunch ([store] path is relative" in relative
    assert "relative to" not in absolute


def gate(folder: Path, name: str, old: str, new: str, on_warn: str = "go") -> Path:
    """A shipped gate file with one thing changed."""
    text, count = re.subn(old, new, (GATES / f"{name}.toml").read_text(), count=1)
    assert count
    policy = re.search(r"\.\./policies/(\w+\.toml)", text)
    assert policy
    said = (GATES.parent / "policies" / policy[1]).read_text().replace('"go"', f'"{on_warn}"', 1)
    (folder / "policy.toml").write_text(said)
    path = folder / "gate.toml"
    path.write_text(text.replace(policy[0], "policy.toml"))
    return path


def refused(path: Path, capsys: Captured) -> str:
    """The line on stderr of a plan that shows nothing."""
    code = main(["plan", str(path), "--offline"])
    out, err = capsys.readouterr()

    assert (2, "", 1) == (code, out, err.count("\n"))
    assert err.startswith("prelaunch: ") and re.search(r"gate\.toml(, line [0-9]+)?: ", err)
    return err


@pytest.mark.parametrize(
    ("name", "old", "new", "said", "on_warn"),
    [
        (CPU, "volume_gb", "volume_bg", "options.volume_bg: unknown key. Did you mean 'volume_gb'?", "go"),
        (CPU, '"in_job"', '"pool"', "options.placement: 'pool' is none of .* Did you mean 'pooled'", "go"),
        (P5, "keep_alive_s = 3600", "keep_alive_s = 7200", "keep_alive_s: 7200 is not between 0 and 3600", "go"),
        (P5, LINE, 'placement = "pooled"\nspot = true', 'Leave spot out, or set placement = "in_job"', "go"),
        (CPU, '"in_job"', '"pinned"', 'Name them, or set placement = "in_job"', "go"),
        (CPU, '"us-east-1"', '"virginia"', "options.region: 'virginia' must be a region", "go"),
        (CPU, '"s3://prelaunch', '"prelaunch', "options.prefix: .* must be s3://", "go"),
        (CPU, "max_attempts = 1", "request = { RoleArn = 'x' }", r"training\.request\.RoleArn is the gate's own", "go"),
        (CPU, "max_attempts = 1", "request = { Rolle = 'x' }", 'Unknown parameter in input: "Rolle"', "go"),
        (CPU, "max_attempts = 1", 'model_trainer = "a:b"', "training: give either command or model_trainer", "go"),
        (P5, "p5.48xlarge", "p6-b300.48xlarge.", "is not a known instance type", "go"),
        ("sagemaker-trn1", "trn1.32xlarge", "inf2.48xlarge", "'ml.inf2.48xlarge' is none of", "go"),
        (P5, "keep_alive_s = 3600", "keep_alive_s = 300", "Keep them for 40 minutes or longer.\n$", "ask"),
        (P5, LINE, 'placement = "in_job"\nnetwork_isolation = true', "or leave network_isolation out", "ask"),
    ],
)  # fmt: skip
def test_plan_reports_a_sagemaker_mistake_in_one_line(
    tmp_path: Path, capsys: Captured, name: str, old: str, new: str, said: str, on_warn: str
) -> None:
    """With the file, and what to write in its place."""
    assert re.search(said, refused(gate(tmp_path, name, old, new, on_warn), capsys))


def test_a_plan_shows_how_long_nodes_wait_for_an_answer(tmp_path: Path, capsys: Captured) -> None:
    """It is a part of what they may run, which is asked of AWS."""
    path = gate(tmp_path, "sagemaker-p5-injob", "x", "x", on_warn="ask")

    assert 0 == main(["plan", str(path), "--offline", "--format", "json"])
    body = json.loads(capsys.readouterr().out)["requests"][0]

    assert "--ask-s" in body["AlgorithmSpecification"]["ContainerArguments"]
    assert (30 + 31 + 7080) * 60 == body["StoppingCondition"]["MaxRuntimeInSeconds"]


def test_a_plan_says_how_long_it_takes_and_what_it_costs(capsys: Captured) -> None:
    """As text and as JSON, labelled as estimates."""
    path = str(GATES / f"{P5}.toml")

    assert 0 == main(["plan", path, "--offline"])
    answer = capsys.readouterr().out
    assert 0 == main(["plan", path, "--offline", "--verbose"])
    text = capsys.readouterr().out
    assert 0 == main(["plan", path, "--offline", "--format", "json"])
    estimate = json.loads(capsys.readouterr().out)["estimate"]

    lines = (
        "Time:     checks, profile standard: at least 3.0 min, at most 30.0 min; idle pool: not known, at most 60.0 min; "
        "training: about 110.0 h, at most 120.0 h\n",
        "Cost:     at least 12.66 USD (0.20 node-hours), at most 379.78 USD (6.00 node-hours), before the training, "
        "if the checks run once\n",
        "To do:    replace 8 example values; confirm 2 values of the shipped example (--verbose lists them)\n",
    )
    assert [1, 1, 1] == [answer.count(f"\n{line}") for line in lines], answer
    assert "Stages: estimates, not measurements of this cluster" in text
    assert "  63.296 USD per node and hour (AWS Price List API" in text
    assert "Cost before the training (price of us-west-2)" in text
    assert "us-west-2" == estimate["price"]["region"]
    assert "  checks, profile standard: at least 3.0 min, at most 30.0 min for 126.59 USD" in text
    assert re.search(r"  pooled: at least 12\.66 USD .* 379\.78 USD .* idle at most 253\.18 USD", text)
    assert "  idle pool: not known, at most 60.0 min for" in text
    assert ["in_job", "pooled", "none"] == [row["placement"] for row in estimate["placements"]]
    assert [False, True, False] == [row["chosen"] for row in estimate["placements"]]
    assert {"name", "about_s", "is_least", "at_most_s", "source", "billed"} == set(estimate["stages"][0])
