"""What a person may ask of one run on a node: larger numbers for some checks, and the results in a line per group.

The groups and their names are those of small acceptance runners, which print [ENV], [COMPUTE], [TRAIN] and [DDP].
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from checks.documents.nearest import nearest
from checks.facts.profile_options import GEMM_ORDER, RAISABLE, options
from checks.model import Observation, Outcome, Profile, Report, Value
from checks.policy import Policy
from checks.value_types import DecodeError

# group -> check -> the metrics that its line shows, in order
GROUPS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "ENV": {
        "system.identity": ("host", "kernel", "python", "torch", "driver"),
        "gpu.inventory": ("gpus_found", "models", "driver", "cuda"),
        "neuron.devices": ("devices_found", "cores"),
    },
    "COMPUTE": {
        "compute.gemm": ("size", "precisions", "sustained_tflops", "tflops", "wrong_elements"),
        "compute.memory_bandwidth": ("copy_gbps", "triad_gbps", "wrong_words"),
    },
    "TRAIN": {
        "training.smoke": ("steps", "loss_first", "loss_last"),
        "training.step": ("steps", "precisions", "tokens_per_s", "loss_ratio"),
    },
    "DDP": {
        **dict.fromkeys(
            ("collective.all_reduce", "nccl.all_reduce", "nccl.intra_node", "nccl.inter_node"),
            ("busbw_peak_gbps", "latency_us", "wrong_elements"),
        ),
        "training.ddp": ("steps", "loss_first", "loss_last", "gradient_error"),
    },
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--option CHECK.NAME=NUMBER and --verbose."""
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="CHECK.NAME=NUMBER",
        help="a larger number for a check, such as training.smoke.steps=200 or compute.gemm.size=16384; several may be given",
    )
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="at the end also print what was measured on stderr: a line for each part of [ENV], [COMPUTE], [TRAIN] and [DDP]",
    )


def with_options(rules: Policy, profile: Profile, given: Iterable[str], gpus: int = 0) -> Policy:
    """The policy with these numbers, on nodes with so many GPUs. Raises DecodeError for what is unknown or does not run there, and for
    less than the profile and the policy measure.
    """
    checks = dict(rules.checks)
    for word in given:
        check, name, number = _read(word)
        line = checks.get(check)
        if line is None:
            raise DecodeError(
                f"the policy {rules.name} has no check {check} for this machine", f"--option {word}"
            )
        order = {"size": GEMM_ORDER["cuda" if gpus else "cpu"]} if check == "compute.gemm" else {}
        least = {**order, **options(check, profile, line.options)}.get(name, 0.0)
        if number < least:
            said = f"the profile {profile.value} measures with {least:.10g}, and less would be less evidence: give that or more"
            raise DecodeError(said, f"--option {word}")
        checks[check] = replace(line, options={**line.options, name: number})
    return replace(rules, checks=checks)


def _read(word: str) -> tuple[str, str, float]:
    left, separator, right = word.partition("=")
    check, _, name = left.rpartition(".")
    try:
        number = float(right)
    except ValueError:
        number = math.nan
    if not separator or not math.isfinite(number):
        raise DecodeError(
            "it is not CHECK.NAME=NUMBER, such as training.smoke.steps=200", f"--option {word:.80}"
        )
    known = [f"{one}.{option}" for one, numbers in RAISABLE.items() for option in numbers]
    if left not in known:
        raise DecodeError(f"it is none of {', '.join(known)}", f"--option {word:.80}", nearest(left, known))
    most = RAISABLE[check][name]
    whole = isinstance(most, int)
    if number > most or (whole and number != int(number)):
        raise DecodeError(
            f"it takes {'whole ' if whole else ''}numbers up to {most:.10g}", f"--option {word:.80}"
        )
    return check, name, number


def lines_of(report: Report) -> list[str]:
    """The report's results by group, a line for each part and check, in the order of the groups."""
    found: list[str] = []
    for group, checks in GROUPS.items():
        for check, metrics in checks.items():
            rows = [row for row in report.observations if row.check == check]
            found += [f"[{group}] {row.subject} {check}: {_said(row, metrics)}" for row in rows]
            skips = [planned.skip for planned in report.plan if planned.check == check and planned.skip]
            found += [f"[{group}] {check}: not run, {skip.value}" for skip in skips]
    return found


def _said(row: Observation, metrics: Sequence[str]) -> str:
    if row.outcome is not Outcome.MEASURED:
        reason = f"{row.skip.value}: {row.reason}" if row.skip else row.reason
        return f"not measured: {' '.join(reason.split())[:200]}"
    shown = [f"{name}={value_text(row.metrics[name])}" for name in metrics if name in row.metrics]
    first, last = row.metrics.get("loss_first"), row.metrics.get("loss_last")
    if isinstance(first, float) and isinstance(last, float):
        shown.append(f"improved={last < first}")
    return " ".join(shown)


def value_text(value: Value | None) -> str:
    """A measured value, short."""
    if isinstance(value, tuple):
        return ",".join(f"{one:.6g}" if isinstance(one, float) else str(one) for one in value)
    return f"{value:.6g}" if isinstance(value, float) else " ".join(str(value).split())[:80]
