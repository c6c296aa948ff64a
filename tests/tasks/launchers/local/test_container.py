"""Nodes that are containers of real engines: what reaches them, what the preflight says, and that none outlives its job."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from checks import bundle as bundles
from checks.facts.builtin import builtin
from checks.model import Declared, Profile
from checks.process import machine_state
from tasks.gate.jobs import STARTERS
from tasks.launchers.base import JobSpec, JobState, LaunchRejected, PreflightResult, Work
from tasks.launchers.local import container
from tasks.launchers.local.container import ContainerEngine, Submitter
from tasks.launchers.local.job_folder import JobFolder
from tasks.launchers.local.launcher import LocalLauncher
from tasks.launchers.local.plan import LocalNetwork, LocalOptions, make_plan
from tests.checks.local_policy import local_policy
from tests.container_engines import IMAGE, PROGRAMS, Engine, Engines, engines
from tests.programs import executable
from tests.tasks.launchers.contract import Bench, every_node_runs_and_reports, until_final
from tests.tasks.launchers.local.test_plan import JOB, is_golden
from tests.waiting import until

NAME = "contained-1"
SECONDS = 60.0
DEAF = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(os.path.join(sys.argv[1], "started"), "w").close(); time.sleep(300)
"""
# Neither list has a shell's own variables: the container has no shell.
TELL = """
import json, os, socket, sys
seen = {"environment": dict(os.environ), "process 1": open("/proc/1/comm").read().strip(), "host": socket.gethostname(),
        "shm": os.statvfs("/dev/shm").f_blocks, "kmsg": os.access("/dev/kmsg", os.R_OK), "findings": os.listdir(sys.argv[2])}
with open(os.path.join(sys.argv[1], "seen.json"), "w") as file: json.dump(seen, file)
"""
FOLDER = Path("/srv/prelaunch/jobs", JOB.name)


def bundle(gpus: int, instance_type: str = "p5.48xlarge") -> Mapping[str, bytes]:
    """The files of a job whose nodes have so many GPUs."""
    declared = Declared(instance_type, 1, gpus, max(gpus, 1))
    made = bundles.make("g-1", declared, Profile.QUICK, local_policy(), builtin())
    return {"bundle.json": bundles.dump(made)}


@pytest.mark.parametrize("kind", list(ContainerEngine))
def test_the_plan_is_what_the_golden_file_says(kind: ContainerEngine) -> None:
    """Eight GPUs by docker for a user who is not root; two namespaces by podman for root. Never run with GPUs by this project."""
    docker = kind is ContainerEngine.DOCKER
    options = LocalOptions(
        LocalNetwork.LOOPBACK if docker else LocalNetwork.NAMESPACES,
        container_image="registry.example/training:1",
        container_engine=kind,
        container_mounts=("/data:/data:ro",),
        container_arguments=("--device", "/dev/infiniband"),
    )
    job = replace(JOB, nodes=1, files=bundle(8)) if docker else JOB
    submitter = Submitter(1000, 1001, None) if docker else Submitter(0, 0, Path("/var/lib/prelaunch"))

    is_golden(make_plan(job, FOLDER, options, submitter), kind.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"container_mounts": ("/a:/b",)}, "need a container_image"),
        ({"container_arguments": ("--privileged",)}, "need a container_image"),
        ({"container_mounts": ("data:/data",), "container_image": "a"}, "two absolute paths"),
        ({"container_mounts": ("/data",), "container_image": "a"}, "two absolute paths"),
        ({"container_arguments": ("--detach",), "container_image": "a"}, "is the launcher's own"),
        ({"container_arguments": ("--name=x",), "container_image": "a"}, "is the launcher's own"),
        ({"container_arguments": ("-dit",), "container_image": "a"}, "is the launcher's own"),
        ({"container_arguments": ("-d=true",), "container_image": "a"}, "is the launcher's own"),
        ({"network": LocalNetwork.NAMESPACES, "container_image": "a"}, "docker cannot join a network"),
    ],
)
def test_options_that_cannot_be_are_rejected(options: dict[str, object], says: str) -> None:
    """In words, before anything is looked at."""
    with pytest.raises(LaunchRejected, match=says):
        LocalOptions(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "words",
    [("--device", "/dev/infiniband"), ("-v/data:/data",), ("-eDEBUG=1",), ("-it",), ("--dns", "10.0.0.2")],
)
def test_words_that_leave_a_container_with_its_launcher_are_taken(words: tuple[str, ...]) -> None:
    """A `d` in a value, or in the name of another option, detaches nothing."""
    assert words == LocalOptions(container_image="a", container_arguments=words).container_arguments


def test_a_folder_with_a_colon_is_rejected() -> None:
    """The engines would take what follows it for another path."""
    with pytest.raises(LaunchRejected, match="mount no path with a colon"):
        LocalLauncher(Path("/srv/a:b"), LocalOptions(container_image="a")).plan(JOB)


def test_an_engine_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the preflight, and by whoever should remove containers: none may be said to be gone."""
    monkeypatch.setenv("PATH", str(tmp_path))
    launcher = LocalLauncher(tmp_path / "work", LocalOptions(container_image="a"))
    (line,) = launcher.preflight((launcher.plan(replace(JOB, files=bundle(0, "cpu"))),))

    assert (line.result, line.subject) == (PreflightResult.WRONG, "container_engine")
    assert "there is no docker on the PATH" in line.text
    assert container.remove("docker", "pl-1") == "its containers may be left: there is no docker on the PATH"


def test_an_engine_that_does_not_answer_is_no_proof_that_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in that fails as docker does without its daemon."""
    executable(tmp_path / "docker", "#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    assert container.remove("docker", "pl-1").endswith("docker: Cannot connect to the Docker daemon")


@pytest.fixture(scope="module")
def started() -> Iterator[Engines]:
    """Each engine, started once, when a test first asks for it."""
    with engines() as made:
        yield made


@pytest.fixture(params=list(ContainerEngine), ids=lambda kind: str(kind.value))
def engine(
    warm: None, request: pytest.FixtureRequest, started: Engines, monkeypatch: pytest.MonkeyPatch
) -> Engine:
    """An engine whose client this process and its children use."""
    made = started(request.param)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


def launched(engine: Engine, folder: Path, code: str, *words: str, **more: object) -> LocalLauncher:
    """A launcher whose job NAME runs the code in a container."""
    options = LocalOptions(grace_s=0.3, **{**engine.options, **more})  # type: ignore[arg-type]
    made = LocalLauncher(folder / "work", options)
    command, environment = ("{python}", "-c", code, "{out}", *words), {"ASKED": "yes", "API_KEY": "s3cret"}
    made.submit(made.plan(JobSpec(NAME, command, 1, 1, 60.0, {}, environment)))
    return made


def folder_of(launcher: LocalLauncher) -> JobFolder:
    return JobFolder(launcher.root / "jobs" / NAME)


def until_started(launcher: LocalLauncher) -> None:
    started = folder_of(launcher).out / "started"
    until(started.exists, lambda: (launcher.state(NAME), launcher.logs(NAME, "node-0")), SECONDS)


@pytest.mark.root
def test_a_container_gets_what_the_checks_need_and_nothing_of_the_submitter(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job's variables, an init, shared memory, the kernel log, the open findings; a value that looks secret is in no file."""
    state = tmp_path / "state"
    state.mkdir()
    (state / machine_state.FINDINGS).write_bytes(b"{}")
    monkeypatch.setenv(machine_state.VARIABLE, str(state))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of the submitter")
    launcher = launched(engine, tmp_path, TELL, str(state))
    ended = until_final(launcher, NAME, SECONDS).state
    seen = json.loads((folder_of(launcher).out / "seen.json").read_bytes())

    assert (ended, seen["findings"]) == (JobState.SUCCEEDED, [machine_state.FINDINGS])
    assert (seen["environment"]["ASKED"], seen["environment"]["API_KEY"]) == ("yes", "s3cret")
    assert "AWS_SECRET_ACCESS_KEY" not in seen["environment"]
    assert "init" in seen["process 1"] and seen["shm"] == os.statvfs("/dev/shm").f_blocks and seen["kmsg"]
    assert b"s3cret" not in (folder_of(launcher).path / "job.json").read_bytes()
    assert engine.containers() == []


@pytest.mark.root
def test_a_container_that_ignores_sigterm_is_cancelled(engine: Engine, tmp_path: Path) -> None:
    """docker's client can be killed while its container goes on: the launcher removes it by its label."""
    launcher = launched(engine, tmp_path, DEAF)
    until_started(launcher)
    before = engine.containers()
    launcher.cancel(NAME)

    assert (len(before), engine.containers()) == (1, [])
    assert launcher.state(NAME).state is JobState.CANCELLED


@pytest.mark.root
def test_the_contract_in_containers(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What can differ, with podman in network namespaces; afterwards no container is left."""
    monkeypatch.setenv("PREFECT_API_KEY", "not for nodes")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    network = LocalNetwork.NAMESPACES if engine.kind is ContainerEngine.PODMAN else LocalNetwork.LOOPBACK
    options = LocalOptions(network, grace_s=0.5, **engine.options)  # type: ignore[arg-type]
    every_node_runs_and_reports(Bench(lambda: LocalLauncher(tmp_path / "work", options), tmp_path))

    assert engine.containers() == []


# Each engine, and each way in which nobody is left who removes a container.
KEEPERS = [
    pytest.param(ContainerEngine.PODMAN, ("shepherd",), id="podman-shepherd"),
    pytest.param(ContainerEngine.DOCKER, ("guard", "shepherd"), id="docker-both"),
]


@pytest.mark.root
@pytest.mark.parametrize(("engine", "victims"), KEEPERS, indirect=["engine"])
def test_no_container_outlives_its_keepers(engine: Engine, tmp_path: Path, victims: tuple[str, ...]) -> None:
    """The other one removes it; where both were killed at once, whoever asks for the state next does."""
    launcher = launched(engine, tmp_path, DEAF)
    until_started(launcher)
    keepers = folder_of(launcher).keepers()
    assert keepers is not None
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for victim in victims:
            os.kill(getattr(keepers, victim)[0], number)
    ended = until_final(launcher, NAME, SECONDS).state

    assert (ended, engine.containers()) == (JobState.FAILED, [])


@pytest.mark.root
@pytest.mark.parametrize("engine", [ContainerEngine.DOCKER], indirect=True)
def test_the_preflight_starts_a_container_as_the_nodes_would_be(engine: Engine, tmp_path: Path) -> None:
    """Whoever lacks the image, PyTorch in it, the training's script or the NVIDIA Container Toolkit is told before anything starts."""
    bare = tuple(f"{place}:{place}:ro" for place in PROGRAMS if Path(place).is_dir())
    script = str(tmp_path / "train.py")

    def said(options: Mapping[str, object], gpus: int = 0, work: Work = Work.CHECK) -> list[tuple[str, str]]:
        files = bundle(gpus, "p5.48xlarge" if gpus else "cpu")
        words = (*STARTERS["none"], script)
        job = JobSpec(
            "g-1-check-1", ("{python}", "-m", "checks"), 1, 2, 60.0, files, {}, work, words if work.trains else (), script=script
        )  # fmt: skip
        launcher = LocalLauncher(tmp_path / "jobs", LocalOptions(**options))  # type: ignore[arg-type]
        return [(line.result.value, line.text) for line in launcher.preflight((launcher.plan(job),))]

    whole = engine.options
    ((_, no_image),) = said({**whole, "container_image": "localhost/nobody-made-it:7"})
    ((_, no_torch),) = said({**whole, "container_mounts": bare, "python": "/usr/bin/python3"})
    ((result, no_python),) = said({**whole, "python": "/nope/python"})
    no_gpus = str(said(whole, gpus=8))
    ((_, no_script),) = said(whole, work=Work.CONFIRM)
    (tmp_path / "train.py").touch()
    mounts = (*engine.mounts, f"{tmp_path}:{tmp_path}:ro")

    assert f"{engine.kind.value} pull localhost/nobody-made-it:7" in no_image
    assert f"/usr/bin/python3 of the image {IMAGE}, which runs the nodes, has no module torch" in no_torch
    assert PreflightResult.WRONG.value == result and "/nope/python" in no_python
    assert "GPUs need the NVIDIA Container Toolkit" in no_gpus
    assert f"the image {IMAGE} has no such file" in no_script
    assert said(whole) == [] == said({**whole, "container_mounts": mounts}, work=Work.CONFIRM)
    assert not (tmp_path / "jobs").exists() and engine.containers() == []
