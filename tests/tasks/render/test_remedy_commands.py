"""What to type for a finding: the launcher's own commands, for a node that is blamed, and for nobody else."""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any, cast

import pytest

from checks.facts.own_machine import read, short_text
from checks.judge.cost.cost import CostTerms
from checks.model import Action, Answer, Cause, Count, Coverage, Declared, Digests, Finding, Level, Verdict
from checks.model_details import DeclaredMachine
from tasks.gate.outcome import AFTER_TRAINING, RUNS_ANYWAY, Decision, JudgedReport, Training, with_ending
from tasks.gate_file.cost_terms import cost_of
from tasks.judge import retry_command
from tasks.launchers.base import JobState
from tasks.notifiers.base import PageKind
from tasks.paging import content
from tasks.render.context import VerdictContext, advice, advised
from tasks.render.findings import gathered
from tasks.render.html import html
from tasks.render.junit import junit
from tasks.render.markdown import markdown
from tasks.render.remedy_commands import COMMANDS, PURPOSES, SSH, RemedyContext, commands, engine_of
from tasks.render.terminal import terminal
from tests.programs import executable
from tests.sample_reports import healthy, verdict_of, wrong_sums
from tests.tasks.notifiers.means import page
from tests.tasks.paging.test_content import end, half_broken, page_session

FULL = Coverage(Count(1, 1), Count(0, 0), Count(1, 1), Count(1, 1))


def _verdict(finding: Finding, suspect: bool = False) -> Verdict:
    digests = Digests("", "", "", None, "")
    return Verdict(Level.FAIL, Answer.NO_GO, FULL, (finding,), ("node-1",), suspect, digests)


def typed(finding: Finding, place: RemedyContext, suspect: bool = False) -> tuple[str, ...]:
    """The commands for the finding's own subject."""
    return commands(finding, finding.subject, _verdict(finding, suspect), place)


def _finding(
    subject: str = "node-1",
    action: Action = Action.REPLACE,
    cause: Cause = Cause.HARDWARE,
    elements: tuple[str, ...] = ("GPU 3 (0000:b9:00.0)",),
) -> Finding:
    message = "GPU 7: what a sentence names is reset by nobody"
    return Finding(Level.FAIL, cause, "gpu.row_remap", subject, message, "", "", action, elements=elements)


DRAIN = "scontrol update nodename=node-1 state=drain reason='prelaunch: gpu.row_remap'"
REBOOT = "scontrol reboot ASAP nextstate=DOWN reason='prelaunch: gpu.row_remap' node-1"
STATE_FAIL = "scontrol update nodename=node-1 state=fail reason=Action:"
LABEL = "kubectl label node node-1 sagemaker.amazonaws.com/node-health-status=UnschedulablePendingReplacement --overwrite"
RELEASE = "aws sagemaker update-training-job --training-job-name gate-1-check-1 --resource-config KeepAlivePeriodInSeconds=0"


@pytest.mark.parametrize(
    ("launcher", "action", "expected"),
    [
        ("local", Action.RESET_GPU, "sudo nvidia-smi --gpu-reset -i 3  # on node-1"),
        ("slurm", Action.REPLACE, DRAIN),
        ("slurm", Action.REBOOT, REBOOT),
        ("hyperpod", Action.REPLACE, LABEL),
        ("hyperpod", Action.CONTACT, "kubectl cordon node-1"),
        ("hyperpod-slurm", Action.REBOOT, STATE_FAIL + "Reboot"),
        ("hyperpod-slurm", Action.REPLACE, STATE_FAIL + "Replace"),
        ("hyperpod-slurm", Action.CONTACT, DRAIN),
        ("sagemaker", Action.REPLACE, RELEASE),
        ("", Action.REPLACE, ""),
        ("local", Action.NONE, ""),
    ],
)
def test_each_launcher_has_its_own_commands(launcher: str, action: Action, expected: str) -> None:
    """The node, the GPU, the reason and the job are filled in; without a launcher nothing is guessed."""
    finding = _finding(action=action)
    place = RemedyContext(launcher, "p5.48xlarge", "gate-1-check-1")
    assert tuple(filter(None, (expected,))) == typed(finding, place)


@pytest.mark.parametrize(
    ("subject", "cause"),
    [
        ("cluster", Cause.HARDWARE),
        ("node-0<->node-1", Cause.HARDWARE),
        ("node-1", Cause.EVIDENCE),
        ("node-1", Cause.CONFIGURATION),
    ],
)
def test_drain_command_is_not_offered_without_a_machine_fault(subject: str, cause: Cause) -> None:
    """A link, the cluster, missing evidence and a wrong setting take no node out."""
    assert () == typed(_finding(subject, cause=cause), RemedyContext("slurm"))


def test_remedy_command_is_not_offered_without_a_clear_target() -> None:
    """While the image is suspect; of a GPU that no element names, since evidence lists every GPU; and where no pool is kept."""
    replaced, unnamed = _finding(), _finding(action=Action.RESET_GPU, elements=())
    listed = replace(_finding(action=Action.RESET_GPU, elements=("[3]",)), evidence="GPU 0: well")

    assert () == typed(replaced, RemedyContext("slurm"), suspect=True)
    assert () == typed(unnamed, RemedyContext("local")) == typed(listed, RemedyContext("local"))
    assert () == typed(replaced, RemedyContext("sagemaker", "p5.48xlarge"))


@pytest.mark.parametrize(("answer", "level"), [("GO", "FAIL"), ("ASK", "FAIL"), ("NO_GO", "WARN")])
def test_no_command_takes_a_node_from_a_training_or_for_a_warning(answer: str, level: str) -> None:
    """A warning keeps its remedy in words, also where another node is refused: its node is not broken."""
    finding = replace(_finding(), level=Level[level])
    verdict = replace(_verdict(finding), answer=Answer[answer])

    assert () == commands(finding, "node-1", verdict, RemedyContext("kubernetes"))


@pytest.mark.parametrize(
    ("launcher", "action", "other", "shown"),
    [
        ("hyperpod-slurm", Action.INSPECT, "node-1", (False, True)),
        ("hyperpod-slurm", Action.INSPECT, "node-2", (True, True)),
        ("slurm", Action.REBOOT, "node-1", (True, False)),
        ("sagemaker", Action.REBOOT, "node-2", (True, False)),
    ],
)
def test_the_strongest_commands_stand_once(launcher: str, action: Action, other: str, shown: object) -> None:
    """HyperPod drops a reboot whose reason a drain replaces; and nobody types a command again for another check."""
    findings = (replace(_finding(other, action), check="gpu.inventory"), _finding(action=Action.REBOOT))
    context = VerdictContext(RemedyContext(launcher, "p5.48xlarge", "job"))

    found = advised(gathered(findings), replace(_verdict(findings[0]), findings=findings), context)
    assert shown == tuple(bool(each.commands) for each in found)


def test_what_fails_everywhere_is_looked_at_where_it_is_shared() -> None:
    """Image and policy are named, and the command tests one node without both."""
    place = RemedyContext("slurm", "p5.48xlarge", shared=("image of the checks: x",))
    (item,) = gathered((_finding(),))
    remedy, lines = advice(item, _verdict(_finding(), suspect=True), place)

    assert "They have in common: image of the checks: x; the policy's entry gpu.row_remap." in remedy
    assert ("ssh node-1 prelaunch check --instance-type p5.48xlarge --profile deep",) == lines


@pytest.mark.parametrize("kind", [PageKind.QUESTION, PageKind.REFUSED])
def test_a_question_about_a_refusal_has_a_cost_and_no_command(kind: PageKind) -> None:
    """The answer may start a training on that node. What a command does is not said either; of a refusal a cost helps nobody."""
    verdict, asks = _verdict(_finding()), kind is PageKind.QUESTION
    site, cost = RemedyContext("kubernetes"), cost_of(healthy(), verdict, CostTerms(hours=72))
    judged = JudgedReport(healthy(), verdict, context=VerdictContext(site, cost=cost))
    made = content._judged(page(kind), judged)
    (item,) = made.items

    assert [not asks] * 2 == [bool(item.commands), PURPOSES["kubernetes"] in item.remedy]
    assert asks is ("may lose" in " ".join(made.costs))


@pytest.mark.parametrize("decision", [Decision.REFUSED, Decision.OBSERVED, Decision.OVERRIDDEN])
def test_a_refusal_says_on_every_page_what_to_type_unless_somebody_trains(decision: Decision) -> None:
    """Also how to try without the nodes that failed, and without those that were left out already, starting no more than before."""
    verdict, image = verdict_of(wrong_sums(healthy())), verdict_of(half_broken())
    retry = f"prelaunch gate {shlex.quote(os.path.abspath('bravo.toml'))} --check-only --set cluster.options.exclude=n9,n8,node-1"
    assert [retry, ""] == [retry_command(page_session(), one, {}) for one in (verdict, image)]

    judged = JudgedReport(
        healthy(), verdict, context=VerdictContext(RemedyContext("kubernetes"), retry=retry)
    )
    ended = with_ending(end(decision, None, judged=judged), "bravo")
    context = cast("JudgedReport", ended.judged).context
    pages = [made(healthy(), verdict, "x", context=context) for made in (terminal, markdown, html, junit)]
    texts = [content.page_of(page_session(), ended).text, *map(unescape, pages)]
    refused = decision is Decision.REFUSED
    assert [refused] * 5 == ["kubectl cordon" in text for text in texts]
    assert [refused] * 4 == [retry in text for text in texts[:4]]
    trained = with_ending(
        replace(end(decision, None, judged=judged), training=Training("j", JobState.RUNNING, "")), "bravo"
    )
    said = content.page_of(page_session(), trained).text
    assert [refused] * 2 == [line not in said for line in (RUNS_ANYWAY, f"Do: {AFTER_TRAINING} ")]


@pytest.mark.parametrize(
    ("elements", "gpus"),
    [
        (("GPU 3 (0000:b9:00.0)", "GPU 5 (0000:ca:00.0)"), "3,5"),
        (("GPU 5", "the node", "GPU 5"), "5"),
        (("GPU 12 (0000:b9:00.0)", "GPU at 0000:ca:00.0", "[3]"), "12"),
    ],
)
def test_exactly_the_gpus_that_call_for_it_are_reset(elements: tuple[str, ...], gpus: str) -> None:
    """All of the finding's elements that are GPUs, and none that is only mentioned in its message or its evidence."""
    finding = _finding(action=Action.RESET_GPU, elements=elements)
    finding = replace(finding, evidence="GPU 0: well\nGPU 3: remap pending")
    assert (f"sudo nvidia-smi --gpu-reset -i {gpus}  # on node-1",) == typed(finding, RemedyContext("local"))


def test_a_hostile_node_name_is_quoted() -> None:
    """It comes from a report, and is pasted into a shell."""
    (said,) = typed(_finding("node; rm -rf ~"), RemedyContext("slurm"))
    assert "nodename='node; rm -rf ~'" in said


@pytest.mark.parametrize(
    ("program", "engines"),
    [
        ("scontrol", {"slurm", "hyperpod-slurm"}),
        ("ssh", {"slurm", "hyperpod-slurm"}),
        ("srun", set()),
        ("scontrol reboot", {"slurm"}),
        ("Action:", {"hyperpod-slurm"}),
        ("kubectl", {"kubernetes", "hyperpod"}),
        ("aws sagemaker", {"sagemaker"}),
    ],
)
def test_no_engine_is_told_the_commands_of_another(program: str, engines: set[str]) -> None:
    """Where there is no Slurm there is no scontrol. No srun either: it waits for ever for the node that the line before drained."""
    said = {name: [line for row in rows.values() for line in row] for name, rows in COMMANDS.items()}

    assert engines == {name for name, lines in said.items() if any(program in line for line in lines)}


@pytest.mark.parametrize(
    ("launcher", "options", "engine"),
    [
        ("slurm", {"auto_resume": True}, "hyperpod-slurm"),
        ("kubernetes", {"auto_resume": True}, "hyperpod"),
        ("kubernetes", {"auto_resume": False}, "kubernetes"),
        ("slurm", {"auto_resume": False}, "slurm"),
        ("slurm", {}, "slurm"),
        ("local", {"auto_resume": True}, "local"),
    ],
)
def test_a_slurm_of_hyperpod_is_known_by_auto_resume(
    launcher: str, options: dict[str, bool], engine: str
) -> None:
    """No other Slurm has that option of srun."""
    assert engine == engine_of(launcher, options)


def test_a_command_names_the_machine_as_its_engine_does() -> None:
    """On Kubernetes node-1 is a place in the job, and no name that kubectl knows."""
    finding = replace(_finding(), subject="node-1", action=Action.REBOOT)
    place = RemedyContext("kubernetes", "p5.48xlarge", engine_nodes={"node-1": "ip-10-0-0-7"})

    assert typed(finding, place)[0] == "kubectl cordon ip-10-0-0-7"


def test_every_command_can_be_filled_in() -> None:
    """No row names a value that does not exist."""
    for launcher, rows in COMMANDS.items():
        for action in rows:
            found = typed(_finding(action=action), RemedyContext(launcher, "p5.48xlarge", "job"))
            assert found and not any("{" in line for line in found), (launcher, action)


@pytest.mark.parametrize("launcher", PURPOSES)
def test_a_command_that_explains_nothing_by_itself_is_explained(launcher: str) -> None:
    """Also that HyperPod may ignore it; without a command nothing is, nor a command whose name says what it does."""
    action = Action.RESET_GPU if launcher == "local" else Action.REPLACE
    finding = replace(_finding(action=action), remedy="Replace the node.")
    (item,) = gathered((finding,))

    place = RemedyContext(launcher, "ml.p5.48xlarge", "gate-1-check-1")
    remedy, lines = advice(item, _verdict(finding), place)
    is_possible = "" if launcher == "sagemaker" else "Replace the node. "
    assert lines and f"{is_possible}{PURPOSES[launcher]}" == remedy.replace(f" {SSH}", "")
    assert ("Replace the node.", ()) == advice(item, _verdict(finding), RemedyContext("sagemaker"))


def test_a_command_on_a_drained_node_is_for_when_its_jobs_have_ended() -> None:
    """Slurm lets them go on, and no training of another job is disturbed."""
    for action, waits in ((Action.INSPECT, True), (Action.RESET_GPU, True), (Action.REPLACE, False)):
        finding = replace(_finding(action=action), remedy="Look.")
        (item,) = gathered((finding,))
        assert waits is (SSH in advice(item, _verdict(finding), RemedyContext("slurm", "p5.48xlarge"))[0])


@pytest.mark.parametrize("launcher", ["local", "slurm"])
def test_a_machine_of_ones_own_is_described_to_the_command(launcher: str, tmp_path: Path) -> None:
    """Its name alone is refused by `prelaunch check`: the file that describes it is written first."""
    fabric: dict[str, Any] = {"network_gbit_s": 3200, "ib_ports": 8, "ib_rate_gbit_s": 400}
    machine = DeclaredMachine("H200 SXM", 192, 2048, nvlinks=0, **fabric)
    declared = Declared("our-h200", 4, 8, 8, machine=machine)
    place = RemedyContext(launcher, declared.instance_type, machine=short_text(declared))
    *_, writes, checks = typed(_finding(action=Action.INSPECT), place)
    executable(tmp_path / "ssh", '#!/bin/sh\nshift\nexec "$@"\n')  # the node is a folder here
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(("sh", "-c", writes), cwd=tmp_path, check=True, env=environment, stdout=subprocess.DEVNULL)
    arguments = shlex.split(checks)
    kind = arguments[arguments.index("--instance-type") + 1]

    assert replace(declared, nodes=1) == read(tmp_path / kind)
