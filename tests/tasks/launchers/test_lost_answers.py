"""An engine that takes a job and whose answer is lost or late: the job is adopted, or it is named, and never a second one runs.

The same of SageMaker, whose answers are other ones: sagemaker/test_submit.py.

An engine that gives no answer about a job is not an engine that has no such job, whatever the reason: every launcher says UNKNOWN.
Nodes of this machine have no engine that could be silent.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError

from tasks.launchers.base import (
    EngineUnavailable,
    JobHandle,
    JobState,
    JobStatus,
    Launcher,
    LaunchError,
    LaunchRejected,
    NoCapacity,
    Plan,
    QuotaExceeded,
    UnseenJob,
)
from tasks.launchers.kubernetes import submit as kubernetes
from tasks.launchers.kubernetes.api import EXISTS, FORBIDDEN, KINDS, ApiRefused, ObjectKind
from tasks.launchers.kubernetes.launcher import KubernetesLauncher
from tasks.launchers.slurm import commands
from tasks.launchers.slurm import submit as slurm
from tasks.launchers.slurm.commands import MissingCommand, SlurmReply
from tasks.launchers.slurm.launcher import SlurmLauncher
from tasks.launchers.slurm.options import SlurmOptions
from tests.tasks.launchers.kubernetes.planned import JOB as POD_JOB
from tests.tasks.launchers.kubernetes.planned import options
from tests.tasks.launchers.sagemaker.stubbed import JOB as TRAINING_JOB
from tests.tasks.launchers.sagemaker.stubbed import stubbed
from tests.tasks.launchers.slurm.test_batch_script import JOB

UNSENT = "Batch job submission failed: Socket timed out on send/recv operation"
LOST = SlurmReply(1, "", f"sbatch: error: {UNSENT}")
KILLED = SlurmReply(-15, "", "")


@dataclass
class Slurm:
    """slurmctld: one sbatch is not answered, or is killed. Whether it took the job is `takes`; so often it is listed `late`."""

    takes: bool
    late: int
    jobs: int = 0
    lost: bool = False

    def __call__(self, *argv: str, timeout_s: float = 0.0) -> SlurmReply:
        """In the place of commands.run."""
        if argv[0] == "sbatch":
            first, self.lost = not self.lost, True
            self.jobs += self.takes or not first
            return (KILLED if self.late else LOST) if first else SlurmReply(0, f"{4 + self.jobs}\n", "")
        if self.jobs and self.late:
            self.late -= 1
            return SlurmReply(0, "", "")
        return SlurmReply(0, "".join(f"{5 + index}|PENDING||None\n" for index in range(self.jobs)), "")


@dataclass
class Cluster:
    """The API server: it is silent from one POST of a kind on, for `late` calls. `refuses` are calls as "patch gate-1"."""

    takes: bool
    late: int
    kind: str = "Job"
    made: dict[tuple[str, str], Any] = field(default_factory=dict)
    refuses: Mapping[str, ApiRefused] = field(default_factory=dict)

    @property
    def jobs(self) -> int:
        """How many Jobs there are, of one for each node."""
        return sum(kind == "Job" for kind, _ in self.made) // POD_JOB.nodes

    def create(self, body: Any, dry_run: bool = False) -> Any:
        """POST."""
        key = body["kind"], body["metadata"]["name"]
        if self.kind == body["kind"]:
            self.kind = ""
            if self.takes:
                self.made[key] = copy.deepcopy(body)
            raise EngineUnavailable("the API server does not answer")
        self._answers("create", key[1])
        if key in self.made:
            raise ApiRefused("create", KINDS[body["kind"]].plural, 409, EXISTS, "exists")
        self.made[key] = copy.deepcopy(body)
        return body

    def get(self, kind: ObjectKind, name: str) -> Any:
        """GET."""
        self._answers("get", name)
        found = (made for (word, at), made in self.made.items() if at == name and KINDS[word] == kind)
        return next(found, None)

    def patch(self, kind: ObjectKind, name: str, body: Any) -> Any:
        """PATCH of annotations."""
        self._answers("patch", name)
        found = self.get(kind, name)
        found["metadata"].setdefault("annotations", {}).update(body["metadata"]["annotations"])
        return found

    def items(self, kind: ObjectKind, selector: str = "") -> Iterator[Any]:
        """GET of all of a kind."""
        self._answers("list", kind.plural)
        return iter([made for (word, _), made in self.made.items() if KINDS[word] == kind])

    def delete(self, kind: ObjectKind, name: str) -> bool:
        """DELETE."""
        self._answers("delete", name)
        return self.made.pop((kind.name, name), None) is not None

    def _answers(self, verb: str, name: str) -> None:
        if refusal := self.refuses.get(f"{verb} {name}"):
            raise refusal
        if not self.kind and self.late:
            self.late -= 1
            raise EngineUnavailable("the API server does not answer")


def of_slurm(folder: Path, patch: pytest.MonkeyPatch, fake: Slurm) -> tuple[Launcher, Plan]:
    """The launcher in front of it."""
    patch.setattr(commands, "run", fake)
    patch.setattr(slurm, "LOOK_S", 0.0)
    patch.setattr(slurm, "ADOPT_S", 0.2)
    launcher = SlurmLauncher(folder, SlurmOptions())
    return launcher, launcher.plan(JOB)


def of_kubernetes(folder: Path, patch: pytest.MonkeyPatch, fake: Cluster) -> tuple[Launcher, Plan]:
    """The same."""
    launcher = KubernetesLauncher(folder, options())
    patch.setattr(kubernetes, "AGAIN_S", 0.0)
    patch.setattr(kubernetes, "SILENT_S", 0.0)
    for verb in ("create", "get", "patch", "items", "delete"):
        patch.setattr(launcher.api, verb, getattr(fake, verb))
    return launcher, launcher.plan(POD_JOB)


def handles(launcher: Launcher, plan: Plan) -> Iterator[JobHandle]:
    """As the gate asks: again where the answer was none."""
    for _ in range(4):
        try:
            yield launcher.submit(plan)
            return
        except EngineUnavailable:
            assert not launcher.state(plan.job.name).state.final


@pytest.mark.parametrize("late", [0, 1, 3])
@pytest.mark.parametrize("takes", [True, False])
@pytest.mark.parametrize("kind", ["slurm", "ConfigMap", "Secret", "Service", "Job"])
def test_a_job_whose_answer_was_lost_is_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, takes: bool, late: int
) -> None:
    """Whichever answer it was, and however late the engine shows the job or answers at all."""
    engine: Any = Slurm(takes, late) if kind == "slurm" else Cluster(takes, late, kind)
    start: Any = of_slurm if kind == "slurm" else of_kubernetes
    launcher, plan = start(tmp_path, monkeypatch, engine)
    (handle,) = handles(launcher, plan)

    assert (handle.name, engine.jobs) == (plan.job.name, 1)
    assert launcher.submit(plan).adopted and engine.jobs == 1


QUOTA = ApiRefused("create", "jobs", 403, FORBIDDEN, "exceeded quota: gpus")
EXPIRED = ApiRefused("create", "jobs", 401, "Unauthorized", "the token has expired")
GRANT = ApiRefused("patch", "configmaps", 403, FORBIDDEN, "no")
GONE = ApiRefused("create", "jobs", 410, "Expired", "too old")
FIRST, SECOND = f"create {POD_JOB.name}-0", f"create {POD_JOB.name}-1"
SUBMITTED = f"patch {POD_JOB.name}"


@pytest.mark.parametrize(
    ("lost", "refuses", "error", "left"),
    [
        ("", {SECOND: QUOTA}, QuotaExceeded, 0),
        ("ConfigMap", {SECOND: QUOTA}, QuotaExceeded, 0),
        ("", {SECOND: GONE}, NoCapacity, 0),
        ("", {SUBMITTED: GRANT}, LaunchRejected, 0),
        ("Job", {FIRST: EXPIRED, "list jobs": EXPIRED}, EngineUnavailable, 1),
        ("Job", {FIRST: QUOTA}, EngineUnavailable, 1),
        ("", {SECOND: QUOTA, "list jobs": EXPIRED}, UnseenJob, 1),
        ("", {SUBMITTED: EXPIRED, "list jobs": EXPIRED}, UnseenJob, 2),
        ("", {SUBMITTED: GRANT, f"delete {POD_JOB.name}-1": GRANT}, UnseenJob, 1),
    ],
)
def test_a_refusal_of_kubernetes_says_that_nothing_was_started_only_where_nothing_is_left(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lost: str,
    refuses: Mapping[str, ApiRefused],
    error: type[LaunchError],
    left: int,
) -> None:
    """The gate forgets a job that was refused. What may run is named with the command that ends it, or asked about again."""
    engine = Cluster(True, 0, lost, refuses=refuses)
    launcher, plan = of_kubernetes(tmp_path, monkeypatch, engine)
    monkeypatch.setattr(kubernetes, "SILENT_S", 60.0)
    with pytest.raises(error) as caught:
        launcher.submit(plan)

    assert isinstance(caught.value, EngineUnavailable) is bool(left)
    assert left == sum(kind == "Job" for kind, _ in engine.made)
    assert left or not engine.made
    if error is QuotaExceeded:
        assert "Ask for a larger ResourceQuota" in str(caught.value)
    if error is UnseenJob:
        assert f"kubectl delete jobs -n default -l prelaunch.dev/job={POD_JOB.name}" in str(caught.value)


def aws(code: str, status: int) -> ClientError:
    """AWS's answer."""
    error: Any = {"Error": {"Code": code, "Message": "m"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(error, "DescribeTrainingJob")


def state_of_sagemaker(folder: Path, patch: pytest.MonkeyPatch, error: Exception) -> JobStatus:
    """What is said where DescribeTrainingJob raises this."""
    patch.setattr("tasks.launchers.sagemaker.launcher.ANSWER_S", 0.1)
    with stubbed() as made:
        client = made.launcher.clients.client("sagemaker")
        patch.setattr(client, "describe_training_job", Mock(side_effect=error))
        return made.launcher.state(TRAINING_JOB)


def state_of_slurm(folder: Path, patch: pytest.MonkeyPatch, answer: Exception | SlurmReply) -> JobStatus:
    """What is said where squeue and sacct answer this."""
    patch.setattr(commands, "run", Mock(side_effect=repeat(answer)))
    return SlurmLauncher(folder).state(TRAINING_JOB)


def state_of_kubernetes(folder: Path, patch: pytest.MonkeyPatch, error: Exception) -> JobStatus:
    """What is said where every call to the API server raises this."""
    launcher = KubernetesLauncher(folder, options())
    patch.setattr(launcher.api, "_call", Mock(side_effect=error))
    return launcher.state(TRAINING_JOB)


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (state_of_sagemaker, EndpointConnectionError(endpoint_url="https://sagemaker")),
        (state_of_sagemaker, aws("ServiceUnavailable", 503)),
        (state_of_sagemaker, aws("ThrottlingException", 400)),
        (state_of_sagemaker, aws("UnrecognizedClientException", 400)),
        (state_of_sagemaker, NoCredentialsError()),
        (state_of_slurm, SlurmReply(1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)")),
        (state_of_slurm, SlurmReply(1, "", "slurm_load_jobs error: Invalid authentication credential")),
        (state_of_slurm, SlurmReply(0, "no row", "")),
        (state_of_slurm, EngineUnavailable("squeue did not answer within 60 s.")),
        (state_of_slurm, MissingCommand("there is no squeue on this machine")),
        (state_of_kubernetes, EngineUnavailable("the API server does not answer")),
        (state_of_kubernetes, ApiRefused("get", "configmaps", 401, "Unauthorized", "the token has expired")),
        (state_of_kubernetes, ApiRefused("get", "configmaps", 403, "Forbidden", "no")),
    ],
)  # fmt: skip
def test_no_answer_is_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Any, answer: Exception | SlurmReply
) -> None:
    """It is neither final nor absent, so that a training goes on and the next look asks again."""
    status = ask(tmp_path, monkeypatch, answer)

    assert (status.state, status.absent, bool(status.detail)) == (JobState.UNKNOWN, False, True)
