"""Reports of whole fleets with faulty nodes planted in them, and what judging them costs. Constructed, not measured.

`python -m tests.benchmarks.fleet make --form values --nodes 5000 --bad 5 --out FILE` writes a report, its policy
(FILE.policy.json) and the names of the faulty nodes (FILE.bad.json); the same seed gives the same bytes.
`python -m tests.benchmarks.fleet run` makes both sizes and judges each with `prelaunch judge`, five times, as a
process of its own: JSON on stdout, medians in seconds (from the start of Python to its end) and the peak RSS.

values   a value a node and metric: 37 values a node
full     a value a GPU and metric: 37 values a GPU, 8 GPUs a node; a node's eight lie side by side
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from checks.documents.report import dump, dump_plain
from checks.model import (
    Cause,
    Declared,
    ErrorKind,
    Node,
    Observation,
    Outcome,
    Planned,
    Profile,
    Report,
    Scope,
    Value,
    rank_subject,
)
from checks.policy import CheckPolicy, OnWarn, Over, Policy, Rule

ROOT = Path(__file__).resolve().parents[2]

SEED = 20261122
RUNS = 5
WHEN = "2026-11-22T08:00:00+00:00"
SOURCE, RAISED = "constructed for the benchmark", "it raised RuntimeError"
FAULTS = ("slow GEMM", "an ECC error", "slow collectives", "another driver", "nothing measured")


@dataclass(frozen=True)
class Metric:
    """What a healthy part shows: `usual` give or take `spread` (both of the value's unit), and its rule."""

    name: str
    usual: float
    spread: float = 0.0
    over: Over = Over.SUBJECT

    def rule(self) -> Rule:
        """A bound on each value, a ratio to the peers, or what each must be exactly."""
        if not self.spread:
            return Rule(self.name, SOURCE, equals=int(self.usual))
        if self.over is Over.SUBJECT:
            low, high = 0.8 * self.usual, 1.25 * self.usual
            return Rule(self.name, SOURCE, fail_below=low, warn_below=1.05 * low, fail_above=high)
        return Rule(self.name, SOURCE, self.over, warn_below=0.9, fail_below=0.8)


def _speeds(names: str, usual: float, over: Over = Over.SUBJECT) -> tuple[Metric, ...]:
    return tuple(Metric(name, usual * (1 + i), 0.01 * usual, over) for i, name in enumerate(names.split()))


# 37 metrics; a check of scope RANK has a subject a GPU, in every form.
CHECKS: dict[str, tuple[Scope, tuple[Metric, ...]]] = {
    "fleet.gemm": (
        Scope.NODE,
        _speeds("fp64_tflops fp32_tflops tf32_tflops bf16_tflops fp16_tflops fp8_tflops", 60.0),
    ),
    "fleet.memory": (
        Scope.NODE,
        _speeds("copy_gbps scale_gbps add_gbps triad_gbps read_gbps write_gbps", 2700.0, Over.PEERS),
    ),
    "fleet.transfer": (Scope.NODE, _speeds("h2d_gbps d2h_gbps d2d_gbps p2p_gbps both_ways_gbps", 55.0)),
    "fleet.health": (
        Scope.NODE,
        (
            *_speeds("temperature_celsius power_w sm_clock_mhz memory_clock_mhz", 60.0),
            *(Metric(name, 0) for name in ["ecc_uncorrected", "rows_remapped", "xids", "throttled"]),
            Metric("pcie_generation", 5),
            Metric("pcie_width", 16),
        ),
    ),
    "fleet.host": (Scope.NODE, _speeds("disk_read_gbps disk_write_gbps cpu_operations_per_s", 6.0)),
    "fleet.collective": (
        Scope.RANK,
        _speeds("mib_1_gbps mib_8_gbps mib_64_gbps mib_256_gbps gib_1_gbps gib_4_gbps", 70.0, Over.PEERS),
    ),
}  # fmt: skip
DRIVER = "driver"  # the 37th: text, and one everywhere


@dataclass(frozen=True)
class Fleet:
    """A report, the policy that it is judged by, and who is faulty in it: node -> how."""

    report: Report
    policy: Policy
    bad: dict[str, str]


def fleet(form: str = "values", nodes: int = 5000, bad: int = 5, seed: int = SEED) -> Fleet:
    """A fleet of `nodes` nodes with `bad` faulty ones among them, each in another way."""
    chance = random.Random(seed)
    gpus = 8 if form == "full" else 1
    names = tuple(f"node-{index:05d}" for index in range(nodes))
    faulty = dict(zip(sorted(chance.sample(names, bad)), FAULTS * bad, strict=False))
    kind = ("p5.48xlarge", 8, 8) if form == "full" else ("cpu", 0, 1)
    declared = Declared(kind[0], nodes, kind[1], kind[2], names)
    plan = [
        Planned(check, scope, tuple(metric.name for metric in metrics) + _texts(check))
        for check, (scope, metrics) in CHECKS.items()
    ]
    lines = {
        check: CheckPolicy(rules=tuple(metric.rule() for metric in metrics) + _text_rules(check))
        for check, (_, metrics) in CHECKS.items()
    }
    rows = [row for index, name in enumerate(names) for row in _rows(chance, name, index, gpus, faulty)]
    if form == "full":
        plan.append(Planned("gpu.inventory", Scope.NODE, ("gpus_found",)))
        lines["gpu.inventory"] = CheckPolicy(rules=(Rule("gpus_found", SOURCE, equals=8),))
        rows += [_row("gpu.inventory", name, {"gpus_found": 8}) for name in names]
    found = tuple(
        Node(name, rank, "attempt-1", "c" * 64, True, {"host": name, "boot_id": f"{rank:032x}"}, WHEN)
        for rank, name in enumerate(names)
    )
    gate, rest = (f"fleet-{form}", "attempt-1", WHEN, Profile.STANDARD), (tuple(plan), found, tuple(rows))
    policy = Policy("fleet", (kind[0],), OnWarn.GO, 0.25, lines)
    return Fleet(Report(*gate, declared, "c" * 64, *rest), policy, faulty)


def _texts(check: str) -> tuple[str, ...]:
    return (DRIVER,) if check == "fleet.host" else ()


def _text_rules(check: str) -> tuple[Rule, ...]:
    rule = Rule(DRIVER, SOURCE, Over.CLUSTER, same=True, cause=Cause.CONFIGURATION)
    return (rule,) if check == "fleet.host" else ()


def _rows(
    chance: random.Random, name: str, rank: int, gpus: int, faulty: dict[str, str]
) -> Iterator[Observation]:
    fault = faulty.get(name, "")
    for check, (scope, metrics) in CHECKS.items():
        values = {metric.name: _values(chance, metric, gpus) for metric in metrics}
        _spoil(check, values, fault)
        shown: list[dict[str, Value]]
        if scope is Scope.RANK or gpus == 1:
            shown = [{key: made[gpu] for key, made in values.items()} for gpu in range(gpus)]
        else:
            shown = [{key: tuple(made) for key, made in values.items()}]
        if check == "fleet.host":
            text = "570.1" if fault == "another driver" else "580.95.05"
            shown[0][DRIVER] = (text,) * gpus if gpus > 1 else text
        for place, table in enumerate(shown):
            subject = name if scope is Scope.NODE else rank_subject(name, rank * gpus + place)
            row = _row(check, subject, table)
            if fault == "nothing measured" and check == "fleet.memory":
                row = replace(
                    row, outcome=Outcome.ERRORED, metrics={}, error_kind=ErrorKind.RAISED, reason=RAISED
                )
            yield row


def _row(check: str, subject: str, metrics: dict[str, Value]) -> Observation:
    return Observation(check, subject, Outcome.MEASURED, 12.5, metrics, started_s=3.25)


def _values(chance: random.Random, metric: Metric, gpus: int) -> list[int | float]:
    if not metric.spread:
        return [int(metric.usual)] * gpus
    # Cut at four sigmas: of five thousand healthy nodes none is to look faulty by chance.
    return [metric.usual + metric.spread * max(-4.0, min(4.0, chance.gauss(0.0, 1.0))) for _ in range(gpus)]


def _spoil(check: str, values: dict[str, list[int | float]], fault: str) -> None:
    if fault == "slow GEMM" and check == "fleet.gemm":
        values["bf16_tflops"][-1] *= 0.7
    elif fault == "an ECC error" and check == "fleet.health":
        values["ecc_uncorrected"][-1] = 1
    elif fault == "slow collectives" and check == "fleet.collective":
        for made in values.values():
            made[:] = [value * 0.6 for value in made]


def write(made: Fleet, out: Path) -> None:
    """The report, and beside it its policy and who is faulty."""
    out.write_bytes(dump(made.report))
    policy_of(out).write_bytes(dump_plain(made.policy))
    bad_of(out).write_text(json.dumps(made.bad))


def policy_of(out: Path) -> Path:
    """Where the policy lies."""
    return out.with_name(out.name + ".policy.json")


def bad_of(out: Path) -> Path:
    """Where the names of the faulty nodes lie."""
    return out.with_name(out.name + ".bad.json")


@dataclass(frozen=True)
class Run:
    """One `prelaunch judge`, from the start of Python to its end; `named` are the nodes that its findings are about."""

    seconds: float
    peak_bytes: int
    code: int
    named: frozenset[str]


def judge(out: Path, *more: str) -> Run:
    """Judge a written fleet in a process of its own."""
    argv = (sys.executable, "-m", "flows.cli.main", "judge", str(out), "--policy", str(policy_of(out)))
    with tempfile.TemporaryFile() as said:
        begun = time.perf_counter()
        process = subprocess.Popen(
            (*argv, "--format", "json", *more), stdout=said, stderr=subprocess.DEVNULL, cwd=ROOT
        )
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        verdict = json.load(said)
    named = frozenset(f["subject"].partition("/")[0] for f in verdict["findings"])
    return Run(seconds, used.ru_maxrss * 1024, process.returncode, named)


def measure(form: str, nodes: int, bad: int, folder: Path) -> dict[str, object]:
    """Make one fleet and judge it RUNS times."""
    out = folder / f"{form}-{nodes}.json"
    made = fleet(form, nodes, bad)
    write(made, out)
    runs = [judge(out) for _ in range(RUNS)]
    return {
        "form": form,
        "nodes": nodes,
        "report_bytes": out.stat().st_size,
        "judge_s": round(statistics.median(run.seconds for run in runs), 3),
        "peak_mb": round(max(run.peak_bytes for run in runs) / 1e6),
        "named_exactly": all(run.named == frozenset(made.bad) for run in runs),
        "exit": runs[0].code,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """`make` or `run`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("make", "run"):
        one = verbs.add_parser(verb)
        one.add_argument("--nodes", type=int, default=5000)
        one.add_argument("--bad", type=int, default=5)
        one.add_argument("--form", choices=("values", "full"), default="values" if verb == "make" else None)
        if verb == "make":
            one.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args(argv)
    if asked.verb == "make":
        write(fleet(asked.form, asked.nodes, asked.bad), asked.out)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        forms = [asked.form] if asked.form else ["values", "full"]
        print(json.dumps([measure(form, asked.nodes, asked.bad, Path(folder)) for form in forms], indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
