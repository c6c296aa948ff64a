"""The matrices of the pair tests, decoded under a policy. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from checks.culprit.decode import decode_without
from checks.culprit.matrix import Endpoint, Entity, MatrixAnswer, Span, Suspect, Tolerance
from checks.culprit.retest import LOST_SHARE, PAUSE_US
from checks.culprit.topology import switches_of
from checks.documents.columns import by_check
from checks.facts.instances import Facts
from checks.judge.culprits.from_report import CHECKS, MatrixSubject, PairTable, matrices, table
from checks.judge.culprits.pattern_findings import HICCUPS, MatrixReading
from checks.model import Outcome, Report
from checks.policy import SLOW_RATIO, Policy

# A part that is worse than the others in these matrices gets a FAIL. Latency is not among them: a busy host answers late, and trains
# as fast.
CONDEMNS = tuple(subject for subject in MatrixSubject if subject is not MatrixSubject.LATENCY)
# From this probability on a part is at fault, and below it evidence is missing.
SURE = 0.95
# Judgement: on any busy network a few segments are sent again; more than this in one test of a few MiB means that something drops
# them.
RESENT = 8.0


def tolerance(
    metric: MatrixSubject, span: Span, options: Mapping[str, float], policy: Policy, share: float | None
) -> Tolerance:
    """What the policy's options allow in this matrix.

    slow_ratio (of the usual bandwidth, 0.5), floor_gbps (10^9 bytes/s between nodes, none), floor_inside_gbps (within one, none),
    floor_share (of `share`, a rank's share of its node's network rate, none), late_ratio (of the usual latency, 0.1), pause_us
    (half a round trip, 90 ms), lost_share (of the TCP segments of a test, 0.001), resent (TCP segments per test, 8; for tests of
    which it is unknown how many were lost), most_hiccups (share of good tests that may be bad by chance, 0.05).
    """
    most = policy.max_unfit_fraction
    if metric is MatrixSubject.DATA:
        return Tolerance(0.5, None, most, paths=False)
    if metric is MatrixSubject.BANDWIDTH:
        floor = options.get("floor_gbps" if span is Span.BETWEEN else "floor_inside_gbps", 0.0)
        if span is Span.BETWEEN and share is not None:
            floor = max(floor, options.get("floor_share", 0.0) * share)
        hiccups = options.get("most_hiccups", HICCUPS)
        return Tolerance(options.get("slow_ratio", SLOW_RATIO), floor or None, most, hiccups)
    if metric is MatrixSubject.LATENCY:
        return Tolerance(options.get("late_ratio", 0.1), None, most)
    if metric is MatrixSubject.PAUSE:
        return Tolerance(1e-9, options.get("pause_us", PAUSE_US), most, paths=False)
    if metric is MatrixSubject.LOST:
        return Tolerance(1e-9, 100 * options.get("lost_share", LOST_SHARE), most, paths=False)
    return Tolerance(1e-9, 1.0 + options.get("resent", RESENT), most, paths=False)


def decoded(report: Report, policy: Policy, facts: Facts) -> tuple[MatrixReading, ...]:
    """Every matrix of the report's pair tests under this policy, decoded, for report pages. Rows that cannot be used are left out."""
    readings: list[MatrixReading] = []
    switches, tables = switches_of(report), by_check(report.observations)
    for check in CHECKS:
        records = [record for record in tables.get(check, ()) if record.outcome is Outcome.MEASURED]
        if records:
            tests = table(report, records, switches)
            readings += readings_of(check, tests, policy, share_gbps(report, facts))
    return tuple(readings)


def readings_of(check: str, tests: PairTable, policy: Policy, share: float | None) -> list[MatrixReading]:
    """Every matrix of a check, decoded.

    The bandwidth between nodes is decoded last: what loses segments, pauses or changes data is slow because of that, and so is who
    tests with it.
    """
    options = policy.checks[check].options if check in policy.checks else {}
    readings: list[MatrixReading] = []
    slow = (MatrixSubject.BANDWIDTH, Span.BETWEEN)
    for (metric, span), matrix in sorted(matrices(tests).items(), key=lambda pair: pair[0] == slow):
        held = tolerance(metric, span, options, policy, share)
        condemned = _condemned(readings) if (metric, span) == slow else ()
        readings.append(MatrixReading(check, metric, matrix, decode_without(matrix, held, condemned)))
    return readings


def _condemned(readings: Sequence[MatrixReading]) -> frozenset[int]:
    """The parts of the nodes and ranks that a matrix between nodes shows to be bad, whatever their bandwidth is."""
    indices = set[int]()
    for reading in readings:
        if (
            reading.matrix.span is Span.BETWEEN
            and reading.metric in CONDEMNS
            and reading.decoded.answer is MatrixAnswer.BLAMED
        ):
            sure = [item for item in reading.decoded.suspects if item.probability >= SURE and not item.passed]
            indices |= parts_of(reading.matrix.endpoints, sure)
    return frozenset(indices)


def parts_of(endpoints: Sequence[Endpoint], suspects: Sequence[Suspect]) -> frozenset[int]:
    """The parts of these nodes and ranks."""
    condemned = {(suspect.kind, suspect.subject) for suspect in suspects}
    ends = enumerate(endpoints)
    return frozenset(
        at for at, end in ends if (Entity.NODE, end.node) in condemned or (Entity.RANK, end.name) in condemned
    )


def share_gbps(report: Report, facts: Facts) -> float | None:
    """A rank's share of its node's network rate in the instance table, in 10^9 bytes/s."""
    instance = facts.merged(report.declared).instances.get(report.declared.instance_type)
    if instance is None or instance.network_gbit_s is None:
        return None
    return float(instance.network_gbit_s) / 8 / report.declared.ranks_per_node
