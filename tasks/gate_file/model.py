"""What a gate file may say (pydantic, unknown keys refused); `tasks.gate_file.read` reads one.

Paths are relative to the gate file; only those of `store` are relative to the folder where the command runs, so
that a shipped gate file never writes beside itself. Gates that share a cluster must share a store, because the store has the lock
that keeps them apart.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PrivateAttr, model_validator

from checks.facts.profile_options import DEADLINE_S
from checks.model import Declared, KernelLog, Profile
from checks.model_details import DeclaredMachine
from tasks.gate_file.people import Approval, Notify
from tasks.text.interpreters import PYTHON
from tasks.text.tables import counted

CODE_FORM = r"^[\w.]+:\w+$"
NAME_FORM = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"
Name = Annotated[str, Field(pattern=NAME_FORM, max_length=19)]
ClusterName = Annotated[str, Field(pattern=NAME_FORM, max_length=63)]
Text = Annotated[str, Field(min_length=1, max_length=4096)]
Hours = Annotated[float, Field(gt=0, le=24 * 366)]
Minutes = Annotated[float, Field(gt=0, le=60 * 24 * 30)]
Seconds = Annotated[float, Field(ge=0.1, le=86400)]
START_S, START_SHARE = 30.0, 0.25  # of a job's time, for its start and its reports
OptionValue = bool | int | float | str | tuple[str, ...]

# What `--set` may not change: the whole subtree, and why.
LOCKED: dict[str, str] = {
    "cluster.name": "the cluster's lock has this name",
    "cluster.launcher": "another launcher needs other options",
    "cluster.topology": "it is a path",
    "checks.extra": "it names code that will run",
    "policy.file": "it is a path",
    "policy.baseline": "it is a path (prelaunch gate has --baseline for it)",
    "training.command": "it is the code that will run",
    "training.environment": "it is passed to the code that will run",
    "training.image": "it is the code that will run",
    "training.request": "it is the code that will run",
    "training.model_trainer": "it names code that will run",
    "notify": "it decides who is notified, and where secrets are sent",
    "approval": "it decides who may approve",
    "remediation": "it decides what is done to machines",
    "store.path": "it is a path",
    "store.work": "it is a path",
    "mlflow": "it decides where reports are sent",
}
# Launchers bring their own options; those that name files or programs are known by the end of their key.
LOCKED_OPTION_ENDS = (
    "path",
    "file",
    "dir",
    "folder",
    "root",
    "command",
    "image",
    "mounts",
    "arguments",
    "engine",
    "prepared",
    "python",
    "role_arn",
    "context",
    "service_account",
)


class GateTable(BaseModel):
    """A table of the file: frozen, nothing coerced, nothing unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class DeclaredTable(GateTable):
    """What the operator says is there. What must be observed follows from it, never from what is found.

    The training runs on `nodes`; with placement in_job the job gets as many `spares` more, and the best of all train.
    """

    instance_type: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=64)]
    nodes: Annotated[int, Field(ge=1, le=100_000)]
    gpus_per_node: Annotated[int, Field(ge=0, le=64)] = 0
    ranks_per_node: Annotated[int, Field(ge=1, le=256)]
    spares: Annotated[int, Field(ge=0, le=16)] = 0


class MachineTable(GateTable):
    """Machines of your own, whose `instance_type` is a name that you choose: what is not said is not compared.

    `gpu` is the model as `prelaunch facts` spells it ("H100 80GB HBM3"); a policy for an instance type with this GPU then holds for
    these machines too. Counts are of one node; `nvlinks`, `gpu_memory_mib` and `pcie_*` are of one GPU. `network_gbit_s` is what a
    node sends to the other nodes in all. `ib_ports` are the ports of InfiniBand or RoCE that the training uses, each with
    `ib_rate_gbit_s`.
    """

    gpu: Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9 ._-]*)?$", max_length=64)] = ""
    vcpus: Annotated[int, Field(ge=1, le=100_000)] | None = None
    memory_gib: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    gpu_memory_mib: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    nvlinks: Annotated[int, Field(ge=0, le=1000)] | None = None
    pcie_generation: Annotated[int, Field(ge=1, le=20)] | None = None
    pcie_width: Annotated[int, Field(ge=1, le=64)] | None = None
    network_gbit_s: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    efa_devices: Annotated[int, Field(ge=0, le=1000)] = 0
    ib_ports: Annotated[int, Field(ge=0, le=1000)] = 0
    ib_rate_gbit_s: Annotated[int, Field(ge=1, le=100_000)] | None = None

    @model_validator(mode="after")
    def ports_have_a_rate(self) -> MachineTable:
        """A port whose rate nobody declared could run at a quarter of it unnoticed."""
        if (self.ib_ports > 0) != (self.ib_rate_gbit_s is not None):
            message = "ib_ports and ib_rate_gbit_s (of one port, such as 400 for NDR) belong together: give both or neither"
            raise ValueError(message)
        return self


class Cluster(GateTable):
    """Where it runs. While the engine has no machines, it is asked again for `capacity_wait_minutes`.

    That is for the checks, and after a go for the training, each time from when machines were first lacking. Machines that
    wait for the training (POOLED) wait for as long as the launcher's options say, and no longer; they are billed meanwhile.
    When they are gone, the checks begin again, once.

    `topology` is a file that says which switches each node hangs under: what `aws ec2 describe-instance-topology` or
    `scontrol show topology` prints, topology.conf, or CSV (node,switch[,switch...], nearest first). Nodes are found by
    name, host name or EC2 instance id. `topology_names` is a regular expression with one group over names of nodes
    ("rack(\\d+)"), for those that the file lacks. Without either a node says what Slurm's environment says.
    """

    name: ClusterName
    launcher: Annotated[str, Field(min_length=1, max_length=32)] = "local"
    declared: DeclaredTable
    machine: MachineTable | None = None
    options: dict[str, OptionValue] = Field(default_factory=dict)
    capacity_wait_minutes: Annotated[float, Field(ge=0, le=60 * 24 * 7)] = 0.0
    topology: Annotated[str, Field(max_length=4096)] = ""
    topology_names: Annotated[str, Field(max_length=500)] = ""


class Checks(GateTable):
    """How thorough the checks are, and their time limits.

    `extra` names a site's own checks ("package.module:attribute"), `skip` checks that are left out: each of them is a
    warning in every verdict, and a check that the policy requires is refused.

    `deadline_s` bounds all checks of a node, from the moment at which its runner begins: 5 s later there is a verdict, and
    what was given up by then is in it. Without one the profile's own holds (checks.facts.profile_options.DEADLINE_S), or as much as
    `max_runtime_minutes` leaves, which counts from the start of the job and ends it.
    """

    profile: Profile = Profile.QUICK
    skip: tuple[Annotated[str, Field(max_length=200)], ...] = ()
    extra: tuple[Annotated[str, Field(pattern=CODE_FORM, max_length=200)], ...] = ()
    timeouts_s: dict[str, Seconds] = Field(default_factory=dict)
    network_s: Annotated[float, Field(ge=0.5, le=3600)] = 20.0
    stage_s: Annotated[float, Field(ge=1, le=86400)] = 600.0
    deadline_s: Annotated[float, Field(ge=5, le=86400)] | None = None
    max_runtime_minutes: Minutes = 15.0

    @model_validator(mode="after")
    def deadline_within_the_job(self) -> Checks:
        """A job that is ended before its checks have to end could not report what was given up."""
        if self.deadline_s is not None and self.deadline_s > self.longest_deadline_s:
            raise ValueError(
                f"deadline_s = {self.deadline_s:g} does not fit into max_runtime_minutes = {self.max_runtime_minutes:g}: "
                f"at most {self.longest_deadline_s:g} s do. Raise max_runtime_minutes, or lower deadline_s."
            )
        return self

    @property
    def longest_deadline_s(self) -> float:
        """What the job's own limit leaves, less the time to start and to report."""
        return max(self.max_runtime_minutes * 60 * (1 - START_SHARE), self.max_runtime_minutes * 60 - START_S)

    @property
    def whole_deadline_s(self) -> float:
        """The deadline that holds."""
        if self.deadline_s is not None:
            return self.deadline_s
        return max(1.0, min(DEADLINE_S[self.profile], self.longest_deadline_s))


class Mode(StrEnum):
    """What a refusal does: stop, or be recorded only."""

    ENFORCE = "enforce"
    OBSERVE = "observe"


class PolicyTable(GateTable):
    """What is accepted. `reuse_pass_minutes`: a PASS that is younger is used again if the machines are proven to be the same.

    `baseline` is a file that `prelaunch fleet baseline learn` made ("" for none): a value that is worse is a WARN. Only the gate
    itself compares with it; nodes that confirm a PASS, or decide inside of a job, know the policy only.
    """

    file: Text
    baseline: Annotated[str, Field(max_length=4096)] = ""
    mode: Mode = Mode.ENFORCE
    reuse_pass_minutes: Annotated[float, Field(ge=0, le=60 * 24)] = 0.0


class TrainingTable(GateTable):
    """The job that starts after GO.

    `command` runs on every node: behind torchrun, by itself, or as the ranks of one mpirun. `{here}` is the gate file's
    folder, `{python}` the interpreter, `{out}` the job's output folder (it is copied: keep it small). `{nodes}`,
    `{node_rank}`, `{ranks_per_node}`, `{master_addr}` and `{master_port}` are filled in on the node. `expected_hours` and
    `checkpoint_minutes` (the interval) are for the cost that is shown with a verdict: they end nothing.

    `image`, `request` and `model_trainer` are for launchers that start containers: the training's own image ("" is the
    checks'), keys of the engine's own request, and "package.module:object", a sagemaker.train.ModelTrainer that replaces
    command, image and request. Where checks and training are one job, the engine may start it again after a no-go
    (SageMaker repairs the cluster first): `max_attempts` times, then it is stopped.
    """

    command: Annotated[tuple[Text, ...], Field(max_length=1000)] = ()
    image: Annotated[str, Field(max_length=255)] = ""
    request: dict[str, JsonValue] = Field(default_factory=dict)
    model_trainer: Annotated[str, Field(pattern=r"^([\w.]+:\w+)?$", max_length=200)] = ""
    max_attempts: Annotated[int, Field(ge=1, le=30)] = 3
    expected_hours: Hours | None = None
    checkpoint_minutes: Annotated[float, Field(gt=0, le=60 * 24 * 7)] | None = None
    distributed: Literal["torchrun", "mpi", "none"] = "torchrun"
    environment: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str] = Field(
        default_factory=dict
    )
    max_runtime_minutes: Minutes

    @model_validator(mode="after")
    def one_command(self) -> TrainingTable:
        """Exactly one of `command` and `model_trainer` says what runs."""
        if bool(self.command) == bool(self.model_trainer):
            raise ValueError("give either command or model_trainer")
        if self.model_trainer and (self.image or self.request or self.environment):
            message = "image, request and environment are the model_trainer's own: leave them out here"
            raise ValueError(message)
        if self.distributed == "torchrun" and self.command and PYTHON.fullmatch(self.command[0]):
            raise ValueError(
                f"torchrun starts Python itself, and would take {self.command[0]!r} for the script: "
                'begin with the script, or write distributed = "none" to start the command alone'
            )
        return self


class CostTable(GateTable):
    """What an hour costs, for the cost that is shown with a verdict; without it the list prices are taken.

    `replacement_hours` is how long the cluster waits for another node.
    """

    usd_per_node_hour: Annotated[float, Field(gt=0, le=100_000)] | None = None
    purchase: Literal["ec2", "sagemaker"] = "ec2"
    replacement_hours: Hours | None = None


class RemediationTable(GateTable):
    """What may be done to machines that a gate condemned (docs/remediation.md).

    `mode`: "off"; "plan" prints it; "ask" fences, and asks a person before each repair; "act" does the repairs in `acts`
    without a question. `machines` is the back end, with `options` of its own. At most `max_out_fraction` of the nodes are out
    of service (at least one), for whatever reason. A verdict that is older than `max_verdict_minutes` is not acted on.
    `breaker_acts` acts within `breaker_minutes` stop everything until a person closes the breaker. `resume` starts the gate, and
    with it the training, again once the nodes are back.
    """

    mode: Literal["off", "plan", "ask", "act"] = "plan"
    machines: Annotated[str, Field(min_length=1, max_length=32)] = "log"
    options: dict[str, OptionValue] = Field(default_factory=dict)
    acts: tuple[Literal["reset", "reboot", "replace"], ...] = ("reset", "reboot")
    max_out_fraction: Annotated[float, Field(ge=0, le=1)] = 0.1
    max_verdict_minutes: Annotated[float, Field(gt=0, le=24 * 60)] = 30.0
    breaker_acts: Annotated[int, Field(ge=1, le=1000)] = 6
    breaker_minutes: Minutes = 60.0
    ask_minutes: Minutes = 60.0
    wait_minutes: Minutes = 240.0
    resume: bool = False

    @model_validator(mode="after")
    def machines_that_change(self) -> RemediationTable:
        """To repair needs a back end that can."""
        if self.mode in ("ask", "act") and self.machines == "log":
            message = f'mode = "{self.mode}" needs machines that can be changed: write machines = "slurm", "hyperpod" or "kubernetes"'
            raise ValueError(message)
        return self


class StoreTable(GateTable):
    """Where reports, verdicts and locks are stored: a folder, or s3://bucket/prefix.

    `work` is the folder on this machine for what is no evidence: copies, the local launcher's jobs, the embedded Prefect
    server, and the index, a file with which commands find verdicts faster. It is the store's own folder if the store is one, else
    ".prelaunch".
    """

    path: Text = ".prelaunch"
    work: Annotated[str, Field(max_length=4096)] = ""


class MlflowTable(GateTable):
    """Where each gate is logged as a run of MLflow: `uri` is http(s)://host or the ARN of a tracking server of SageMaker.

    Credentials are in the environment (MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD).
    """

    uri: Annotated[
        str, Field(pattern=r"^(|https?://[^/@\s]+(/[^@\s]*)?|arn:aws[a-z-]*:sagemaker:\S+)$", max_length=4096)
    ] = ""
    experiment_name: Annotated[str, Field(min_length=1, max_length=250)] = "sagemaker-health-checks"


class Gate(GateTable):
    """One gate file."""

    name: Name
    cluster: Cluster
    checks: Checks = Checks()
    policy: PolicyTable
    training: TrainingTable
    cost: CostTable = CostTable()
    notify: Notify = Notify()
    approval: Approval = Approval()
    remediation: RemediationTable = RemediationTable()
    store: StoreTable = StoreTable()
    mlflow: MlflowTable = MlflowTable()
    _text: str = PrivateAttr("")

    @property
    def text(self) -> str:
        """The text of the file that it was read from, so that nobody reads another one; "" if it was read from none."""
        return self._text

    def remember(self, text: str) -> None:
        """Keep the text of the file that it was read from."""
        self._text = text

    @model_validator(mode="after")
    def one_starts_again(self) -> Gate:
        """Either the engine starts a refused job again, or remediation does."""
        again = [name for name in ("auto_resume", "exclude_failed") if self.cluster.options.get(name)]
        if self.remediation.resume and again:
            raise ValueError(
                f"remediation.resume and {again[0]} would both start the training again. Set one of them"
            )
        return self

    @model_validator(mode="after")
    def spares_decide(self) -> Gate:
        """A training that starts whatever the verdict is has no nodes to leave out."""
        declared = self.cluster.declared
        if declared.spares >= declared.nodes:
            raise ValueError(
                "cluster.declared.spares must be fewer than nodes: otherwise two groups of nodes that lost sight of each other "
                "could each start the training"
            )
        if declared.spares and self.policy.mode is Mode.OBSERVE:
            raise ValueError(
                'cluster.declared.spares need policy.mode = "enforce": observing leaves no node out'
            )
        return self

    def declared(self, node_names: tuple[str, ...], kernel_log: KernelLog = KernelLog.READABLE) -> Declared:
        """What is declared, in the words of the checks. `kernel_log` is the launcher's, not the file's."""
        table = self.cluster.declared
        return Declared(
            table.instance_type,
            table.nodes + table.spares,
            table.gpus_per_node,
            table.ranks_per_node,
            node_names,
            kernel_log,
            None if self.cluster.machine is None else DeclaredMachine(**self.cluster.machine.model_dump()),
            table.spares,
        )

    @property
    def title(self) -> str:
        """A sentence for people: "gate local: 2 nodes, quick"."""
        nodes, spares = self.cluster.declared.nodes, self.cluster.declared.spares
        more = f" and {counted(spares, 'spare')}" if spares else ""
        return f"gate {self.name}: {counted(nodes, 'node')}{more}, {self.checks.profile.value}"
