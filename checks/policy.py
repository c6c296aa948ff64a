"""What a site accepts: one table per check, thresholds with their sources, and what a WARN means.

People write policies in TOML; nodes get the same table as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Annotated

from checks.documents import report as documents
from checks.documents.decode import decode
from checks.model import Action, Cause, Declared, MachinePart, Profile, Scope, Skip
from checks.value_types import SPARSE, DecodeError, Range, Text, version_of

Number = Annotated[float, Range(-1e18, 1e18)]
Ratio = Annotated[float, Range(0, 1)]
# The columns of the instance table with which a rule may compare a metric.
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
    "ib_ports",
    "ib_rate_gbit_s",
)


class OnWarn(str, Enum):
    """What a WARN means: go on, refuse, or ask a person."""

    GO = "go"
    REFUSE = "refuse"
    ASK = "ask"


class Over(str, Enum):
    """What a rule compares: each subject by itself, all subjects together, each with the others, or each with an expected value."""

    SUBJECT = "subject"
    CLUSTER = "cluster"
    PEERS = "peers"
    NODE = "node"
    FLEET = "fleet"
    SLOWEST = "slowest"
    EXPECTED = "expected"


# The metrics by which checks/judge/reachability.py and checks/culprit find faulty machines and links, whatever the policy's rules
# are.
RANKS_IN_PAIRS = ("collective.pairs", "nccl.pairs")
JUDGED_BY_THE_ENGINE = ("network.reachability", "network.pairs", *RANKS_IN_PAIRS)
# A test of a pair is bad below this share of the usual bandwidth, unless the policy says otherwise.
SLOW_RATIO = 0.5
# The kinds of parts of which a policy may ask that a slowness be seen.
SENSITIVE_TO = ("node", "rank", "link")
# The options by which the engine judges pairs, and the range of each: with a share of 0, for example, no pair would be judged.
SENSIBLE: Mapping[str, Range] = {
    "slow_ratio": Range(0.01, 1.0),
    "late_ratio": Range(0.001, 1.0),
    "floor_gbps": Range(0.0, 1e6),
    "floor_inside_gbps": Range(0.0, 1e6),
    "floor_share": Range(0.0, 1.0),
    "pause_us": Range(1.0, 1e9),
    "most_hiccups": Range(0.0001, 0.2),
    "most_cost": Range(0.0, 1.0),
    "oversubscription": Range(1.0, 4.0),  # below a quarter a whole distance is bad (checks/culprit/noise.py)
    **{f"detects_slow_{component}": Range(0.01, 0.9) for component in SENSITIVE_TO},
    "lost_share": Range(0.0, 1.0),
    "resent": Range(0.0, 1e9),
    "all_pairs_nodes": Range(2, 1_000_000),
    "matchings": Range(3, 1_000_000),
}
# The checks that a certificate may stand for: each takes longer than an instant, looks at its own node alone, and loads what the watch
# of a node only reads. Everything else is measured at every gate: the kernel log, the inventory, identities, whatever costs next to
# nothing, the network, and all that ranks do together.
CERTIFIABLE = (
    "cpu.stress",
    "memory.stress",
    "disk.io",
    "dcgm.diag",
    "neuron.collectives",
    "efa.loopback",
    "nccl.tests",
)
LONGEST_VALID_H = 168.0
# One good node in a thousand gates. Judgement: a site with ten gates a day is misled every few months.
FALSE_NAMES = 0.001
RELATIVE = (Over.PEERS, Over.NODE, Over.FLEET, Over.SLOWEST)


class Expect(str, Enum):
    """Which expected values of the facts a rule over = "expected" compares with."""

    COLLECTIVE = "collective"
    GEMM = "gemm"
    MEMORY = "memory"
    TRANSFER = "transfer"


class Overlay(str, Enum):
    """Whose answers to Xids are used (checks/judge/xid_overlay.py)."""

    NVIDIA = "nvidia"
    HYPERPOD = "hyperpod"
    EKS = "eks"
    AZURE = "azure"


@dataclass(frozen=True)
class Rule:
    """One condition that a metric has to meet; of an array metric, every element has to meet it.

    over = "subject": `*_below` and `*_above` are thresholds for the value of each subject (if the rule has no `*_below`, a value
    below 0 counts as not measured: it is a count, a share or a time), and `equals` is the value that it must have.

    over = "cluster": the thresholds apply to the smallest (below) or greatest (above) value of all subjects, and `same` requires the
    same value everywhere.

    over = "peers": `*_below` and `*_above` are ratios to the median of all subjects. If fewer than `min_peers` subjects are
    declared, the rule does not apply; if fewer were measured, it says so with a WARN.

    over = "node": ratios to the median of the same node (its ranks, or the elements of its array). over = "fleet": a node's median
    as a ratio to the median of all nodes.

    From five nodes and eight values on, a value over peers, node or fleet counts only if it is also farther from the others than
    their noise (checks/judge/rules/noise.py); with `deviations`, at least that many scaled median absolute deviations, however few
    values there are.

    over = "slowest": the share of the job's time for which the median subject waits for the slowest one, as all must in a
    synchronous step.

    over = "expected": ratios to what the facts expect of the declared machine (`expect` names the table, `at` the array that says at
    what each element was measured: sizes, precisions). If no measurement of a collective is published, a minimum is used instead,
    and that is a WARN ("no baseline") unless `accept_floor` is set.

    `listed`: the rule is for the instance types of the table alone, not for machines that a gate file describes.

    `uniform` requires all elements of an array to be equal. `fact` names a column of the instance table that each value must reach
    (within the fraction `tolerance`): a smaller value has the rule's level, a greater one is a WARN about the declaration, and a
    type for which the table has no value is a WARN, cause EVIDENCE, unless `accept_unknown` is set. `each` names an array of texts
    that label the elements ("GPU 3"); a rule with `equals` and each = "peers" is about links (checks/judge/rules/each_peer.py).
    `min_version` is the oldest acceptable driver ("570", "550.163.01"), compared number by number; a text that is no version counts
    as not measured. `needs_cpu`: the value is a speed or a time that depends on the host's CPU, so that a slow value is measured
    again, and proves nothing while other work used the CPU (checks/judge/cpu_contention.py).
    `action` is what its finding calls for; without one it follows from the cause (checks.judge.rules.apply.ACTIONS). A metric that
    the facts list as absent from the declared GPU model may be null.
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
    min_version: str = ""
    tolerance: Ratio = 0.0
    each: str = ""
    expect: Expect | None = None
    at: str = ""
    accept_floor: bool = False
    accept_unknown: bool = False
    listed: bool = False
    needs_cpu: bool = False
    deviations: Annotated[float, Range(0, 100)] = 0.0
    min_peers: Annotated[int, Range(2, 1_000_000)] = 4
    level: str = "FAIL"
    cause: Cause = Cause.HARDWARE
    remedy: str = ""
    action: Action | None = None


@dataclass(frozen=True)
class CheckPolicy:
    """What one check must show. `accept_skips` are reasons for which a skipped check is a WARN instead of a FAIL.

    `scope` is what the check must observe: a plan that observes the cluster once, where each node is required, is refused.
    `profiles`, `part`, `min_nodes` and `min_ranks` say to which declarations the check applies, as its line in the catalogue does,
    so that no plan can leave it out elsewhere. `overlay` is for kernel.xid alone: whose answers to Xids are used. `valid_for` is for
    how many hours a measurement may certify the check at later gates (checks.judge.certificates); 0: every gate measures it.
    """

    required: bool = True
    scope: Scope | None = None
    profiles: tuple[Profile, ...] = tuple(Profile)
    part: MachinePart = MachinePart.ANY
    min_nodes: Annotated[int, Range(1, 100_000)] = 1
    min_ranks: Annotated[int, Range(1, 1_000_000)] = 1
    accept_skips: tuple[Skip, ...] = ()
    rules: tuple[Rule, ...] = ()
    options: Mapping[str, Number] = field(default_factory=dict)
    overlay: Overlay = Overlay.NVIDIA
    valid_for: Annotated[float, Range(0, LONGEST_VALID_H)] = field(default=0.0, metadata=SPARSE)

    @property
    def may_be_left_out(self) -> bool:
        """Whether a gate file may skip the check: it is optional, or the policy accepts nodes without its tool."""
        return not self.required or bool({Skip.TOOL_MISSING, Skip.GATE_FILE} & {*self.accept_skips})

    def on(self, declared: Declared) -> CheckPolicy:
        """The entry without the accepted skips that the declared machines contradict: one of several nodes is not alone, for
        example.
        """
        false = {Skip.ONE_RANK_DECLARED} if declared.ranks_per_node > 1 else set[Skip]()
        false |= {Skip.ONE_NODE_DECLARED} if declared.nodes > 1 else set()
        accepted = tuple(skip for skip in self.accept_skips if skip not in false)
        return self if accepted == self.accept_skips else replace(self, accept_skips=accepted)

    def accepts(self, skip: Skip | None) -> bool:
        """Whether an observation that was skipped for this reason is a WARN and not a FAIL."""
        return skip in self.accept_skips or (skip is Skip.GATE_FILE and self.may_be_left_out)


@dataclass(frozen=True)
class Policy:
    """A site's policy. `instance_types` are those that it was written for; machines of other types are not judged by it.

    `false_names` is how many good nodes the rules that compare machines may name per report because of noise alone, on average.
    `judges` is how many hosts of a job decide where checks and training are one job (checks/runner/in_job/judges.py).
    """

    name: Annotated[str, Text(r"[a-z0-9][a-z0-9-]*", 64)]
    instance_types: tuple[str, ...]
    on_warn: OnWarn
    max_unfit_fraction: Ratio
    checks: Mapping[str, CheckPolicy]
    false_names: Annotated[float, Range(1e-9, 1.0)] = FALSE_NAMES
    judges: Annotated[int, Range(2, 100_000)] = field(default=3, metadata=SPARSE)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of its JSON. That of a shipped policy has 200 KB, so that it is made once."""
        return documents.digest(documents.dump_plain(self))

    def for_machines(self, declared: Declared) -> Policy:
        """The policy with the rules that hold for the declared machines."""
        if declared.machine is None:
            return self
        checks = {
            name: replace(line, rules=tuple(rule for rule in line.rules if not rule.listed))
            for name, line in self.checks.items()
        }
        return replace(self, checks=checks)


def load(value: object) -> Policy:
    """Makes a Policy of a plain table (from TOML or JSON). Raises DecodeError with the path and the nearest valid key."""
    policy = decode(Policy, value)
    check_sense(policy)
    # Refuses an entry without rules, because whatever its check measured would pass.
    for name, line in policy.checks.items():
        if not line.rules and name not in JUDGED_BY_THE_ENGINE:
            reason = f"the entry of {name} has no rules, so that whatever it measures would pass"
            raise DecodeError(
                f"{reason}. Add at least one rule: a policy without the line is refused where the check is planned",
                f"checks.{name}.rules",
            )
    return policy


def check_sense(policy: Policy) -> None:
    """Raises DecodeError for a rule without a condition or a source, and for a rule where losing the observation would be the better
    result.
    """
    for name, line in policy.checks.items():
        if line.overlay is not Overlay.NVIDIA and name != "kernel.xid":
            raise DecodeError("only kernel.xid has overlays", f"checks.{name}.overlay")
        if line.valid_for and name not in CERTIFIABLE:
            problem = f"{name} is measured at every gate; only {', '.join(CERTIFIABLE)} can be certified"
            raise DecodeError(problem, f"checks.{name}.valid_for")
        if Skip.CERTIFIED in line.accept_skips:
            problem = "a policy has to say with valid_for how old a certificate may be"
            raise DecodeError(problem, f"checks.{name}.accept_skips")
        for index, rule in enumerate(line.rules):
            _require_sense(rule, f"checks.{name}.rules[{index}]")
        if not line.required:
            _require_no_excuse(name, line)
        for option, value in line.options.items():
            if name in JUDGED_BY_THE_ENGINE and option in SENSIBLE:
                SENSIBLE[option].check(value, f"checks.{name}.options.{option}")


def leave_out_edit(file: str, name: str) -> str:
    """How a policy comes to accept that a gate file skips the check, for people."""
    edit = f'accept_skips = ["{Skip.GATE_FILE.value}"]'
    return (
        f'copy the policy {file}, write into [checks."{name}"] of the copy that it may be left out ({edit}, or one more entry '
        "of the list that is there), and name the copy in [policy] file"
    )


def can_fail(rule: Rule) -> bool:
    """Whether the rule can result in a FAIL. Every rule over = "expected" can, for a value that is more than the hardware can do."""
    if rule.fail_below is not None or rule.fail_above is not None or rule.over is Over.EXPECTED:
        return True
    bounded = rule.warn_below is not None or rule.warn_above is not None
    return not bounded and rule.level == "FAIL"


def _require_no_excuse(name: str, line: CheckPolicy) -> None:
    """For an optional check a lost observation is a WARN, so no rule of it may be more than a WARN."""
    lost = "a lost observation would be a better result than a bad value"
    if name in JUDGED_BY_THE_ENGINE:
        raise DecodeError(
            f"the engine itself judges {name}: {lost}. Require the check", f"checks.{name}.required"
        )
    for index, rule in enumerate(line.rules):
        if can_fail(rule):
            problem = f"the check is optional and this rule can FAIL: {lost}. Require the check, or let its rules WARN"
            problem += f'. For a gate file that may skip it, keep it required, with accept_skips = ["{Skip.GATE_FILE.value}"]'
            raise DecodeError(problem, f"checks.{name}.rules[{index}]")


def _require_sense(rule: Rule, path: str) -> None:
    for wrong, key, reason in _mistakes(rule):
        if wrong:
            raise DecodeError(reason, f"{path}.{key}" if key else path)


def _mistakes(rule: Rule) -> Iterator[tuple[bool, str, str]]:
    """What can be wrong with a rule: whether it is, the key, and the reason.

    A comparison needs thresholds, and each key needs the comparison that reads it: otherwise the key would be ignored. `needs_cpu` is
    for speeds alone: other work slows a machine, but makes no value wrong and causes no errors.
    """
    below, above = (rule.warn_below, rule.fail_below), (rule.warn_above, rule.fail_above)
    bounded = (*below, *above) != (None,) * 4
    over, equals = rule.over, rule.equals is not None
    kinds = sum((equals, rule.same, rule.uniform, rule.fact != "", bounded, rule.min_version != ""))
    single = rule.uniform or rule.fact or rule.min_version
    no_version = rule.min_version != "" and version_of(rule.min_version) is None
    yield kinds == 0, "", "the rule has no threshold and no other condition"
    ignored = '"equals", "same", "uniform", "fact", "min_version" and bounds'
    yield kinds > 1, "", f"of {ignored} one would be ignored: write two rules"
    yield rule.fact not in ("", *FACTS), "fact", f"the instance table has no column {rule.fact!r}"
    yield no_version, "min_version", "it is not a driver version such as 570 or 550.163.01"
    if over is not Over.SUBJECT:
        yield (bool(single), "", '"uniform", "fact" and "min_version" look at each subject: leave over out')
        yield equals, "", '"equals" looks at each subject: leave over out'
    yield rule.same and over is not Over.CLUSTER, "", '"same" compares subjects: set over = "cluster"'
    expected = over is Over.EXPECTED
    compares = expected or over in RELATIVE
    has_noise = over in (Over.PEERS, Over.NODE, Over.FLEET)
    yield compares and not bounded, "", f'over = "{over.value}" compares: give bounds'
    yield (rule.expect is not None) != expected, "expect", '"expect" and over = "expected" belong together'
    for key, is_written, is_read, reader in (
        ("at", rule.at != "", expected, 'over = "expected"'),
        ("accept_unknown", rule.accept_unknown, rule.fact != "", '"fact"'),
        ("accept_floor", rule.accept_floor, rule.expect is Expect.COLLECTIVE, 'expect = "collective"'),
        ("deviations", rule.deviations > 0, has_noise, 'over = "peers", "node" and "fleet"'),
    ):
        yield is_written and not is_read, key, f'"{key}" is read with {reader} alone'
    lost = 'over = "slowest" is a share that is lost: bound it from above'
    yield over is Over.SLOWEST and below != (None, None), "", lost
    if rule.needs_cpu:
        yield not bounded, "needs_cpu", '"needs_cpu" is of bounds of a speed, a time or a share of one'
        yield 0 in above, "needs_cpu", "what must not be above 0 is a count, and no speed"
    yield rule.level not in ("WARN", "FAIL"), "level", f"{rule.level!r} is neither WARN nor FAIL"
    yield not rule.source.strip(), "source", "the threshold has no source"
    yield None not in below and below[0] < below[1], "", "warn_below is less than fail_below"  # type: ignore[operator]
    yield None not in above and above[0] > above[1], "", "warn_above is greater than fail_above"  # type: ignore[operator]
