"""Findings about nodes, ranks, rails, links and switches from the pair tests of the ranks. Pure.

All matrices of one check are read together: what one matrix explains is added to its finding, and not reported again by the next.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import MappingProxyType

from checks.culprit.doubt import MEASURED_AGAIN
from checks.culprit.matrix import Entity, Matrix, MatrixAnswer, Span, Suspect, link
from checks.culprit.rounds import planned
from checks.culprit.topology import switches_of
from checks.facts import profile_options
from checks.facts.instances import Facts
from checks.judge.cpu_contention import RecordedLoads, machines_of
from checks.judge.culprits import wording
from checks.judge.culprits.from_report import CHECKS, ORDER, SLOWED, MatrixSubject, PairTable, table
from checks.judge.culprits.pattern_findings import (
    FABRIC,
    MOST_COST,
    UNEXPLAINED,
    MatrixReading,
    costs_too_much,
    is_slower,
    many_hiccups,
    of_sensitivity,
    of_slow_parts,
    of_time_and_fabric,
    unaccounted,
    unexplained_level,
)
from checks.judge.culprits.readings import CONDEMNS, SURE, parts_of, readings_of, share_gbps
from checks.model import CLUSTER, LINK, Cause, Declared, Finding, Level, Observation, Report, rank_subject
from checks.model_details import Sensitivity
from checks.policy import Policy
from checks.value_types import listed_names

NO_OPTIONS: Mapping[str, float] = MappingProxyType({})

Key = tuple[str, str]

# The only node that is slower than the others is refused from here on, whatever the policy's ratio for single tests is. Judgement:
# training waits for its slowest node, so it takes twice as long. Several such nodes may be a group behind an oversubscribed switch.
HALF = 0.5


class CheckFindings:
    """The findings of one check."""

    def __init__(
        self,
        check: str,
        tests: PairTable,
        readings: Sequence[MatrixReading],
        loads: RecordedLoads,
        options: Mapping[str, float] = NO_OPTIONS,
    ) -> None:
        self.check, self.tests, self.loads = check, tests, loads
        self.most_cost = options.get("most_cost", MOST_COST)
        self.oversubscribed = options.get("oversubscription", 0.0)
        options_by_part = {entity: f"detects_slow_{entity.value}" for entity in Entity}
        self.detects = {entity: options[key] for entity, key in options_by_part.items() if key in options}
        self.readings = sorted(readings, key=lambda reading: ORDER.index(reading.metric))
        # Links that are slow for good, but cost the job little: a shared path of the fabric is as likely as a broken cable.
        self.cheap = {id(reading) for reading in readings if not costs_too_much(reading, self.most_cost)}
        self.suspects: dict[Key, tuple[MatrixReading, Suspect]] = {}
        self.also: dict[Key, list[str]] = {}
        self.others: dict[Key, list[float]] = {}
        for reading in self.readings:
            if reading.decoded.answer is MatrixAnswer.BLAMED:
                for suspect in reading.decoded.suspects:
                    self._take(reading, suspect)

    @property
    def blamed(self) -> frozenset[int]:
        """The nodes and ranks that got a FAIL: the tests in which they took part are explained. A WARN explains nothing."""
        condemned = [s for reading, s in self.suspects.values() if self._condemns(reading, s)]
        return parts_of(self.tests.endpoints, condemned)

    def findings(self) -> Iterator[Finding]:
        """The findings about the cluster as one, then those about each suspect."""
        blamed = self.blamed
        everybody = {endpoint.node for endpoint in self.tests.endpoints}
        for reading in self.readings:
            for finding, item in of_slow_parts(reading, self.tests, self._refused_from(reading)):
                if item.kind is Entity.RAIL or not self._is_named(item.nodes):
                    yield self._weighed_suspect(reading, finding, item.nodes, item)
            yield from of_sensitivity(reading, self.detects)
            whole = of_time_and_fabric(reading, self.tests, self.most_cost, self.oversubscribed)
            for finding in (*self._whole(reading, blamed), *whole):
                yield self._weighed(reading, finding, (), everybody if finding.subject == CLUSTER else None)
        slow = {node for _, suspect in self.suspects.values() for node in suspect.nodes}
        for key, (reading, suspect) in self.suspects.items():
            result = self._suspect_finding(reading, suspect, self.also.get(key, []))
            yield self._weighed_suspect(reading, result, slow, suspect)

    def _weighed_suspect(
        self, reading: MatrixReading, finding: Finding, slow: Collection[str], suspect: Suspect
    ) -> Finding:
        """The finding with its probability, unless other work on the hosts leaves it without proof."""
        weighed = self._weighed(reading, finding, slow, suspect.nodes)
        if weighed is not finding and weighed.cause is Cause.EVIDENCE:
            return weighed
        return replace(weighed, message=f"{weighed.message}{wording.odds(suspect)}")

    def _weighed(
        self, reading: MatrixReading, finding: Finding, slow: Collection[str], nodes: Collection[str] | None
    ) -> Finding:
        if reading.metric not in SLOWED:
            return finding
        return self.loads.weighed(finding, slow, nodes, reading.metric.name.lower())

    def _refused_from(self, reading: MatrixReading) -> Mapping[Entity, float]:
        """The slowness from which on a node, rank or rail is refused; 0 if none is."""
        of_node = self.detects.get(Entity.NODE, 0.0)
        wanted = {
            entity: self.detects.get(entity, of_node) for entity in (Entity.NODE, Entity.RANK, Entity.RAIL)
        }
        is_alone = len(reading.decoded.slow) == 1
        return {entity: min(least or HALF, HALF) for entity, least in wanted.items()} if is_alone else wanted

    def _take(self, reading: MatrixReading, suspect: Suspect) -> None:
        earlier, mine = self._explained_by(reading, suspect), (suspect.kind.value, suspect.subject)
        if self._condemns(reading, suspect) and earlier is None:
            self.suspects.pop(mine, None)  # a warning hides nothing
        if earlier is not None:
            self._add(earlier, reading, suspect)
            if earlier == mine and reading.metric in CONDEMNS and not suspect.passed:
                self.others.setdefault(mine, []).append(suspect.probability)
            return
        for key in self._explained_now(suspect) if reading.metric in CONDEMNS else ():
            self._add(mine, *self.suspects.pop(key))
            self.also[mine] += self.also.pop(key, [])
        self.suspects[mine] = (reading, suspect)

    def _condemns(self, reading: MatrixReading, suspect: Suspect) -> bool:
        """Whether the suspect gets a FAIL."""
        is_cheap = suspect.cost is not None and id(reading) in self.cheap
        if is_cheap and suspect.kind is Entity.LINK:
            is_cheap = not is_slower(suspect, self.detects.get(Entity.LINK, 0.0))
        return reading.metric in CONDEMNS and not suspect.passed and not is_cheap

    def _add(self, key: Key, reading: MatrixReading, suspect: Suspect) -> None:
        message = f"{reading.metric.value}: {suspect.bad} of {suspect.tests} tests"
        self.also.setdefault(key, []).append(message)

    def _explained_now(self, suspect: Suspect) -> list[Key]:
        """Links and ranks that got a finding and belong to the node that is blamed now: it loses segments to every peer."""
        if suspect.kind is not Entity.NODE or suspect.probability < SURE or suspect.passed:
            return []
        suspects = self.suspects.items()
        candidates = [(key, s) for key, (_, s) in suspects if s.kind in (Entity.LINK, Entity.RANK)]
        return [key for key, s in candidates if set(suspect.nodes) & set(s.nodes)]

    def _is_named(self, nodes: Collection[str]) -> bool:
        """Whether one of the nodes has a FAIL already: that it answers late is a warning, and hides none."""
        suspects = [(by, item) for by, item in self.suspects.values() if item.kind is Entity.NODE]
        return any(self._condemns(by, item) and set(nodes) & set(item.nodes) for by, item in suspects)

    def _explained_by(self, reading: MatrixReading, suspect: Suspect) -> Key | None:
        """The suspect that is blamed already and includes this one; None if this one is new."""
        for key, (by, blamed) in self.suspects.items():
            if self._condemns(reading, suspect) and not self._condemns(by, blamed):
                continue
            node = blamed.kind is Entity.NODE and set(blamed.nodes) & set(suspect.nodes)
            rank = blamed.kind is Entity.RANK and blamed.subject in suspect.subject.split(LINK)
            if node or rank or key == (suspect.kind.value, suspect.subject):
                return key
        return None

    def _whole(self, reading: MatrixReading, blamed: frozenset[int]) -> Iterator[Finding]:
        metric, result, matrix = reading.metric, reading.decoded, reading.matrix
        if result.answer is MatrixAnswer.FABRIC:
            yield Finding(
                FABRIC.get(metric, Level.WARN), Cause.CONFIGURATION, self.check, CLUSTER,
                wording.fabric(matrix, result), wording.cells(matrix, result.bad, self.tests, result.noise), wording.FABRIC_REMEDY,
            )  # fmt: skip
        elif metric in UNEXPLAINED and (
            result.answer in (MatrixAnswer.BLAMED, MatrixAnswer.UNEXPLAINED) or _is_corrupt(reading)
        ):
            ends = ((k, {matrix.sources[k], matrix.targets[k]}) for k in unaccounted(result))
            left = [k for k, both in ends if not both & blamed]
            if pair := self._always_bad(matrix, left):
                yield Finding(
                    UNEXPLAINED[metric], Cause.HARDWARE, self.check, link(*pair),
                    wording.one_pair(matrix, len(left)),
                    wording.cells(matrix, left, self.tests, result.noise), wording.remedy(Entity.LINK, matrix),
                )  # fmt: skip
            elif left:
                yield Finding(
                    unexplained_level(reading, self.most_cost, left), Cause.EVIDENCE, self.check, CLUSTER,
                    wording.unexplained(matrix, result, left), wording.cells(matrix, left, self.tests, result.noise), wording.AGAIN,
                    named_nodes=tuple(sorted(node for node, _ in wording.in_common(matrix, left))),
                )  # fmt: skip
        elif (
            result.answer is MatrixAnswer.NOBODY
            and metric is MatrixSubject.BANDWIDTH
            and many_hiccups(matrix, result)
        ):
            yield Finding(
                Level.WARN, Cause.EVIDENCE, self.check, CLUSTER, wording.hiccups(matrix, len(result.bad)),
                wording.cells(matrix, result.bad, self.tests, result.noise), wording.AGAIN,
            )  # fmt: skip
        elif result.answer is MatrixAnswer.TOO_FEW and metric is MatrixSubject.BANDWIDTH:
            message, remedy = wording.too_few(matrix), "Set floor_gbps in the policy's options."
            yield Finding(Level.WARN, Cause.EVIDENCE, self.check, CLUSTER, message, "", remedy)
        if metric is MatrixSubject.BANDWIDTH:
            for index in sorted(result.unseen):
                if self._has_peers(matrix, index):
                    message = f"it has no test {matrix.span.value}"
                    yield missing(self.check, self.tests.endpoints[index].name, message)

    def _always_bad(self, matrix: Matrix, bad: Sequence[int]) -> tuple[str, str] | None:
        """The two parts of a pair that was bad in each test, in both directions, and to which all bad tests belong. There may be too
        few other tests to tell which of the two is faulty.
        """
        pairs = {frozenset((matrix.sources[test], matrix.targets[test])) for test in bad}
        if len(pairs) != 1:
            return None
        (first, other) = sorted(pairs.pop())
        tests = [*matrix.cells.get((first, other), ()), *matrix.cells.get((other, first), ())]
        names = self.tests.endpoints[first].name, self.tests.endpoints[other].name
        return names if len(bad) == len(tests) >= 2 * MEASURED_AGAIN else None

    def _has_peers(self, matrix: Matrix, index: int) -> bool:
        """Whether there is a second part with which it should have been measured."""
        own = self.tests.endpoints[index]
        if matrix.span is Span.INSIDE:
            return any(other.node == own.node and other is not own for other in self.tests.endpoints)
        return any(other.node != own.node and other.rail == own.rail for other in self.tests.endpoints)

    def _suspect_finding(self, reading: MatrixReading, suspect: Suspect, also: Sequence[str]) -> Finding:
        level = Level.FAIL if self._condemns(reading, suspect) else Level.WARN
        # Two matrices that name the same part would both have to be wrong.
        doubt = math.prod(1 - p for p in self.others.get((suspect.kind.value, suspect.subject), ()))
        probability = 1 - (1 - suspect.probability) * doubt
        cause = Cause.HARDWARE if probability >= SURE else Cause.EVIDENCE
        if level is Level.WARN and suspect.cost is not None:
            cause = Cause.CONFIGURATION
        evidence = wording.cells(reading.matrix, suspect.cells, self.tests, reading.decoded.noise)
        message = wording.suspect(reading.matrix, reading.decoded, suspect, also, reading.metric)
        subject, is_predicate = suspect.subject, True
        remedy = wording.PASSED_REMEDY if suspect.passed else wording.remedy(suspect.kind, reading.matrix)
        # Neither of them is a machine that could be replaced.
        if suspect.kind in (Entity.RAIL, Entity.SWITCH):
            message = f"{wording.typed_subject(suspect.kind, subject)} {message}"
            subject, is_predicate = CLUSTER, False
        elif probability < SURE:
            message, subject, is_predicate = wording.candidate(subject, message), CLUSTER, False
        return Finding(
            level, cause, self.check, subject, message, evidence, remedy, is_predicate=is_predicate
        )


def _is_corrupt(reading: MatrixReading) -> bool:
    """Whether wrong data was right in the second test, or concerns one pair alone. Wrong data is never treated as a passing
    disturbance.
    """
    return (
        reading.metric is MatrixSubject.DATA
        and reading.decoded.answer is not MatrixAnswer.BLAMED
        and bool(reading.decoded.bad)
    )


def missing(check: str, subject: str, message: str, evidence: str = "") -> Finding:
    """A finding about something that was not measured."""
    return Finding(Level.FAIL, Cause.EVIDENCE, check, subject, message, evidence, wording.AGAIN)


# Judgement: with fewer other nodes a slow node cannot be told from a slow partner.
LEAST = 3


def judge(
    report: Report, records: Mapping[str, Sequence[Observation]], policy: Policy, facts: Facts
) -> tuple[list[Finding], tuple[Sensitivity, ...]]:
    """Findings from the sound rows of both checks, and how slow a part they would have shown."""
    findings, seen_from = list[Finding](), list[Sensitivity]()
    for check in CHECKS:
        mine = records.get(check, ())
        if check not in policy.checks or not mine:
            continue
        tests = table(report, mine, switches_of(report))
        readings = readings_of(check, tests, policy, share_gbps(report, facts))
        loads = RecordedLoads(mine, machines_of(report.nodes))
        account = CheckFindings(check, tests, readings, loads, policy.checks[check].options)
        findings += [missing(check, subject, reason) for subject, reason in sorted(tests.faults.items())]
        findings += [*_unmeasured(check, tests, report, policy, account.blamed), *account.findings()]
        seen_from += chain.from_iterable(reading.sensitivities() for reading in readings)
    return findings, tuple(seen_from)


def _unmeasured(
    check: str, tests: PairTable, report: Report, policy: Policy, blamed: frozenset[int]
) -> Iterator[Finding]:
    """Pairs that had to be measured and were not. The plan follows from the declaration, not from the rows.

    `blamed` are parts that were found bad: other ranks stopped testing with them, and a finding says so already.
    """
    options = profile_options.options(check, report.profile, policy.checks[check].options)
    declared = report.declared
    plan = planned(
        declared.nodes, declared.ranks_per_node, int(options["all_pairs_nodes"]), int(options["matchings"])
    )
    met: list[set[int]] = [set() for _ in tests.ranks]
    for mine, peer in zip(tests.mine, tests.peers, strict=True):
        met[mine].add(tests.ranks[peer])
    late, excused = 0, tests.silent.keys() | {tests.ranks[endpoint] for endpoint in blamed}
    for index, rank in enumerate(tests.ranks):
        if index in blamed:
            continue
        partners = [None if (met_ := pairing.partner(rank)) in excused else met_ for pairing in plan]
        reason = _hole(partners, met[index], tests.left_out[index], rank // declared.ranks_per_node, declared)
        if reason:
            yield missing(check, rank_subject(tests.endpoints[index].node, rank), reason)
        late += not reason and bool(set(partners) - met[index] - {None})
    if late:
        most = max(tests.left_out)
        reason = f"{most} of {len(plan)} rounds did not fit into the time budget: {late} ranks were not measured with every peer"
        remedy = "Raise budget_s in the policy's options, or find out what slows the rounds."
        yield Finding(Level.WARN, Cause.EVIDENCE, check, CLUSTER, reason, "", remedy)


def _hole(partners: Sequence[int | None], met: set[int], left_out: int, node: int, declared: Declared) -> str:
    """What a rank was not measured with although it had to be; `partners` are the ranks that the plan's rounds give it, in order.

    If the time runs out, the last rounds are missing: those before them must all be there, and they must be enough, between nodes
    and inside of one, to find out who is slow.
    """
    if not 0 <= left_out <= len(partners):
        return f"it reports that {left_out} of {len(partners)} rounds were skipped"
    if absent := sorted({peer for peer in partners[: len(partners) - left_out] if peer is not None} - met):
        return f"it was not measured with rank {listed_names([str(rank) for rank in absent])}"
    per, every = declared.ranks_per_node, {peer for peer in partners if peer is not None}
    inside = {peer for peer in every if peer // per == node}
    for group, label in ((every - inside, "other nodes"), (inside, "other ranks of its node")):
        if len(group & met) < min(LEAST, len(group)):
            return f"it was measured with {len(group & met)} of {len(group)} {label}"
    return ""
