"""What [cluster] of a gate file says of its machines: whether they are known or described, whether the policy can judge them, and
their topology (a file beside the gate file, or topology_names).
"""

from __future__ import annotations

from pathlib import Path

from checks import catalog
from checks.check import Check
from checks.culprit.topology import Topology, grouped, why_no_expression
from checks.culprit.topology_file import FILE_BYTES, TopologyError, parse
from checks.documents.nearest import nearest
from checks.documents.report import dump_plain, plain
from checks.facts.builtin import builtin
from checks.facts.instances import Facts, types_text, unknown_type
from checks.facts.profile_options import NAMES
from checks.policy import SENSIBLE, CheckPolicy, Policy
from tasks.gate_file.model import Cluster, Gate
from tasks.gate_file.read import GateFileError

# Every node gets it in its bundle, of which it reads 1 MiB, the policy included.
MOST_TOPOLOGY_BYTES = 512 << 10


def require_known_type(file: str, gate: Gate, policy: Policy, facts: Facts) -> None:
    """Require an instance type that a table or the file itself describes; the error also says for which types the policy is."""
    instance_type = gate.cluster.declared.instance_type
    if instance_type in facts.instances:
        return
    message, near = unknown_type(instance_type, tuple(facts.instances))
    if near is None:
        message += f". Policy {gate.policy.file} is for {types_text(policy.instance_types, instance_type)}"
    raise GateFileError(file, "cluster.declared.instance_type", message, near)


def require_own_machine(file: str, gate: Gate) -> None:
    """Require of a machine that the file describes that no table describes it, and that its GPUs have a name."""
    declared, machine, instances = gate.cluster.declared, gate.cluster.machine, builtin().instances
    if machine is None:
        return
    if declared.instance_type in instances:
        message = f"{declared.instance_type} is a known instance type. Leave [cluster.machine] out, or choose a name of your own"
        raise GateFileError(file, "cluster.machine", message)
    if bool(declared.gpus_per_node) != bool(machine.gpu):
        message = f"{declared.gpus_per_node} GPUs are declared, and gpu = {machine.gpu!r}. Name the model of the GPUs, or declare none"
        raise GateFileError(file, "cluster.machine.gpu", message)


def unfit_line(check: Check, line: CheckPolicy) -> str:
    """Why the policy's entry cannot judge a check that applies, or "". Otherwise the gate would find out only after the checks."""
    name = check.name
    for key in ("part", "min_nodes", "min_ranks"):
        written, true = plain(getattr(line, key)), plain(getattr(check, key))
        if written != true:
            return f"has {key} = {written} for check {name}, but the catalogue has {true}: correct the policy"
    metrics = [("a rule for the metric", rule.metric, check.metrics) for rule in line.rules]
    options = [("the option", option, sorted({*SENSIBLE, *NAMES})) for option in line.options]
    for noun, key, names in (*metrics, *options):
        # A site's own check may measure more than it must, and read options of its own.
        if key not in names and check in catalog.CATALOG:
            near = nearest(key, names)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(names)}"
            return f"has {noun} {key} of check {name}, which does not exist: {hint}"
    more = [profile.value for profile in line.profiles if profile not in check.profiles]
    return f"asks for check {name} in profile {more[0]}, in which it never runs" if more else ""


def topology_of(cluster: Cluster, file: str, here: Path) -> Topology | None:
    """The described switches; None if the gate file describes none. Raises GateFileError."""
    if not cluster.topology and not cluster.topology_names:
        return None
    if cluster.topology_names and (problem := why_no_expression(cluster.topology_names)):
        raise GateFileError(file, "cluster.topology_names", problem)
    under = _read(file, here / cluster.topology) if cluster.topology else {}
    topology = Topology(under, cluster.topology_names)
    size = len(dump_plain(topology))
    if size > MOST_TOPOLOGY_BYTES:
        message = f"it takes {size} bytes, a node reads {MOST_TOPOLOGY_BYTES}: leave out the nodes of other clusters"
        raise GateFileError(file, "cluster.topology", message)
    return topology


def _read(file: str, path: Path) -> dict[str, tuple[str, ...]]:
    try:
        with path.open("rb") as opened:
            data = opened.read(FILE_BYTES + 1)
        if len(data) > FILE_BYTES:
            raise TopologyError(f"it is larger than the {FILE_BYTES} bytes that are read")
        return grouped(parse(data.decode("utf-8-sig")))
    except OSError as error:
        raise _wrong(file, path, f"it cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise _wrong(file, path, "it is not UTF-8 text") from error
    except TopologyError as error:
        raise _wrong(file, path, str(error)) from error


def _wrong(file: str, path: Path, message: str) -> GateFileError:
    return GateFileError(file, "cluster.topology", f"{path}: {message}")
