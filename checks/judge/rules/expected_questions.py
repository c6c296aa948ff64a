"""The questions of a rule over = "expected" about each element of a metric, and what the facts answer. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from checks.facts.instances import Facts, Instance
from checks.judge.rules import expected_values
from checks.judge.rules.values import RuleContext
from checks.judge.rules.wording import quantity
from checks.model import Declared, Observation
from checks.policy import Expect, Rule

# From this size on a message shows bandwidth and not latency: 64 MiB ran at 43 % of the peak on 2 x p5, 128 MiB at 59 %, 1 GiB
# at 90 % (AWS's nccl-tests README); smaller ones differ between versions of NCCL and ways of timing.
LEAST_BYTES = 128 << 20
POINT = re.compile(r"(\w+?)(?:_perf)? (\d{1,18}) B, (\d{1,9}) ranks")


@dataclass(frozen=True)
class ExpectedQuestion:
    """`about` says what is asked, in the same words for all sizes of one collective; "" if the element is not compared.

    `label` says how the element was measured ("all_gather at 256 MiB over 8 ranks"), if the metric's own list does not say it.
    `too_small`: no message was large enough to show bandwidth. No baseline can replace that, because what was not sent was not
    measured.
    """

    about: str
    expected: expected_values.Expected | None = None
    label: str = ""
    too_small: bool = False


@dataclass(frozen=True)
class CollectiveGroup:
    """The nodes and ranks that take part in a collective."""

    collective: str
    nodes: int
    ranks: int


def questions(
    check: str, rule: Rule, record: Observation, context: RuleContext
) -> list[ExpectedQuestion] | str:
    """One question per element of the rule's metric, or why they cannot be asked."""
    value = record.metrics.get(rule.metric)
    count = len(value) if isinstance(value, tuple) else 1
    labels = record.metrics.get(rule.at) if rule.at else None
    if rule.at and (not isinstance(labels, tuple) or len(labels) != count):
        return f"{rule.at} does not say how each element of {rule.metric} was measured"
    at: Sequence[object] = labels if isinstance(labels, tuple) else [None] * count
    if context.instance is None or context.declared is None or context.facts is None:
        machine = context.declared.instance_type if context.declared else "an undeclared instance type"
        return [ExpectedQuestion(f"no expected values for {machine}")] * count
    if rule.expect is Expect.COLLECTIVE:
        return _of_collective(check, rule, at, context.facts, context.instance, context.declared)
    return [_of_part(rule, item, context.facts, context.instance) for item in at]


def taking_part(check: str, declared: Declared) -> CollectiveGroup:
    """The nodes and ranks that take part in the collective of one of Prelaunch's checks."""
    name = check.rpartition(".")[2]
    if name == "intra_node":
        return CollectiveGroup(expected_values.ALL_REDUCE, 1, declared.ranks_per_node)
    if name == "inter_node":
        return CollectiveGroup(expected_values.RAILS, declared.nodes, declared.nodes)
    return CollectiveGroup(name, declared.nodes, declared.ranks)


def _of_part(rule: Rule, at: object, facts: Facts, instance: Instance) -> ExpectedQuestion:
    """The expected value of one GPU. `at` is a precision, or None: then the first word of the metric's name is the test."""
    model, test = instance.gpu, rule.metric.partition("_")[0]
    label = model or "a machine without GPUs"
    if rule.expect is Expect.GEMM:
        return ExpectedQuestion(
            f"no expected value for {at} products on {label}",
            expected_values.expected_gemm(facts, model, str(at)),
        )
    if rule.expect is Expect.MEMORY:
        return ExpectedQuestion(
            f"no expected value for a {test} on {label}", expected_values.expected_memory(facts, model, test)
        )
    if test == expected_values.PEER and instance.nvlinks == 0:
        # A copy through the host is limited by the host's links, which have expected values of their own.
        return ExpectedQuestion("")
    return ExpectedQuestion(
        f"no expected value for {test} on {label}", expected_values.expected_transfer(facts, model, test)
    )


def _of_collective(
    check: str, rule: Rule, at: Sequence[object], facts: Facts, instance: Instance, declared: Declared
) -> list[ExpectedQuestion] | str:
    parsed = [_point(check, item, declared) for item in at]
    if any(point is None for point in parsed):
        return "how its elements were measured cannot be read"
    points = [point for point in parsed if point is not None]
    largest: dict[CollectiveGroup, int] = {}
    for group, size in points:
        largest[group] = max(size, largest.get(group, 0))
    result = []
    for group, size in points:
        if size < min(LEAST_BYTES, largest[group]):
            result.append(ExpectedQuestion(""))
            continue
        transport = expected_values.transport_of(instance, group.nodes)
        machines = f" of {group.nodes} x {declared.instance_type}{f' ({transport})' if transport else ''}"
        remainder = f": they do not fill whole machines, and a {declared.instance_type} has {declared.gpus_per_node} GPUs"
        message = f"no expected value for {group.collective} over {group.ranks} ranks{machines if group.nodes else remainder}"
        query = (declared.instance_type, group.nodes, group.ranks, group.collective, size, transport)
        if size < LEAST_BYTES:
            # A network that is too slow for larger messages must be judged all the same.
            message = f"{group.collective} was measured with no message of {LEAST_BYTES >> 20} MiB or more"
            expected = expected_values.floor_busbw(facts, *query, largest=True)
        else:
            expected = expected_values.expected_busbw(facts, *query) or expected_values.floor_busbw(
                facts, *query
            )
        name = "all_reduce of each rail" if group.collective == expected_values.RAILS else group.collective
        label = f"{name} at {quantity(size, 'B')} over {group.ranks} ranks"
        result.append(ExpectedQuestion(message, expected, "" if rule.each else label, size < LEAST_BYTES))
    return result


def _point(check: str, at: object, declared: Declared) -> tuple[CollectiveGroup, int] | None:
    """Who took part, and the size in bytes: from a program's point ("all_reduce_perf 1024 B, 16 ranks"), or from a check's."""
    if isinstance(at, str):
        match = POINT.fullmatch(at)
        if match is None:
            return None
        ranks, a_node = int(match[3]), declared.gpus_per_node
        nodes = ranks // a_node if a_node and ranks % a_node == 0 else 0
        return CollectiveGroup(match[1], nodes, ranks), int(match[2])
    return None if type(at) is not int else (taking_part(check, declared), at)
