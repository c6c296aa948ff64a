"""All matrices of one check together: what one has explained is added to, not said again, by the next (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checks.busy import Loads
from checks.culprit import say
from checks.culprit.decode import MEASURED_AGAIN
from checks.culprit.frommetrics import ORDER, Table, What
from checks.culprit.matrix import Answer, Decoded, Kind, Matrix, Span, Suspect, link
from checks.model import CLUSTER, LINK, Cause, Finding, Level

# A part that stands out in these is condemned. Not by its latency: a busy host answers late, and trains as fast.
CONDEMNS = (What.DATA, What.BANDWIDTH, What.PAUSE, What.RESENT)
# Bad all over: of the others that is a busy network.
FABRIC = {What.DATA: Level.FAIL, What.BANDWIDTH: Level.FAIL, What.PAUSE: Level.FAIL}
# Bad tests that nobody explains. A host may pause once; segments are sent again, and answers late, on any network.
UNEXPLAINED = {What.DATA: Level.FAIL, What.BANDWIDTH: Level.FAIL, What.PAUSE: Level.WARN}
# What other work on the hosts' CPUs may cause. It changes no data, and drops no segments.
SLOWED = (What.BANDWIDTH, What.PAUSE, What.LATENCY)
SURE = 0.9
# Judgement: on a quiet cluster one test of a hundred goes wrong and is good when it is measured again.
HICCUPS = 0.05

Key = tuple[str, str]


@dataclass(frozen=True)
class Reading:
    """One matrix of a check, and what was decoded from it."""

    check: str
    what: What
    matrix: Matrix
    decoded: Decoded


class Account:
    """The findings of one check."""

    def __init__(self, check: str, tests: Table, readings: Sequence[Reading], loads: Loads) -> None:
        self.check, self.tests, self.loads = check, tests, loads
        self.readings = sorted(readings, key=lambda one: ORDER.index(one.what))
        self.suspects: dict[Key, tuple[Reading, Suspect]] = {}
        self.also: dict[Key, list[str]] = {}
        for reading in self.readings:
            if reading.decoded.answer is Answer.NAMED:
                for suspect in reading.decoded.suspects:
                    self._take(reading, suspect)

    @property
    def blamed(self) -> frozenset[int]:
        """The parts of nodes and ranks that were condemned: what they took part in is said. A warning excuses nothing."""
        found = [s for reading, s in self.suspects.values() if reading.what in CONDEMNS]
        nodes = {node for s in found if s.kind is Kind.NODE for node in s.nodes}
        ranks = {s.subject for s in found if s.kind is Kind.RANK}
        parts = enumerate(self.tests.parts)
        return frozenset(index for index, part in parts if part.node in nodes or part.name in ranks)

    def findings(self) -> Iterator[Finding]:
        """What is said of the cluster as one, then of each suspect."""
        blamed = self.blamed
        everybody = {part.node for part in self.tests.parts}
        for reading in self.readings:
            for finding in self._whole(reading, blamed):
                nodes = everybody if finding.subject == CLUSTER else None
                yield self.loads.weighed(finding, (), nodes) if reading.what in SLOWED else finding
        slow = {node for _, suspect in self.suspects.values() for node in suspect.nodes}
        for key, (reading, suspect) in self.suspects.items():
            found = self._named(reading, suspect, self.also.get(key, []))
            yield self.loads.weighed(found, slow, suspect.nodes) if reading.what in SLOWED else found

    def _take(self, reading: Reading, suspect: Suspect) -> None:
        known, mine = self._explained_by(suspect), (suspect.kind.value, suspect.subject)
        if known is not None:
            self._add(known, reading, suspect)
            return
        for key in self._explained_now(suspect) if reading.what in CONDEMNS else ():
            self._add(mine, *self.suspects.pop(key))
            self.also[mine] += self.also.pop(key, [])
        self.suspects[mine] = (reading, suspect)

    def _add(self, key: Key, reading: Reading, suspect: Suspect) -> None:
        said = f"{reading.what.value}: {suspect.bad} of {suspect.tests} tests"
        self.also.setdefault(key, []).append(said)

    def _explained_now(self, suspect: Suspect) -> list[Key]:
        """Links and ranks that were blamed, and belong to the node that is blamed now: it loses segments from everybody."""
        if suspect.kind is not Kind.NODE or suspect.probability < SURE:
            return []
        known = self.suspects.items()
        parts = [(key, s) for key, (_, s) in known if s.kind in (Kind.LINK, Kind.RANK)]
        return [key for key, s in parts if set(suspect.nodes) & set(s.nodes)]

    def _explained_by(self, suspect: Suspect) -> Key | None:
        """The suspect that is blamed already and covers this one; None if it is new."""
        for key, (_, blamed) in self.suspects.items():
            node = blamed.kind is Kind.NODE and set(blamed.nodes) & set(suspect.nodes)
            rank = blamed.kind is Kind.RANK and blamed.subject in suspect.subject.split(LINK)
            if node or rank or key == (suspect.kind.value, suspect.subject):
                return key
        return None

    def _whole(self, reading: Reading, blamed: frozenset[int]) -> Iterator[Finding]:
        what, result, matrix = reading.what, reading.decoded, reading.matrix
        if result.answer is Answer.FABRIC:
            yield Finding(
                FABRIC.get(what, Level.WARN), Cause.CONFIGURATION, self.check, CLUSTER,
                say.fabric(matrix, result), say.cells(matrix, result.bad, self.tests), say.FABRIC_REMEDY,
            )  # fmt: skip
        elif what in UNEXPLAINED and (result.answer is Answer.UNEXPLAINED or _is_corrupt(reading)):
            ends = ((k, {matrix.sources[k], matrix.targets[k]}) for k in result.bad)
            left = [k for k, parts in ends if not parts & blamed]
            if pair := self._always_bad(matrix, left):
                yield Finding(
                    UNEXPLAINED[what], Cause.HARDWARE, self.check, link(*pair),
                    say.one_pair(matrix, len(left)), say.cells(matrix, left, self.tests), say.REMEDIES[Kind.LINK],
                )  # fmt: skip
            elif left:
                yield Finding(
                    UNEXPLAINED[what], Cause.EVIDENCE, self.check, CLUSTER,
                    say.unexplained(matrix, len(left)), say.cells(matrix, left, self.tests), say.AGAIN,
                )  # fmt: skip
        elif result.answer is Answer.NOBODY and what is What.BANDWIDTH and _many_hiccups(matrix, result):
            yield Finding(
                Level.WARN, Cause.EVIDENCE, self.check, CLUSTER, say.hiccups(matrix, len(result.bad)),
                say.cells(matrix, result.bad, self.tests), say.AGAIN,
            )  # fmt: skip
        elif result.answer is Answer.TOO_FEW and what is What.BANDWIDTH:
            yield Finding(
                Level.WARN, Cause.EVIDENCE, self.check, CLUSTER, say.too_few(matrix), "",
                "Set floor_gbps in the policy's options.",
            )  # fmt: skip
        if what is What.BANDWIDTH:
            for part in sorted(result.unseen):
                if self._has_peers(matrix, part):
                    said = f"no test of it {matrix.span.value}"
                    yield missing(self.check, self.tests.parts[part].name, said)

    def _always_bad(self, matrix: Matrix, bad: Sequence[int]) -> tuple[str, str] | None:
        """The two parts of a pair that was bad each time, both ways, and that all bad tests are of; there may be too few
        others to tell which of the two it is.
        """
        pairs = {frozenset((matrix.sources[test], matrix.targets[test])) for test in bad}
        if len(pairs) != 1:
            return None
        [pair] = pairs
        ends = zip(matrix.sources, matrix.targets, strict=True)
        tests = sum(pair == {a, b} for a, b in ends)
        one, other = sorted(pair)
        names = self.tests.parts[one].name, self.tests.parts[other].name
        return names if len(bad) == tests >= 2 * MEASURED_AGAIN else None

    def _has_peers(self, matrix: Matrix, part: int) -> bool:
        """Whether there is a second part that it ought to have been measured with."""
        own = self.tests.parts[part]
        if matrix.span is Span.INSIDE:
            return any(other.node == own.node and other is not own for other in self.tests.parts)
        return any(other.node != own.node and other.rail == own.rail for other in self.tests.parts)

    def _named(self, reading: Reading, suspect: Suspect, also: Sequence[str]) -> Finding:
        level = Level.FAIL if reading.what in CONDEMNS else Level.WARN
        cause = Cause.HARDWARE if suspect.probability >= SURE else Cause.EVIDENCE
        evidence = say.cells(reading.matrix, suspect.cells, self.tests)
        message, subject = say.suspect(reading.matrix, reading.decoded, suspect, also), suspect.subject
        if suspect.kind in (Kind.RAIL, Kind.SWITCH):  # neither is a machine that could be replaced
            message, subject = f"{subject}: {message}", CLUSTER
        return Finding(level, cause, self.check, subject, message, evidence, say.REMEDIES[suspect.kind])


def _many_hiccups(matrix: Matrix, result: Decoded) -> bool:
    """Whether so many cells were bad, if only once, that somebody ought to look."""
    ends = list(zip(matrix.sources, matrix.targets, strict=True))
    return len({ends[test] for test in result.bad}) > HICCUPS * len(set(ends))


def _is_corrupt(reading: Reading) -> bool:
    """Wrong data that was right when it was measured again, or of two ranks alone: it is never a hiccup."""
    return (
        reading.what is What.DATA and reading.decoded.answer is not Answer.NAMED and bool(reading.decoded.bad)
    )


def missing(check: str, subject: str, said: str, evidence: str = "") -> Finding:
    """What was not measured."""
    return Finding(Level.FAIL, Cause.EVIDENCE, check, subject, said, evidence, say.AGAIN)
