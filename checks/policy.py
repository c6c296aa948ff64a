"""What a site accepts: one line a check, thresholds with a source, and what a WARN means.

Policies are TOML for people; what travels to nodes is the same table as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated

from checks.decode import DecodeError, Range, Text, decode
from checks.model import Cause, Part, Profile, Skip

Number = Annotated[float, Range(-1e18, 1e18)]
Ratio = Annotated[float, Range(0, 1)]
# The columns of the instance table that a rule may hold a metric to.
FACTS = (
    "gpus",
    "efa_devices",
    "neuron_devices",
    "vcpus",
    "memory_gib",
    "gpu_memory_mib",
    "nvlinks",
    "pcie_generation",
    "pcie_width",
    "network_gbit_s",
    "neuron_cores_per_device",
)


class OnWarn(str, Enum):
    """What a WARN means: go on, refuse, or ask a person."""

    GO = "go"
    REFUSE = "refuse"
    ASK = "ask"


class Over(str, Enum):
    """What a rule looks at: each subject by itself, all subjects at once, or each against the others."""

    SUBJECT = "subject"
    CLUSTER = "cluster"
    PEERS = "peers"


@dataclass(frozen=True)
class Rule:
    """One line that a metric is held to; for an array metric every element is.

    over = "subject": `*_below` and `*_above` bound the value of each subject, `equals` is what it must be.
    over = "cluster": the bounds hold for the least (below) or greatest (above) value of all subjects, and
    `same` demands one value everywhere. over = "peers": `*_below` and `*_above` are ratios to the median of
    all subjects; where fewer than
    `min_peers` subjects are declared the rule does not apply; where fewer were measured it says so, a WARN.
    `uniform` demands that all elements of an array are alike. `fact` names a column of the instance table that each
    value must reach (within the fraction `tolerance`): less is the rule's level, more is a WARN about the
    declaration, and a type for which the table says nothing is a WARN, cause EVIDENCE. `each` names an array of texts
    that label the elements ("GPU 3"). A metric that the facts list as absent from the declared GPU model may be null.
    """

    metric: str
    source: str
    over: Over = Over.SUBJECT
    warn_below: Number | None = None
    fail_below: Number | None = None
    warn_above: Number | None = None
    fail_above: Number | None = None
    equals: bool | int | float | str | None = None
    same: bool = False
    uniform: bool = False
    fact: str = ""
    tolerance: Ratio = 0.0
    each: str = ""
    min_peers: Annotated[int, Range(2, 1_000_000)] = 4
    level: str = "FAIL"
    cause: Cause = Cause.HARDWARE
    remedy: str = ""


@dataclass(frozen=True)
class CheckPolicy:
    """What one check must show. `accept_skips` are reasons that leave a WARN instead of a FAIL.

    `profiles`, `part`, `min_nodes` and `min_ranks` say to which declarations the check applies, as its own line in
    the catalogue does: no plan can excuse it from others.
    """

    required: bool = True
    profiles: tuple[Profile, ...] = tuple(Profile)
    part: Part = Part.ANY
    min_nodes: Annotated[int, Range(1, 100_000)] = 1
    min_ranks: Annotated[int, Range(1, 1_000_000)] = 1
    accept_skips: tuple[Skip, ...] = ()
    rules: tuple[Rule, ...] = ()
    options: Mapping[str, Number] = field(default_factory=dict)


@dataclass(frozen=True)
class Policy:
    """A site's policy. `instance_types` are those that it was written for: others are not judged by it."""

    name: Annotated[str, Text(r"[a-z0-9][a-z0-9-]*", 64)]
    instance_types: tuple[str, ...]
    on_warn: OnWarn
    max_unfit_fraction: Ratio
    checks: Mapping[str, CheckPolicy]


def load(value: object) -> Policy:
    """A plain table (of TOML or JSON) -> Policy. Raises DecodeError with the path and the nearest valid key."""
    made = decode(Policy, value)
    check_sense(made)
    return made


def check_sense(policy: Policy) -> None:
    """Raise DecodeError for a rule that holds nothing, or cites no source."""
    for name, line in policy.checks.items():
        for index, rule in enumerate(line.rules):
            _require_sense(rule, f"checks.{name}.rules[{index}]")


def _require_sense(rule: Rule, path: str) -> None:
    bounds = (rule.warn_below, rule.fail_below, rule.warn_above, rule.fail_above)
    bounded = any(bound is not None for bound in bounds)
    kinds = (rule.equals is not None) + rule.same + rule.uniform + bool(rule.fact) + bounded
    if kinds == 0:
        raise DecodeError("the rule holds the metric to nothing", path)
    if kinds > 1:
        raise DecodeError(
            'of "equals", "same", "uniform", "fact" and bounds one would be ignored: write two rules', path
        )
    if rule.fact and rule.fact not in FACTS:
        raise DecodeError(f"the instance table has no column {rule.fact!r}", f"{path}.fact")
    if (rule.uniform or rule.fact) and rule.over is not Over.SUBJECT:
        raise DecodeError('"uniform" and "fact" look at each subject: leave over out', path)
    if rule.same and rule.over is not Over.CLUSTER:
        raise DecodeError('"same" compares subjects: set over = "cluster"', path)
    if rule.equals is not None and rule.over is not Over.SUBJECT:
        raise DecodeError('"equals" looks at each subject: leave over out', path)
    if rule.level not in ("WARN", "FAIL"):
        raise DecodeError(f"{rule.level!r} is neither WARN nor FAIL", f"{path}.level")
    if not rule.source.strip():
        raise DecodeError("a threshold without a source", f"{path}.source")
    if rule.warn_below is not None and rule.fail_below is not None and rule.warn_below < rule.fail_below:
        raise DecodeError("warn_below lies under fail_below", path)
    if rule.warn_above is not None and rule.fail_above is not None and rule.warn_above > rule.fail_above:
        raise DecodeError("warn_above lies over fail_above", path)
