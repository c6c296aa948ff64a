"""Everything that a gate resolved from its request: file, policy, facts, store and launcher; and the flow run's name.

Opening a context starts nothing and writes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from checks import bundle as bundles
from checks import catalog
from checks.bundle import Bundle
from checks.check import CatalogError
from checks.command_line import InputError
from checks.culprit.topology import Topology
from checks.documents.nearest import nearest
from checks.documents.report import digest, dump_plain
from checks.facts import withheld_kernel_log
from checks.facts.builtin import builtin
from checks.facts.instances import Facts, lacks, types_text, unknown_type
from checks.judge.baseline.bands import Baseline, digest_of
from checks.judge.cost.cost import NOTHING_SAID, CostTerms
from checks.model import Declared, KernelLog
from checks.policy import CheckPolicy, OnWarn, Policy, leave_out_edit
from checks.value_types import listed_names
from checks.version import ENGINE
from tasks.gate.lease.lease import LauncherAddress
from tasks.gate_file.cost_terms import terms_of
from tasks.gate_file.folder import missing_name, path_of
from tasks.gate_file.machines import require_known_type, require_own_machine, topology_of, unfit_line
from tasks.gate_file.model import Gate, Mode
from tasks.gate_file.read import GateFileError, read_gate_file, read_toml, together, with_lines
from tasks.gate_file.references import options_from, policies_in, read_baseline, read_policy
from tasks.gate_file.request import GateRequest
from tasks.launchers.base import Launcher, LaunchRejected, Placement
from tasks.launchers.registry import LAUNCHERS, kernel_log_of, launcher_for, option_faults, options_of
from tasks.store.base import Store, StoreError
from tasks.store.call_timeout import PatientStore
from tasks.store.open import absolute, is_remote, open_store
from tasks.text.redact import SECRET_NAME, remember_secret

WORK = ".prelaunch"
# An error names so many of the checks that a policy lacks.
MISSING_NAMED = 8
# Between the answer and the start of the training: the engine matches, provisions, and takes the machines over.
MARGIN_S = 600.0


@dataclass(frozen=True)
class GateContext:
    """Everything that follows from a request alone. `here` is the gate file's folder.

    `address` opens the same store from anywhere; `local` is this machine's folder for what is no evidence. `certifies`: certificates
    may stand for checks, as far as the policy says. `nodes_cluster` is the cluster for whose nodes this gate counts.
    """

    gate: Gate
    file: str
    here: Path
    policy: Policy
    facts: Facts
    declared: Declared
    store: Store
    address: str
    engine: LauncherAddress
    launcher: Launcher
    local: Path
    baseline: Baseline | None = None
    terms: CostTerms = NOTHING_SAID
    topology: Topology | None = None
    certifies: bool = True
    nodes_cluster: str = ""

    @property
    def work(self) -> Path:
        """The folder into which the jobs' files are fetched."""
        return self.local / "work"

    @property
    def most_check_minutes(self) -> float:
        """How long the checks may take: the nodes that are left without a failed one are measured again."""
        return self.gate.checks.max_runtime_minutes * (2 if self.declared.spares else 1)

    @property
    def asks(self) -> bool:
        """Whether a person may have to decide on a verdict of this gate."""
        return _asks(self.gate, self.policy)

    @property
    def digest(self) -> str:
        """Equal for gates that would do the same: the file's values with the overrides, and the policy."""
        values = {
            "gate": self.gate.model_dump(mode="json"),
            "here": str(self.here),
            "checks": self.fingerprint,
        }
        return digest(dump_plain(values))

    @property
    def fingerprint(self) -> str:
        """Equal for gates whose PASS means the same: it covers everything that a verdict depends on except the machines."""
        values = {
            "cluster": self.gate.cluster.model_dump(mode="json"),
            "checks": self.gate.checks.model_dump(mode="json", exclude={"max_runtime_minutes"}),
            "catalogue": self.bundle("fingerprint").catalogue,
            "policy": self.policy.digest,
            "facts": self.facts.digest,
            "baseline": None if self.baseline is None else digest_of(self.baseline),
            "topology": None if self.topology is None else digest(dump_plain(self.topology)),
            "engine": ENGINE,
        }
        return digest(dump_plain(values))

    def bundle(self, gate_id: str) -> Bundle:
        """The bundle that every node gets."""
        checks = self.gate.checks
        return bundles.make(
            gate_id, self.declared, checks.profile, self.policy, self.facts,
            extra=checks.extra, timeouts_s=checks.timeouts_s, skip=checks.skip,
            network_s=checks.network_s, stage_s=checks.stage_s, topology=self.topology,
            deadline_s=checks.whole_deadline_s,
        )  # fmt: skip


def with_own_store(context: GateContext) -> GateContext:
    """The context with a store of its own: the deadline of a gate bounds that one, and not whatever the caller does afterwards."""
    store = context.store
    return replace(context, store=PatientStore(store.store if isinstance(store, PatientStore) else store))


@with_lines()
def open_gate_context(request: GateRequest) -> GateContext:
    """Read and check everything that the request names. Raises GateFileError for whatever is wrong."""
    path = _gate_file(request.gate_file)
    here, file = path.resolve().parent, _shown_path(path)
    try:
        gate = read_gate_file(path, request.sets)
        for name, value in gate.training.environment.items():
            if SECRET_NAME.search(name):
                remember_secret(value)
        policy = _policy(file, here, gate.policy.file)
        baseline = _baseline(file, here, gate, request.advanced.baseline)
        facts = builtin().merged(gate.declared(()))
        _require_known(file, gate, policy, facts)
        topology = topology_of(gate.cluster, file, here)
    except GateFileError as error:
        paths = {other.path for other in (error, *error.more)}
        others = _also_wrong(str(path) if error.file.startswith(str(path)) else file, path)
        together(error, *(other for other in others if other.path not in paths))
        raise
    store, address, local = _kept_in(file, gate, request.advanced.store)
    options = options_from(here, gate.cluster.options)
    engine = LauncherAddress(gate.cluster.launcher, options, str(local / "clusters" / gate.cluster.name))
    try:
        launcher = launcher_of(engine)
        names = launcher.node_names(gate.declared(()).nodes)
        kernel_log = kernel_log_of(engine.launcher)
    except LaunchRejected as error:
        is_given = "launcher" in gate.cluster.model_fields_set
        raise _about_launcher(file, engine.launcher, options, error, is_given) from error
    _require_optional(file, gate, policy, kernel_log)
    _require_override(file, gate, launcher)
    if gate.cluster.declared.spares and launcher.placement is not Placement.IN_JOB:
        key = "in_job = true" if "in_job" in options_of(engine.launcher) else 'placement = "in_job"'
        message = f"spares need {key} in [cluster.options]: only there the nodes that passed go on without the others"
        raise GateFileError(file, "cluster.declared.spares", message)
    if request.launch:
        _require_time_to_ask(file, gate, policy, launcher, request.advanced.ask_minutes)
    return GateContext(
        gate, file, here, policy, facts, gate.declared(names, kernel_log),
        store, address, engine, launcher, local, baseline, terms_of(gate), topology,
        nodes_cluster=gate.cluster.name,
    )  # fmt: skip


def launcher_of(engine: LauncherAddress) -> Launcher:
    """The launcher that a lock or a gate file names. Raises LaunchRejected."""
    return launcher_for(engine.launcher, engine.options, Path(engine.root))


def _gate_file(name: str) -> Path:
    """The path of the gate file. A name that the folder of gate files lacks is refused; the error lists the names that it has."""
    if lacking := missing_name(name):
        raise GateFileError(name, "", *lacking)
    return path_of(name)


def _kept_in(file: str, gate: Gate, override: str) -> tuple[Store, str, Path]:
    """The store, its address, and the local folder; neither is accessed."""
    try:
        address = absolute(override or gate.store.path)
        local = Path(gate.store.work or (WORK if is_remote(address) else address)).expanduser().absolute()
        store = PatientStore(open_store(address))
    except StoreError as error:
        where = ("store", "") if override else (file, "store.path")
        raise GateFileError(*where, str(error).rstrip(".")) from error
    return store, address, local


def _shown_path(path: Path) -> str:
    """The path in its shortest unambiguous form."""
    relative = os.path.relpath(path)
    return str(path.resolve()) if relative.startswith("..") else relative


def _also_wrong(file: str, path: Path) -> Iterator[GateFileError]:
    """What the launcher, the policy and the instance types refuse of a file that is wrong, so that nobody corrects it one by one."""
    for refused_by in (_require_options, _require_policy, _require_type, _require_checks):
        try:
            refused_by(file, path.parent, read_toml(path)[0])
        except GateFileError as error:
            yield from (error,) if error.path else ()
        except (LookupError, TypeError, AttributeError):
            pass  # a key that is missing, or no table: the first error says so


def _require_options(file: str, here: Path, table: Mapping[str, Any]) -> None:
    cluster = table["cluster"]
    launcher, options = cluster.get("launcher", "local"), options_from(here, cluster["options"])
    try:
        launcher_for(launcher, options, here)
    except LaunchRejected as error:
        raise _about_launcher(file, launcher, options, error, "launcher" in cluster) from error


def _require_policy(file: str, here: Path, table: Mapping[str, Any]) -> None:
    _policy(file, here, table["policy"]["file"])


def _require_type(file: str, here: Path, table: Mapping[str, Any]) -> None:
    name, instances = table["cluster"]["declared"]["instance_type"], builtin().instances
    if "machine" not in table["cluster"] and name not in instances:
        raise GateFileError(file, "cluster.declared.instance_type", *unknown_type(name, tuple(instances)))


def _require_checks(file: str, here: Path, table: Mapping[str, Any]) -> None:
    unknown = [*_unknown_checks(file, table["checks"], [check.name for check in catalog.CATALOG])]
    if unknown and "extra" not in table["checks"]:
        raise together(*unknown)


def _about_launcher(
    file: str, launcher: str, options: Mapping[str, object], error: LaunchRejected, is_given: bool
) -> GateFileError:
    """What a launcher refuses of its options, each of them. The first also says which launcher has them, if none is given."""
    if launcher not in LAUNCHERS:
        return GateFileError(file, "cluster.launcher", str(error))
    if not is_given and (fitting := [name for name in LAUNCHERS if options.keys() <= options_of(name)]):
        message = f"is not given, so it is {launcher}, which lacks some of [cluster.options]. Name one that has them"
        return GateFileError(file, "cluster.launcher", f"{message}: {', '.join(fitting)}")
    faults = option_faults(launcher, options)
    each = [GateFileError(file, f"cluster.{fault.path}", fault.reason, fault.nearest) for fault in faults]
    return together(*each or [GateFileError(file, "cluster", str(error))])


def _unknown_checks(file: str, table: Mapping[str, Any], names: Sequence[str]) -> Iterator[GateFileError]:
    """The checks that `skip` and `timeouts_s` name and that do not exist."""
    entries = [(f"timeouts_s.{name}", name) for name in table.get("timeouts_s", ())]
    entries += [(f"skip[{index}]", name) for index, name in enumerate(table.get("skip", ()))]
    for key, name in entries:
        if name not in names:
            yield GateFileError(file, f"checks.{key}", "there is no such check", nearest(name, names))


def _policy(file: str, here: Path, entry: str) -> Policy:
    path = here / entry
    try:
        return read_policy(path)
    except InputError as error:
        if not path.exists():
            near = nearest(path.name, policies_in(path.parent))
            text = f"there is no file {path.resolve()}"
            raise GateFileError(file, "policy.file", text, near and str(Path(entry).parent / near)) from error
        text = f"{error.message.rstrip('.')} (it is the [policy] file of {file})"
        raise GateFileError(_shown_path(path), error.path, text, error.nearest) from error


def _baseline(file: str, here: Path, gate: Gate, own: str) -> Baseline | None:
    """The baseline that the request names, otherwise the gate file's, relative to the gate file's folder."""
    path = Path(own).expanduser() if own else here / gate.policy.baseline
    try:
        return read_baseline(path) if own or gate.policy.baseline else None
    except InputError as error:
        where = "baseline (--baseline)" if own else f"{file}: policy.baseline"
        raise GateFileError(f"{where}: {error.file}", error.path, error.message, error.nearest) from error


def _require_known(file: str, gate: Gate, policy: Policy, facts: Facts) -> None:
    """Require types, GPU counts and checks that exist; otherwise a contradiction would be noticed only after the checks."""
    declared = gate.cluster.declared
    require_known_type(file, gate, policy, facts)
    instance = facts.instances[declared.instance_type]
    require_own_machine(file, gate)
    if instance.gpus != declared.gpus_per_node:
        text = f"{declared.instance_type} has {instance.gpus} GPUs, and {declared.gpus_per_node} are declared"
        raise GateFileError(file, "cluster.declared.gpus_per_node", text, str(instance.gpus))
    if declared.gpus_per_node not in (0, declared.ranks_per_node):
        text = f"{declared.gpus_per_node} GPUs and {declared.ranks_per_node} ranks per node: each GPU has one rank"
        raise GateFileError(file, "cluster.declared.ranks_per_node", text, str(declared.gpus_per_node))
    if not facts.are_for(policy.instance_types, gate.declared(())):
        types = types_text(policy.instance_types, declared.instance_type)
        text = f"policy {policy.name!r} ({gate.policy.file}) was not written for {declared.instance_type}, but for {types}"
        text += ". Name another in [policy] file, or add the type to a copy of this one"
        raise GateFileError(file, "cluster.declared.instance_type", text)
    try:
        catalogue = catalog.with_extra(gate.checks.extra)
    except CatalogError as error:
        raise GateFileError(file, "checks.extra", str(error)) from error
    checks = [check.name for check in catalogue]
    if unknown := [*_unknown_checks(file, gate.checks.model_dump(), checks)]:
        raise together(*unknown)
    table = gate.declared(())
    applying = [check for check in catalogue if lacks(check.part, table, instance) is None]
    if missing := [check.name for check in applying if check.name not in policy.checks]:
        subject = f"{'check' if len(missing) == 1 else 'the checks'} {listed_names(missing, MISSING_NAMED)}"
        text = f"policy {policy.name!r} has no entry for {subject}. A policy needs one for every check of the plan: "
        text += "begin with a copy of the shipped policy for these machines"
        raise GateFileError(file, "policy.file", text)
    for check in applying:
        if misfit := unfit_line(check, policy.checks[check.name]):
            raise GateFileError(file, "policy.file", f"policy {policy.name!r} {misfit}")
    for name in policy.checks:
        if name not in checks:
            text = f"policy {policy.name!r} asks for check {name}, which is not in the catalogue"
            raise GateFileError(file, "policy.file", text, nearest(name, checks))


def _require_optional(file: str, gate: Gate, policy: Policy, kernel_log: KernelLog) -> None:
    """Require that a skipped check is one that the policy does not require on the declared machines."""
    declared = gate.declared((), kernel_log)
    for index, name in enumerate(gate.checks.skip):
        where = f"checks.skip[{index}]"
        line = policy.checks.get(name, CheckPolicy())
        if withheld_kernel_log.required(name, declared):
            text = f"{name} replaces the kernel log, which a job of this launcher cannot read, so it cannot be skipped"
            raise GateFileError(file, where, text)
        if not line.may_be_left_out:
            text = f"policy {policy.name!r} requires {name}, so it cannot be skipped. Name an optional check"
            optional = ", ".join(other for other in policy.checks if policy.checks[other].may_be_left_out)
            text += f" ({optional or 'it has none'}), or {leave_out_edit(gate.policy.file, name)}"
            raise GateFileError(file, where, text)


def _require_time_to_ask(file: str, gate: Gate, policy: Policy, launcher: Launcher, minutes: int) -> None:
    """Require that a person's answer can come while the machines of the question are still kept."""
    keeps_s = launcher.keeps_s
    if keeps_s is not None and _asks(gate, policy) and minutes * 60 > keeps_s - MARGIN_S:
        asks = f'policy {policy.name!r} says on_warn = "ask"'
        asks = asks if policy.on_warn is OnWarn.ASK else '[approval] says on_fail = "ask"'
        message = (
            f"a person has {minutes} minutes to answer ({asks}), but the machines are kept for {keeps_s / 60:g} minutes, "
            f"and {MARGIN_S / 60:g} of them are needed afterwards. Keep them for {minutes + MARGIN_S / 60:g} minutes or longer"
        ) + (f", or ask for {(keeps_s - MARGIN_S) / 60:g} at most" if keeps_s > MARGIN_S else "")
        raise GateFileError(file, "cluster.options", message)


def _asks(gate: Gate, policy: Policy) -> bool:
    asking = policy.on_warn is OnWarn.ASK or gate.approval.on_fail == "ask"
    return asking and gate.policy.mode is not Mode.OBSERVE


def _require_override(file: str, gate: Gate, launcher: Launcher) -> None:
    """Require that somebody may override a FAIL, and that the nodes do not decide by themselves, because those end on a FAIL."""
    approval, where = gate.approval, "approval.on_fail"
    if approval.on_fail != "ask":
        return
    if launcher.placement is Placement.IN_JOB:
        text = (
            "checks and training are one job here, and its nodes end on a FAIL: nobody can approve any more"
        )
        raise GateFileError(file, where, f'{text}. Write on_fail = "refuse", or choose another placement')
    if not approval.overriders and not approval.form_may_override:
        text = "nobody may override a FAIL: name Slack users in overriders, or write form_may_override = true"
        raise GateFileError(file, where, text)


def run_title(parameters: Mapping[str, object]) -> str:
    """ "gate local: 2 nodes, quick"; "gate" for a request that the flow is going to reject."""
    try:
        request = GateRequest.model_validate(parameters.get("request"))
        return read_gate_file(_gate_file(request.gate_file), request.sets).title
    except (ValidationError, GateFileError):
        return "gate"
