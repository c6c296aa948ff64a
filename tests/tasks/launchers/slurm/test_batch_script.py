"""JobSpec -> batch script: every option is there, nothing is injected, and no secret is in it.

What the shipped gate files submit is as it stands in tests/golden/slurm. UPDATE_GOLDEN=1 writes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from checks import bundle as bundles
from checks.bundle import Pass, PassedNode
from checks.value_types import DecodeError
from tasks.gate.context import open_gate_context
from tasks.gate.jobs import planned_jobs
from tasks.gate_file.request import GateRequest
from tasks.launchers.base import JobSpec, LaunchRejected, NodePlacement, Plan, Work
from tasks.launchers.registry import launcher_for
from tasks.launchers.slurm import batch_script
from tasks.launchers.slurm.batch_script import make_plan
from tasks.launchers.slurm.launcher import SlurmLauncher, sbatch_lines
from tasks.launchers.slurm.options import SlurmOptions
from tests.linters import finds_nothing
from tests.tasks.launchers.golden import GOLDEN, gates_of, golden_text
from tests.tasks.launchers.golden import ROOT as REPOSITORY

ROOT = Path("/shared/prelaunch")
PASSED = Pass(1, "g", "0" * 64, "", (PassedNode("n3", 0, {}), PassedNode("n7", 1, {})))
JOB = JobSpec(
    name="gate-1-train-1",
    command=("{python}", "-m", "checks", "gate", "--", "train"),
    nodes=2,
    ranks_per_node=8,
    max_runtime_s=3600.0,
    files={"bundle.json": b"{}", "pass.json": bundles.dump(PASSED)},
    environment={"NCCL_DEBUG": "INFO", "WANDB_API_KEY": "secret's"},
    work=Work.GATE,
    training=("{python}", "train.py", "--out", "{out}", "a 'b' $(c)"),
    tags={"prelaunch:gate": "gate-1", "prelaunch:cluster": "a cluster"},
)


def script(job: JobSpec = JOB, options: SlurmOptions | None = None, lines: tuple[str, ...] = ()) -> str:
    """The batch script of the plan."""
    return plan(job, options, lines).processes[0].script


def plan(job: JobSpec = JOB, options: SlurmOptions | None = None, lines: tuple[str, ...] = ()) -> Plan:
    """What would be submitted."""
    return make_plan(job, ROOT, options or SlurmOptions(), lines)


def test_a_pass_that_cannot_be_read_starts_no_training() -> None:
    """Without names any node would do."""
    broken = replace(JOB, work=Work.CONFIRM, files={**JOB.files, "pass.json": b"{"})
    with pytest.raises(LaunchRejected, match="the pass of its nodes cannot be read"):
        plan(broken, SlurmOptions(NodePlacement.PINNED))


def test_no_variable_is_in_the_script() -> None:
    """slurmctld keeps it, and shows it to administrators. A file of the job's folder has them."""
    made = plan()

    assert "secret" not in made.processes[0].script and "NCCL_DEBUG" not in made.processes[0].script
    assert made.uploads["/shared/prelaunch/jobs/gate-1-train-1/in/environment.sh"] == (
        b"export NCCL_DEBUG=INFO\nexport WANDB_API_KEY='secret'\"'\"'s'\n"
    )


def test_auto_resume_is_the_trainings_alone() -> None:
    """HyperPod and the gate do not both start a refused job again."""
    with pytest.raises(LaunchRejected, match="in_job"):
        SlurmOptions(NodePlacement.PINNED, auto_resume=True)
    with pytest.raises(LaunchRejected, match="Set one of them"):
        SlurmOptions(auto_resume=True, exclude_failed=True)


READ_BY_SLURM = ("SLURM_JOB_ID", "SBATCH_EXPORT", "SRUN_DEBUG", "BASH_ENV", "ENV", "UID", "PRELAUNCH_OUT")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "Gate 1"}, "is not of the form"),
        ({"max_runtime_s": float("inf")}, "Give a time above 0"),
        ({"files": {"exchange.key": b""}}, "a file cannot be named 'exchange.key'"),
        ({"environment": {"a b": "c"}}, "cannot be an environment variable"),
        *(({"environment": {name: "1"}}, f"{name} would tell Slurm") for name in READ_BY_SLURM),
        ({"request": {"Spot": True}}, "are for SageMaker"),
    ],
)
def test_batch_script_refuses_a_job_that_cannot_be_submitted(changes: dict[str, object], says: str) -> None:
    """Before anything is written."""
    with pytest.raises(LaunchRejected, match=says):
        plan(replace(JOB, **changes))  # type: ignore[arg-type]


def test_other_names_of_variables_are_the_trainings() -> None:
    """Also those that begin like ours, and the three that say how long the agent waits, and where it listens."""
    names = ("SLURMISH", "ENVIRONMENT", "nodes", "PRELAUNCH_JOIN_S", "PRELAUNCH_GRACE_S", "PRELAUNCH_PORT")
    made = plan(replace(JOB, environment=dict.fromkeys(names, "1")))

    assert made.uploads["/shared/prelaunch/jobs/gate-1-train-1/in/environment.sh"].count(b"export ") == 6


@pytest.mark.parametrize(
    "root", ["/a b", "/a\n#SBATCH --export=ALL", "/a%j", "/a\tb", "/a$b", "/a'b", '/a"b', "/a\\b", "/a#b"]
)
def test_a_store_whose_path_sbatch_would_read_wrongly_is_refused(root: str) -> None:
    """Its folder is on lines of the script without quotes, where % and a blank have a meaning."""
    with pytest.raises(LaunchRejected, match=r"Name another folder in \[cluster.options\]"):
        make_plan(JOB, Path(root), SlurmOptions())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"partition": "a b"}, "options.partition"),
        ({"partition": "a\n#SBATCH --export=ALL"}, "options.partition"),
        ({"qos": "$(id)"}, "options.qos"),
        ({"folder": "relative"}, "options.folder"),
        ({"folder": "/a b"}, "options.folder"),
        ({"placement": "poled"}, "options.placement: 'poled' is none of in_job, pinned"),
        ({"container_mounts": ["/a:/a"]}, "need a container_image"),
        ({"sbatch_file": "/nowhere"}, "cannot be read"),
    ],
)
def test_an_option_that_is_wrong_is_named(options: dict[str, object], says: str, tmp_path: Path) -> None:
    """No value of a gate file can add a line to the script."""
    with pytest.raises((LaunchRejected, DecodeError), match=says):
        launcher_for("slurm", options, tmp_path)


def test_a_site_brings_lines_of_its_own(tmp_path: Path) -> None:
    """Options only: a command in the file would run before every check."""
    path = tmp_path / "site.sbatch"
    path.write_text("#!/bin/bash\n# ours\n#SBATCH --switches=1@5\n\n#SBATCH --mail-type=NONE\n")
    (request,) = SlurmLauncher(tmp_path, SlurmOptions(sbatch_file=str(path))).plan(JOB).processes
    assert sbatch_lines(str(path)) == ("--switches=1@5", "--mail-type=NONE")
    assert "#SBATCH --mail-type=NONE" in request.script

    path.write_text("#SBATCH --switches=1\nmodule load cuda\n")
    with pytest.raises(LaunchRejected, match="module load cuda"):
        sbatch_lines(str(path))


def test_shellcheck_finds_nothing(tmp_path: Path) -> None:
    """In the whole script, with the variables that the launcher writes above its body."""
    path = tmp_path / "job.sbatch"
    job = replace(JOB, training=("{python}", "train.py"))
    path.write_text(script(job, SlurmOptions(python="/usr/bin/python3", interface="eth0")))

    finds_nothing("shellcheck", path)
    assert batch_script._body() in path.read_text()


def test_an_array_without_elements_ends_no_script() -> None:
    """Bash before 4.4, as on Amazon Linux 2, takes its expansion for that of an unset variable, which set -u forbids."""
    (name,) = re.findall(r"(?m)^(\w+)=\(\)$", script())

    assert f'${{{name}[@]+"${{{name}[@]}}"}}' in batch_script._body()
    assert 2 == batch_script._body().count(f"{name}[@]")


@pytest.mark.parametrize("name", ["n1 --partition=other", "n1\n#SBATCH --uid=0", "", "-n"])
def test_a_name_that_is_no_nodes_is_put_on_no_line(name: str) -> None:
    """It came from a node's own report."""
    with pytest.raises(LaunchRejected, match="cannot be the name of a node"):
        plan(replace(JOB, exclude=(name,)))


SCRIPTS = GOLDEN / "slurm"
GATES = gates_of("slurm")


@pytest.mark.parametrize("path", GATES, ids=lambda path: path.stem)
def test_the_batch_scripts_are_golden(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that differs between two jobs; what is the same in all of them is job.sh."""
    monkeypatch.chdir(tmp_path)
    context = open_gate_context(GateRequest(gate_file=str(path)))
    scripts = [context.launcher.plan(job).processes[0].script for job in planned_jobs(context)]
    assert all(script.endswith(batch_script._body()) for script in scripts)
    heads = "\n".join(script.removesuffix(batch_script._body()) for script in scripts)
    heads = heads.replace(str(tmp_path), "/shared").replace(str(REPOSITORY), "/prelaunch")
    if " " in str(REPOSITORY):
        heads = re.sub("'(/prelaunch/[^']*)'", r"\1", heads)  # quoted for the blank

    assert heads == golden_text(SCRIPTS / f"{path.stem}.sbatch", heads)


PINNED, EXCLUDED = SlurmOptions(NodePlacement.PINNED), replace(JOB, exclude=("n1", "gpu-2.x"))
# Pyxis mounts nothing by itself; the training's own image comes first.
IN_CONTAINER = SlurmOptions(
    container_image="nvcr.io#nvidia/pytorch:25.01", container_mounts=("/data:/data",), container_env=("NCCL_DEBUG",)
)  # fmt: skip
ALL = SlurmOptions(
    partition="p5", account="lab", qos="high", reservation="maint", constraint="a&b", exclude="n[1-2]",
    gres="gpu:h100:8", gpus_per_node=8, exclusive=False, requeue=False,
)  # fmt: skip
FEATURES: Mapping[str, tuple[JobSpec, SlurmOptions]] = {
    "every_option": (JOB, ALL),
    "confirms_pinned": (replace(JOB, work=Work.CONFIRM), PINNED),
    "checks_pinned": (replace(JOB, work=Work.CHECK), PINNED),
    "command": (replace(JOB, work=Work.COMMAND), SlurmOptions()),
    "waits_and_observes": (replace(JOB, ask_s=90.0, observe=True), SlurmOptions()),
    "container": (JOB, IN_CONTAINER),
    "image_of_the_training": (replace(JOB, image="mine"), IN_CONTAINER),
    # An option of srun, and not of sbatch.
    "auto_resume": (JOB, SlurmOptions(auto_resume=True)),
    "excludes": (EXCLUDED, SlurmOptions()),
    "excludes_more": (EXCLUDED, SlurmOptions(exclude="n[4-5]")),
}
HEADS = GOLDEN / "slurm_features"


@pytest.mark.parametrize("name", FEATURES)
def test_the_head_of_a_script_with_a_feature_is_golden(name: str) -> None:
    """Every option of sbatch, the site's own last; the agent's words; how long the others may run on after a node failed."""
    head = script(*FEATURES[name], ("--switches=1",)).removesuffix(batch_script._body())

    assert head == golden_text(HEADS / f"{name}.sbatch", head)


def test_every_golden_script_is_of_a_shipped_gate_file_or_a_feature() -> None:
    """A file that nobody compares says nothing."""
    assert {path.stem for path in GATES} == {path.stem for path in SCRIPTS.iterdir()}
    assert set(FEATURES) == {path.stem for path in HEADS.iterdir()}
