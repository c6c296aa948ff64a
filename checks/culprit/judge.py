"""What the tournament of the ranks says about nodes, ranks, rails, links and switches, as findings (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from checks import profiles
from checks.busy import Loads, machines_of
from checks.culprit.account import Account, missing
from checks.culprit.account import Reading as Reading
from checks.culprit.decode import decode
from checks.culprit.frommetrics import CHECKS, Table, What, matrices, table
from checks.culprit.matrix import Span, Tolerance
from checks.culprit.topology import switches_of
from checks.facts.table import Facts
from checks.model import CLUSTER, Cause, Declared, Finding, Level, Observation, Outcome, Report, rank_subject
from checks.policy import Policy
from checks.tournament.rounds import planned
from checks.tournament.screen import PAUSE_US

# Judgement: a few segments are sent again on any busy network; beyond this in one test of a few MiB something drops them.
RESENT = 8.0
# Judgement: on fewer other nodes than these, nobody can tell a slow node from a slow partner.
LEAST = 3


def tolerance(
    what: What, span: Span, options: Mapping[str, float], policy: Policy, share_gbps: float | None
) -> Tolerance:
    """What a policy's options hold against this matrix.

    slow_ratio (of the usual bandwidth, 0.5), floor_gbps (10^9 bytes/s between nodes, none), floor_inside_gbps (within
    one, none), floor_share (of `share_gbps`, a rank's share of its node's network rate, none), late_ratio (of the usual
    latency, 0.1), pause_us (half a round trip, 90 ms), resent (TCP segments a test, 8).
    """
    most = policy.max_unfit_fraction
    if what is What.DATA:
        return Tolerance(0.5, None, most)
    if what is What.BANDWIDTH:
        floor = options.get("floor_gbps" if span is Span.BETWEEN else "floor_inside_gbps", 0.0)
        if span is Span.BETWEEN and share_gbps is not None:
            floor = max(floor, options.get("floor_share", 0.0) * share_gbps)
        return Tolerance(options.get("slow_ratio", 0.5), floor or None, most)
    if what is What.LATENCY:
        return Tolerance(options.get("late_ratio", 0.1), None, most)
    if what is What.PAUSE:
        return Tolerance(1e-9, options.get("pause_us", PAUSE_US), most)
    return Tolerance(1e-9, 1.0 + options.get("resent", RESENT), most)


def decoded(report: Report, policy: Policy, facts: Facts) -> tuple[Reading, ...]:
    """Every matrix of the report's tournaments under this policy, decoded; for pages. A row that does not fit is left out."""
    found: list[Reading] = []
    switches = switches_of(report)
    for check in CHECKS:
        rows = [row for row in report.observations if row.check == check and row.outcome is Outcome.MEASURED]
        if rows:
            tests = table(report, rows, switches)
            found += _readings(check, tests, policy, _share(report, facts))
    return tuple(found)


def judge(
    report: Report, rows: Mapping[str, Sequence[Observation]], policy: Policy, facts: Facts
) -> Iterator[Finding]:
    """Findings from the sound rows of both checks."""
    for check in CHECKS:
        mine = rows.get(check, ())
        if check not in policy.checks or not mine:
            continue
        tests = table(report, mine, switches_of(report))
        readings = _readings(check, tests, policy, _share(report, facts))
        account = Account(check, tests, readings, Loads(mine, machines_of(report.nodes)))
        for subject, why in sorted(tests.faults.items()):
            yield missing(check, subject, why)
        yield from _unmeasured(check, tests, report, policy, account.blamed)
        yield from account.findings()


def _readings(check: str, tests: Table, policy: Policy, share_gbps: float | None) -> list[Reading]:
    options = policy.checks[check].options if check in policy.checks else {}
    made = []
    for (what, span), matrix in matrices(tests).items():
        held = tolerance(what, span, options, policy, share_gbps)
        made.append(Reading(check, what, matrix, decode(matrix, held)))
    return made


def _share(report: Report, facts: Facts) -> float | None:
    """A rank's share of what the instance table says of its node's network, in 10^9 bytes/s."""
    instance = facts.instances.get(report.declared.instance_type)
    if instance is None or instance.network_gbit_s is None:
        return None
    return float(instance.network_gbit_s) / 8 / report.declared.ranks_per_node


def _unmeasured(
    check: str, tests: Table, report: Report, policy: Policy, blamed: frozenset[int]
) -> Iterator[Finding]:
    """Who was to be measured with whom, and was not: the plan follows from what is declared, not from the rows.

    `blamed` are parts that were found bad: others gave them up, and it is said of them already.
    """
    options = profiles.options(check, report.profile, policy.checks[check].options)
    declared = report.declared
    plan = planned(
        declared.nodes, declared.ranks_per_node, int(options["all_pairs_nodes"]), int(options["matchings"])
    )
    met: list[set[int]] = [set() for _ in tests.ranks]
    for mine, peer in zip(tests.mine, tests.peers, strict=True):
        met[mine].add(tests.ranks[peer])
    late, known = 0, tests.silent.keys() | {tests.ranks[part] for part in blamed}
    for index, rank in enumerate(tests.ranks):
        if index in blamed:
            continue
        partners = [None if (met_ := one.partner(rank)) in known else met_ for one in plan]
        said = _hole(partners, met[index], tests.left_out[index], rank // declared.ranks_per_node, declared)
        if said:
            yield missing(check, rank_subject(tests.parts[index].node, rank), said)
        late += not said and bool(set(partners) - met[index] - {None})
    if late:
        most = max(tests.left_out)
        said = f"{most} of {len(plan)} rounds did not fit into the time: {late} ranks were not measured with every peer"
        yield Finding(
            Level.WARN, Cause.EVIDENCE, check, CLUSTER, said, "",
            "Raise budget_s in the policy's options, or see what slows the rounds.",
        )  # fmt: skip


def _hole(partners: Sequence[int | None], met: set[int], left_out: int, node: int, declared: Declared) -> str:
    """What a rank was not measured with, and had to be; `partners` are whom the plan's rounds give it, in order.

    Time runs out at the end: the rounds before those that were left out must all be there, and enough between nodes and
    inside of one to tell who is slow.
    """
    if not 0 <= left_out <= len(partners):
        return f"it says that {left_out} of {len(partners)} rounds were left out"
    due = {peer for peer in partners[: len(partners) - left_out] if peer is not None}
    if absent := sorted(due - met):
        more = f" and {len(absent) - 4} more" if len(absent) > 4 else ""
        return f"it was not measured with rank {', '.join(map(str, absent[:4]))}{more}"
    per, every = declared.ranks_per_node, {peer for peer in partners if peer is not None}
    inside = {peer for peer in every if peer // per == node}
    for group, what in ((every - inside, "other nodes"), (inside, "other ranks of its node")):
        if len(group & met) < min(LEAST, len(group)):
            return f"it was measured with {len(group & met)} of {len(group)} {what}"
    return ""
