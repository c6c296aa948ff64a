"""A bundle: one frozen JSON file with everything that a node needs for its checks and for the verdict that it makes itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from checks import policy
from checks.check import Check
from checks.culprit.topology import Topology
from checks.documents.certificates import NO_CERTIFICATES, Certificates
from checks.documents.decode import decode, parse_json
from checks.documents.report import Version, digest, dump_plain
from checks.facts.builtin import builtin
from checks.facts.instances import Facts
from checks.facts.profile_options import DEADLINE_S
from checks.model import SCHEMA_VERSION, Declared, NodeName, Planned, Profile, Report, Verdict
from checks.value_types import SPARSE, Range, Text
from checks.version import ENGINE

BUNDLE_BYTES = 1 << 20


@dataclass(frozen=True)
class Bundle:
    """What one node needs to run its part of a gate.

    `timeouts_s` overrides the checks' own deadlines, `extra` names a site's own checks, and `skip` names checks that stay in the
    plan and are not run.

    `network_s` is how long a node waits for its peers before any collective, `stage_s` is the time for the rank checks as a whole,
    and `deadline_s` is the time for all checks of a node, counted from the moment at which its runner has opened the bundle.

    The digests of the facts and of the catalogue must equal the node's own, so that node and gate judge alike. `topology`
    describes the switches to which each node is connected; it is None where the gate file describes none. `certificates` say which
    checks a node may skip; `raised` are the numbers of `--option` in the policy, as CHECK.NAME=NUMBER.
    `version` is the gate's of Prelaunch.
    """

    schema_version: Version
    gate_id: Annotated[str, Text(r"[a-z0-9][a-z0-9-]*", 63)]
    declared: Declared
    profile: Profile
    policy: policy.Policy
    facts: str
    catalogue: str
    deadline_s: Annotated[float, Range(1, 86400)]
    extra: tuple[str, ...] = ()
    timeouts_s: Mapping[str, Annotated[float, Range(0.1, 86400)]] = field(default_factory=dict)
    network_s: Annotated[float, Range(0.5, 3600)] = 20.0
    stage_s: Annotated[float, Range(1, 86400)] = 600.0
    topology: Topology | None = None
    skip: tuple[str, ...] = ()
    certificates: Certificates = field(default=NO_CERTIFICATES, metadata=SPARSE)
    raised: tuple[str, ...] = field(default=(), metadata=SPARSE)
    version: str = field(default="", metadata=SPARSE)


@dataclass(frozen=True)
class PassedNode:
    """One node that passed the checks, with its identity at that time.

    `answered` names the findings that were open on it (FindingKey.name) and that the gate answered: the node closes them. `overridden`
    names those for which the gate refused it, and a person let it train. `measured_at` is Node's; "" stands for the time of the pass.
    """

    name: NodeName
    rank: int
    identity: Mapping[str, str]
    answered: tuple[str, ...] = ()
    overridden: tuple[str, ...] = field(default=(), metadata=SPARSE)
    measured_at: str = field(default="", metadata=SPARSE)


@dataclass(frozen=True)
class Pass:
    """The machines of a GO, which the training job may use.

    `on_word` says who approved a verdict that the policy left to a person, when and why; it is "" where the verdict itself was GO.
    """

    schema_version: Version
    gate_id: str
    verdict: str
    measured_at: str
    nodes: tuple[PassedNode, ...]
    on_word: str = ""


def make(
    gate_id: str,
    declared: Declared,
    profile: Profile,
    rules: policy.Policy,
    facts: Facts,
    *,
    extra: tuple[str, ...] = (),
    deadline_s: float | None = None,
    **fields: Any,
) -> Bundle:
    """A bundle for this gate, with these further fields. Without `deadline_s` it has the deadline of its profile. Raises CatalogError
    if an extra check does not exist.
    """
    from checks import catalog

    digest = catalog.digest(catalog.with_extra(extra))
    deadline_s = DEADLINE_S[profile] if deadline_s is None else deadline_s
    return Bundle(
        SCHEMA_VERSION, gate_id, declared, profile, rules, facts.digest, digest, deadline_s, extra, version=ENGINE, **fields
    )  # fmt: skip


def dump(bundle: Bundle | Pass) -> bytes:
    """Canonical JSON."""
    return dump_plain(bundle)


def load(data: bytes) -> Bundle:
    """The bundle in `data`. Raises DecodeError."""
    bundle = decode(Bundle, parse_json(data, BUNDLE_BYTES))
    policy.check_sense(bundle.policy)
    return bundle


def load_pass(data: bytes) -> Pass:
    """The pass in `data`. Raises DecodeError."""
    return decode(Pass, parse_json(data, 1 << 26))


def pass_of(report: Report, verdict: Verdict, by: str = "") -> Pass:
    """The pass of a GO: the nodes with their identities. `by` says who approved a verdict that the policy left to a person."""
    # A child process that runs one check judges nothing.
    from checks.judge.open_findings.prior_findings import closed_names, failed_names

    closed, failed = closed_names(report, verdict.findings), failed_names(verdict.findings)
    nodes = tuple(
        PassedNode(
            node.name, node.rank, node.identity, closed.get(node.name, ()), failed.get(node.name, ()), node.measured_at
        )
        for node in report.nodes
    )  # fmt: skip
    return Pass(SCHEMA_VERSION, report.gate_id, digest(dump_plain(verdict)), report.measured_at, nodes, by)


def plan_of(bundle: Bundle) -> tuple[tuple[Check, ...], tuple[Planned, ...]]:
    """The bundle's catalogue, and the plan that follows from it. Raises CatalogError."""
    from checks import catalog  # a child process that runs one check does not import the others

    checks = catalog.with_extra(bundle.extra)
    instance = builtin().merged(bundle.declared).instances.get(bundle.declared.instance_type)
    return checks, catalog.plan(checks, bundle.declared, bundle.profile, instance, bundle.policy)
