"""The bundle, the roster and the node of this process, and the context that each check gets.

Also: the switches to which this node is connected, from the bundle, or else from Slurm's environment variables; what the machine knows
of the time before this gate, and which checks it need not measure because of that.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from checks import bundle as bundles
from checks.bundle import Bundle, plan_of
from checks.check import CatalogError, Check, Context, RankPlace, imported
from checks.command_line import PlaceError
from checks.culprit.topology import COMMA, SWITCHES, Topology, by_address
from checks.documents import certificates, open_findings
from checks.documents.decode import decode, parse_json
from checks.documents.open_findings import OpenFindings
from checks.documents.report import dump_plain
from checks.exchange import secret_key
from checks.exchange.secret_key import Access, KeyUnavailable, Service
from checks.facts.builtin import builtin
from checks.facts.profile_options import options
from checks.judge.certificates import decision
from checks.judge.certificates.decision import CertificateDecision
from checks.judge.open_findings.prior_findings import carried
from checks.model import Node, Planned, Scope
from checks.policy import CheckPolicy
from checks.probes.host import machine
from checks.process import machine_state
from checks.process.stderr import log
from checks.process.whole_file import write_whole
from checks.roster import Roster
from checks.runner.deadline import NEVER, CheckLimit, Deadline, deadline_of, limited
from checks.value_types import DecodeError

PEER_CHECKS = ("network.reachability",)
# A busy host may take seconds to start the check's process, which is no evidence about a peer.
START_S = 15.0
READ_S = 2.0


@dataclass(frozen=True)
class NodeContext:
    """One node of one gate, with everything that its run needs. `key_path` is the file with the key of the exchange, which a single
    node may lack.
    """

    bundle: Bundle
    bundle_path: Path
    roster: Roster
    roster_path: Path
    node: str
    node_rank: int
    scratch: Path
    checks: tuple[Check, ...]
    plan: tuple[Planned, ...]
    access: Access
    mpi_key: bytes = field(repr=False)
    key_path: Path
    deadline: Deadline = NEVER

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments with which a child process opens the same context: BUNDLE ROSTER NODE SCRATCH."""
        return str(self.bundle_path), str(self.roster_path), self.node, str(self.scratch)

    def timeout_s(self, check: Check, closing: bool = False) -> float:
        """How long the check may run: its own deadline, or the rest of the node's time. `closing`: it runs after the rank checks."""
        return min(self.own_timeout_s(check), self.deadline.left_s(closing))

    def own_timeout_s(self, check: Check) -> float:
        """The check's deadline from the bundle, or its own."""
        return self.limit_of(check).seconds

    def limit_of(self, check: Check) -> CheckLimit:
        """The limit is the check's deadline as in `own_timeout_s`, and says who set it."""
        declared = self.bundle.timeouts_s.get(check.name)
        return CheckLimit(self.usual_timeout_s(check)) if declared is None else CheckLimit(declared, True)

    def usual_timeout_s(self, check: Check) -> float:
        """The check's deadline where the gate file sets none."""
        return self.bundle.network_s + START_S if check.name in PEER_CHECKS else check.timeout_s

    def check_context(
        self,
        check: Check,
        rank: RankPlace | None = None,
        before: Mapping[str, object] | None = None,
        watched: Sequence[Mapping[str, object]] | None = None,
    ) -> Context:
        """The context that the check gets."""
        line = self.bundle.policy.checks.get(check.name, CheckPolicy())
        chosen = dict(options(check.name, self.bundle.profile, line.options))
        if check.name in PEER_CHECKS and check.name not in self.bundle.timeouts_s:
            chosen.setdefault("deadline_s", self.bundle.network_s)
        return Context(
            access=self.access,
            catalogue=self.bundle.catalogue,
            declared=self.bundle.declared,
            profile=self.bundle.profile,
            node=self.node,
            node_rank=self.node_rank,
            roster=self.roster,
            scratch=self.scratch,
            timeout_s=self.timeout_s(check),
            options=chosen,
            rank_place=rank,
            instance=builtin().merged(self.bundle.declared).instances.get(self.bundle.declared.instance_type),
            before=before,
            watched=watched,
        )

    def planned(self) -> tuple[Check, ...]:
        """The checks that have to run, in the catalogue's order."""
        wanted = {p.check for p in self.plan if p.skip is None} - set(self.bundle.skip)
        return tuple(check for check in self.checks if check.name in wanted)


def before_path(scratch: Path, check: str) -> Path:
    """The file with the first measurement of a closing check."""
    return scratch / f"{check}.before.json"


def read_before(path: Path) -> Mapping[str, object] | None:
    """What the first measurement saw; None if there is none or it failed, so that the check says that it cannot compare."""
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return values if isinstance(values, dict) else None


def watch_path(scratch: Path, check: str) -> Path:
    """The file with the records of a closing check's watch."""
    return scratch / f"{check}.watch.jsonl"


def open_node_context(
    bundle_path: Path,
    roster_path: Path,
    node: str,
    scratch: Path,
    only_check: str = "",
    begun_at: float | None = None,
) -> NodeContext:
    """Reads bundle, roster and key, and finds the node in the roster. Raises PlaceError.

    `alone` is the path of the only check that is wanted: the rest of the catalogue is neither imported nor planned, and the process
    that started it enforces its deadline. `begun_at` is when the node's checks began (time.monotonic()), now if None.
    """
    begun_at = time.monotonic() if begun_at is None else begun_at
    try:
        bundle = bundles.load(bundle_path.read_bytes())
        roster = decode(Roster, parse_json(roster_path.read_bytes(), 1 << 24))
        checks, plan = ((imported(only_check),), ()) if only_check else plan_of(bundle)
    except OSError as error:
        raise PlaceError(f"{error.filename}: {error.strerror}") from error
    except (DecodeError, CatalogError) as error:
        raise PlaceError(f"{bundle_path} or {roster_path}: {error}") from error
    names = [member.name for member in roster.members]
    if node not in names or len(names) != bundle.declared.nodes or len(set(names)) != len(names):
        raise PlaceError(
            f"{node} of {names} does not fit {bundle.declared.nodes} declared nodes. Correct the roster."
        )
    if bundle.facts != builtin().digest:
        raise PlaceError(
            "the bundle was made with a different version of the facts than this node has. Use the same image everywhere."
        )
    key_path = secret_key.file_of(bundle_path)
    try:
        secret = secret_key.load(key_path, len(names))
    except KeyUnavailable as error:
        raise PlaceError(str(error)) from error
    scratch.mkdir(parents=True, exist_ok=True)
    node_context = NodeContext(
        bundle,
        bundle_path,
        roster,
        roster_path,
        node,
        names.index(node),
        scratch,
        checks,
        plan,
        secret.access(Service.CHECKS, bundle.gate_id, node),
        secret.access(Service.MPI, bundle.gate_id, node).key,
        key_path,
    )
    if only_check:
        return node_context
    closing = [check for check in node_context.planned() if check.closing]
    return replace(node_context, deadline=deadline_of(bundle.deadline_s, begun_at, closing))


def write_node_context(
    folder: Path, bundle: Bundle, roster: Roster, node: str, key: bytes = b""
) -> NodeContext:
    """Writes the files of a node's run to a folder, and opens them. Raises OSError and PlaceError."""
    files = {"bundle.json": bundles.dump(bundle), "roster.json": dump_plain(roster)}
    for name, data in {**files, **({secret_key.FILE: key} if key else {})}.items():
        write_whole(folder / name, data)
    return open_node_context(folder / "bundle.json", folder / "roster.json", node, folder / "scratch")


SLURM_ADDRESS = "SLURM_TOPOLOGY_ADDR"
SLURM_PATTERN = "SLURM_TOPOLOGY_ADDR_PATTERN"


def uplink(node: str, topology: Topology | None, environ: Mapping[str, str], root: Path) -> dict[str, str]:
    """The node's switches for its identity: SWITCHES, or nothing if no switches are described.

    A node is searched by its name `node`, its host's name, Slurm's name for it and its EC2 instance id.
    """
    candidates = (node, platform.node(), environ.get("SLURMD_NODENAME", ""), machine.instance_id(root))
    names = tuple(dict.fromkeys(filter(None, candidates)))
    if topology is not None:
        return {SWITCHES: COMMA.join(topology.switches(names))}
    switches = by_address(environ.get(SLURM_ADDRESS, ""), environ.get(SLURM_PATTERN, ""), names)
    return {} if switches is None else {SWITCHES: COMMA.join(switches)}


def certified_checks(node_context: NodeContext, node: Node) -> dict[str, CertificateDecision]:
    """The checks that this node does not measure, because a certificate stands for them."""
    bundle = node_context.bundle
    if not bundle.certificates.certificates:
        return {}
    terms = decision.terms_of(
        bundle.gate_id, bundle.policy, bundle.facts, node.catalogue, bundle.profile, bundle.declared
    )
    decisions = decision.certified(node, bundle.certificates.certificates, terms)
    planned = {check.name for check in node_context.planned() if check.scope is Scope.NODE}
    return {check: decision_of_check for check, decision_of_check in decisions.items() if check in planned}


def known_before(state: Path, bundle: Bundle) -> str:
    """What this machine knows of the time before this gate, as a report carries it; "" where it knows nothing, or where the policy has
    no check that a certificate may stand for.
    """
    may_skip = any(line.valid_for for line in bundle.policy.checks.values())
    try:
        findings = limited(READ_S, lambda: machine_state.begin_gate(state, bundle.gate_id))
        if findings is None or not may_skip:
            return ""
    except (OSError, DecodeError) as error:
        if may_skip:
            log(f"{state}: what this machine knows is not used: {error}")
        return ""
    return certificates.dump(findings)


def open_before(state: Path) -> str:
    """What the watch of this machine left open, as a report carries it; "" without a watch. What cannot be read is carried as it is,
    so that the verdict says so.
    """
    try:
        findings = limited(READ_S, lambda: machine_state.read(state))
    except OSError as error:
        return f"{state / machine_state.FINDINGS}: {error.strerror or error}"
    except DecodeError as error:
        return f"{state / machine_state.FINDINGS}: {error}"[:500]
    return open_findings.dump(carried(findings)).decode() if findings != OpenFindings() else ""
