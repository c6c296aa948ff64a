"""The sentences about suspects. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from checks.culprit.doubt import never_good
from checks.culprit.matrix import (
    Better,
    Congestion,
    Decoded,
    Direction,
    Entity,
    Matrix,
    NodeGroups,
    PairNoise,
    SlowPaths,
    Span,
    Suspect,
)
from checks.culprit.patterns.sweeps import varies_between_sweeps
from checks.culprit.suspects import fewest_ends
from checks.documents.report import clip
from checks.judge.culprits.from_report import MatrixSubject, PairTable
from checks.judge.rules.wording import distinct_digits, figure, quantity
from checks.model import LINK
from checks.model_details import PairOutcome
from checks.value_types import listed_names

AGAIN = "Run the gate again. If the finding returns, read the node's log."
FABRIC_REMEDY = (
    "No single part is worse than the rest. Check MTU, routes, the transport's settings "
    "and the image before you suspect a machine."
)
REMEDIES = {
    Entity.NODE: "Do not train on this node. Check its NICs, cables and switch port, and its GPUs.",
    Entity.RANK: "Do not train on this rank's GPU. Check it and the NIC nearest to it, with their cables.",
    Entity.LINK: "Check the path between the two: cable, switch ports, routes. To train meanwhile, leave one of them out; "
    "if the other one is slow then, it is the node.",
    Entity.RAIL: "Check this rail's switch, and the NIC and its settings that this local rank uses on every node.",
    Entity.SWITCH: "Check this switch and its uplinks before any node below it.",
    Entity.FABRIC: FABRIC_REMEDY,
}
# Of the pairs within a node.
INSIDE = {
    Entity.RANK: "Do not train on this rank's GPU. Check it, and its NVLinks or its PCIe slot.",
    Entity.LINK: "Check the path between the two in the node: NVLink (nvidia-smi nvlink -s), PCIe and memory (nvidia-smi topo -m).",
}
CONGESTION_REMEDY = (
    "Find out what else used the network at that time. If it is slow again, check the uplinks of these nodes."
)
GROUPS_REMEDY = (
    "If the fabric is oversubscribed by design, set the policy's option oversubscription of this check, and name the switches in "
    "cluster.topology of the gate file. If it is not, check the switches and the uplinks between them."
)
PATHS_REMEDY = (
    "No machine is at fault. Check how the fabric spreads flows over its links (ECMP, adaptive routing), and its "
    "oversubscription."
)
PASSED_REMEDY = "Run the gate again, and read this node's log for that time. If the node is bad again, do not train on it."
MAJORITY_REMEDY = (
    "Compare these nodes with a cluster of the same kind, or set floor_gbps in the policy's options: a test below it is "
    "bad, whatever is usual."
)
# What a bad part does, by what was measured.
FAULTS = {
    MatrixSubject.DATA: "delivers wrong data",
    MatrixSubject.BANDWIDTH: "is slow",
    MatrixSubject.PAUSE: "pauses for long",
    MatrixSubject.LOST: "loses segments",
    MatrixSubject.RESENT: "sends segments again",
    MatrixSubject.LATENCY: "answers late",
}
MICROSECONDS = "µs"
BOTH, OUT, IN = Direction
MOST_CELLS, MOST_VALUES = 40, 6
MOST_NAMES = 4
# Judgement: "most" leaves this share to others.
OTHERS = 0.2


def suspect(
    matrix: Matrix, result: Decoded, culprit: Suspect, also: Sequence[str], metric: MatrixSubject | None
) -> str:
    """What is wrong with the suspect, as a predicate, and by how much. `metric` is None for a matrix of another tool."""
    is_mute = culprit.ratio is None and metric is MatrixSubject.BANDWIDTH
    message = f"{'gives no answer' if is_mute else _fault(matrix, metric)}{_where(culprit)}: {_value(matrix, result, culprit)}"
    message += f"{culprit.bad} of {culprit.tests} tests are bad"
    if culprit.passed:
        message += ", all in one period, and they were good when they were measured again"
    if culprit.cost is not None:
        message += f", as where paths share a link of the fabric: {_costs(culprit.cost)}"
    return message + (f"; also {', '.join(also)}" if also else "")


def odds(culprit: Suspect) -> str:
    """How probable it is that the suspect is to blame, and what else could be the reason."""
    message, other = f"; probability {percent(culprit.probability)}", culprit.runner_up
    if other is None:
        return message
    return (
        f"{message}; less likely: {typed_subject(other.kind, other.subject)} ({percent(other.probability)})"
    )


def remedy(entity: Entity, matrix: Matrix) -> str:
    """What to do about a suspect."""
    return INSIDE.get(entity, REMEDIES[entity]) if matrix.span is Span.INSIDE else REMEDIES[entity]


def _fault(matrix: Matrix, metric: MatrixSubject | None) -> str:
    if metric is not None:
        return FAULTS[metric]
    return "is slow" if matrix.better is Better.HIGHER else f"has a high {matrix.metric}"


def _value(matrix: Matrix, result: Decoded, culprit: Suspect) -> str:
    if not matrix.unit:
        return ""
    usual, line = result.noise.usual, result.noise.line
    message, digits = "no value", 3
    worse = matrix.better is Better.HIGHER
    if culprit.ratio is not None and line > 0 and (culprit.ratio * usual < line) is not worse:
        # The median is not bad: only how many tests are, and what makes one bad, says something.
        return f"{bad_is(matrix, line)}; "
    if culprit.ratio is not None:
        median = culprit.ratio * usual
        digits = distinct_digits(
            3, lambda some: figure(median, some) == figure(line, some) and median != line
        )
        message = f"median {number(median, matrix.unit, digits)}"
    message += f", usual {number(usual, matrix.unit)}" if matrix.better is Better.HIGHER else ""
    return f"{message}, threshold {number(line, matrix.unit, digits)}; " if line > 0 else f"{message}; "


def typed_subject(entity: Entity, subject: str) -> str:
    """The part with its kind: "node node-3"; a rail's name says it by itself ("rail 2")."""
    return subject if entity is Entity.RAIL else f"{entity.value} {subject}"


def candidate(subject: str, message: str) -> str:
    """A part that may be at fault, and is not named because something else is too likely."""
    return f"{subject} is a candidate, but it is not certain enough to name it; it {message}"


def _where(culprit: Suspect) -> str:
    """The direction: of a link from which end to which, "" if both are bad."""
    if culprit.kind is Entity.LINK:
        first, _, second = culprit.subject.partition(LINK)
        return {BOTH: "", OUT: f" from {first} to {second}", IN: f" from {second} to {first}"}[culprit.way]
    return {BOTH: " to and from its peers", OUT: " to its peers", IN: " from its peers"}[culprit.way]


def fabric(matrix: Matrix, result: Decoded) -> str:
    """Too many tests are bad to name a part."""
    text = f"{matrix.metric} {matrix.span.value} is bad as a whole: {len(result.bad)} of {len(matrix.values)} tests"
    text += f", typical value {number(result.noise.usual, matrix.unit)}, {bad_is(matrix, result.noise.line)}"
    if result.suspects:
        text += f"; {len(result.suspects)} parts would have to be at fault"
    return text


def unexplained(matrix: Matrix, result: Decoded, bad: Sequence[int]) -> str:
    """Bad tests that no part explains, whether their pairs were good in another test, the nodes to which most of them belong, and what
    they cost.
    """
    tests = f"{matrix.metric} {matrix.span.value}: {len(bad)} of {len(matrix.values)} tests"
    nodes = ", ".join(f"{node} ({some})" for node, some in in_common(matrix, bad))
    clauses = [f"most of them are of {nodes}" if nodes else "", "no single part explains them"]
    if never := never_good(matrix, bad, result.bad):
        are = "is of a pair that was" if len(never) == 1 else "are of pairs that were"
        verb = "is" if len(bad) == 1 else "are"
        message = f"{tests} {verb} bad, and {len(never)} of them {are} never good"
    else:
        message = f"{tests} were bad, and the same pairs were good in another test"
        clauses.append("the network was busier at some times than at others" if is_busy(matrix, bad) else "")
        clauses.append(_costs(result.cost) if result.cost > 0 else "")
    return "; ".join(filter(None, (message, *clauses)))


def in_common(matrix: Matrix, bad: Sequence[int]) -> list[tuple[str, int]]:
    """The fewest nodes to which most of the bad tests belong, with the number of tests of each; none if that takes too many."""
    names = [endpoint.node for endpoint in matrix.endpoints]
    left, fewest = len(bad), list[tuple[str, int]]()
    for node, some in fewest_ends([(names[matrix.sources[k]], names[matrix.targets[k]]) for k in bad]):
        if left <= OTHERS * len(bad) or len(fewest) == MOST_NAMES:
            break
        fewest.append((node, some))
        left -= some
    return fewest if left <= OTHERS * len(bad) else []


def is_busy(matrix: Matrix, bad: Sequence[int]) -> bool:
    """Whether these bad tests came and went, and no few nodes have most of them: other traffic takes its share of the network."""
    return not in_common(matrix, bad) and varies_between_sweeps(matrix, bad)


def congestion(matrix: Matrix, period: Congestion) -> str:
    """Several nodes were bad at the same time, and good afterwards."""
    where = f"under {period.switch}" if period.switch else listed_names(period.nodes, MOST_NAMES)
    return (
        f"{matrix.metric} {matrix.span.value}: the network was congested in rounds {period.first} to {period.last}:"
        f" {len(period.tests)} tests of {len(period.nodes)} nodes ({where}) were bad then, and good afterwards"
    )


def groups(matrix: Matrix, node_groups: NodeGroups, oversubscribed: float) -> str:
    """Within groups of nodes there is more bandwidth than between them. `oversubscribed`: how many times the policy allows, 0: it does
    not say.
    """
    names = "; ".join(listed_names(nodes, MOST_NAMES) for nodes in node_groups.groups[:MOST_NAMES])
    many = f"{len(node_groups.groups)} {'switches' if node_groups.is_known else 'groups'}"
    message = (
        f"{matrix.metric} {matrix.span.value}: the nodes fall into {many} ({names}), and between these it is"
        f" {percent(node_groups.share)} of that within them"
    )
    if oversubscribed:
        return f"{message}; the policy expects {percent(1 / oversubscribed)}"
    return f"{message}, as where the uplinks of switches are oversubscribed, or a switch is slow"


def slow_paths(matrix: Matrix, paths: SlowPaths) -> str:
    """Many pairs are slow in each test."""
    return (
        f"{matrix.metric} {matrix.span.value}: {paths.pairs} of {paths.every} pairs ({percent(paths.pairs / paths.every)}) are slow"
        f" in each test, and no part has most of them, as where paths share a link of the fabric; {_costs(paths.cost)}"
    )


def slow_part(matrix: Matrix, result: Decoded, culprit: Suspect) -> str:
    """A node, rank or rail is a little slower than the others."""
    slower, usual = percent(1 - (culprit.ratio or 0.0)), number(result.noise.usual, matrix.unit)
    return (
        f"is {slower} slower than the other {culprit.kind.value}s{_where(culprit)}"
        f" (median of its {culprit.tests} tests, usual {usual})"
    )


def blind(matrix: Matrix, entity: Entity, seen_from: float | None, wanted: float) -> str:
    """The sweep would not have shown a part as slow as the policy asks for."""
    where, name = f"{matrix.metric} {matrix.span.value}", entity.value
    if seen_from is None:
        return f"{where}: the tests do not show whether a {name} is {percent(wanted)} slower than the others"
    return f"{where}: a {name} would have been named from {percent(seen_from)} slower on, but the policy asks for {percent(wanted)}"


def no_majority(matrix: Matrix, slower: float, wanted: float) -> str:
    """So many nodes are slower than the others that it cannot be said which of them are at fault."""
    return (
        f"{matrix.metric} {matrix.span.value}: no majority of the nodes is fast: many are slower than the others, by up to"
        f" {percent(slower)}, so that none is named; the policy asks for nodes that are {percent(wanted)} slower"
    )


def _costs(share: float) -> str:
    return f"an all-to-all exchange of all nodes takes {100 * share:.3g} % longer because of it"


def one_pair(matrix: Matrix, bad: int) -> str:
    """A pair that is bad in each test, while there are too few other tests to tell which end is faulty."""
    return f"{matrix.metric} {matrix.span.value}: all {bad} tests of this pair are bad, and no other part explains them"


def hiccups(matrix: Matrix, bad: int) -> str:
    """Many tests that were bad once and good when they were measured again."""
    tests = len(matrix.values)
    verb, it, again = ("was", "it", "was") if bad == 1 else ("were", "they", "were")
    return f"{matrix.metric} {matrix.span.value}: {bad} of {tests} tests {verb} bad, but good when {it} {again} measured again"


def too_few(matrix: Matrix) -> str:
    """There is nothing to compare with."""
    return (
        f"{matrix.metric} {matrix.span.value} was not judged: too few pairs to compare, and no minimum is set"
    )


def cells(matrix: Matrix, which: Sequence[int], tests: PairTable, noise: PairNoise, bad: bool = True) -> str:
    """The tests as lines of text: what makes a test bad, then one line for each direction of a pair with all that it was measured at,
    the worst first. `bad`: these tests are.
    """
    reasons = _reasons(tests)
    by_pair: dict[tuple[int, int], list[int]] = {}
    for k in which:
        by_pair.setdefault((matrix.sources[k], matrix.targets[k]), []).append(k)
    lines = [
        f"{matrix.endpoints[ends[0]].name} -> {matrix.endpoints[ends[1]].name}: "
        f"{_measured(matrix, indices, reasons.get(ends, 'no value'), bad)}"
        for ends, indices in tuple(by_pair.items())[:MOST_CELLS]
    ]
    more = [f"and {len(by_pair) - len(lines)} more"] if len(by_pair) > len(lines) else []
    return clip("\n".join([*_scale(matrix, noise, bad), *lines, *more]))[0]


def _scale(matrix: Matrix, noise: PairNoise, bad: bool) -> list[str]:
    """One line: from which value on a test is bad, and what is usual; none for data, which is right or wrong."""
    clauses = [bad_is(matrix, noise.line)] if bad and matrix.unit and noise.line > 0 else []
    if matrix.unit and noise.usual > 0 and matrix.better is Better.HIGHER:
        clauses.append(f"usual is {number(noise.usual, matrix.unit)}")
    return [", ".join(clauses)] if clauses else []


def _measured(matrix: Matrix, which: Sequence[int], without: str, bad: bool) -> str:
    """What the tests of one direction of a pair gave, with which messages, and how many they are where there are several."""
    values = [
        without if (value := matrix.values[k]) is None else number(value, matrix.unit)
        for k in which[:MOST_VALUES]
    ]
    several = ", ".join(dict.fromkeys(values))
    sizes = [
        size for k in which if matrix.sizes and matrix.values[k] is not None and (size := matrix.sizes[k])
    ]
    messages = _messages(min(sizes), max(sizes)) if sizes else ""
    if len(which) == 1:
        return f"{several} with {messages}" if messages else several
    more = f" and {len(which) - MOST_VALUES} more" if len(which) > MOST_VALUES else ""
    many = f"{len(which)} {'bad tests' if bad else 'tests'}"
    return f"{several}{more} (in {many}{f', with {messages}' if messages else ''})"


def _messages(least: int, most: int) -> str:
    if least == most:
        return f"messages of {quantity(least, 'B', 3)}"
    return f"messages of {quantity(least, 'B', 3)} to {quantity(most, 'B', 3)}"


def _reasons(tests: PairTable) -> dict[tuple[int, int], str]:
    """Why a test gave no value, for both directions. Wrong data is reported by the rank that received it."""
    reasons: dict[tuple[int, int], str] = {}
    for a, b, outcome, failure in zip(tests.mine, tests.peers, tests.outcomes, tests.failures, strict=True):
        if outcome is not PairOutcome.OK:
            reasons.setdefault((b, a), failure)
            reasons[a, b] = failure
    return reasons


def bad_is(matrix: Matrix, line: float) -> str:
    """On which side of this value a test is bad."""
    return f"bad is {'below' if matrix.better is Better.HIGHER else 'above'} {number(line, matrix.unit)}"


def number(value: float, unit: str, digits: int = 3) -> str:
    """The value with its unit."""
    return f"{figure(value, digits)} {MICROSECONDS if unit == 'us' else unit}".strip()


def percent(probability: float) -> str:
    """A probability in percent, never 100 %, because it is never certain."""
    if probability > 0.999:
        return ">99.9 %"
    return f"{100 * probability:.3g} %" if probability >= 0.001 else "<0.1 %"
