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
    text = "a larger number for a check, such as training.smoke.steps=200 or compute.gemm.size=16384; several may be given"
    parser.add_argument("--option", action="append", default=[], metavar="CHECK.NAME=NUMBER", help=text)
    text = "at the end also print what was measured on stderr: a line for each part of [ENV], [COMPUTE], [TRAIN] and [DDP]"
    parser.add_argument("--verbose", action="store_true", help=text)


def with_options(rules: Policy, profile: Profile, options_given: Iterable[str], gpus: int = 0) -> Policy:
    """The policy with these numbers, on nodes with so many GPUs. Raises DecodeError for what is unknown or does not run there, and for
    less than the profile and the policy measure.
    """
    checks = dict(rules.checks)
    for option in options_given:
        check, name, number = _read(option)
        line = checks.get(check)
        if line is None:
            raise DecodeError(
                f"the policy {rules.name} has no check {check} for this machine", f"--option {option}"
            )
        orders = {"compute.gemm": {"size": GEMM_ORDER["cuda" if gpus else "cpu"]}}
        least = {**orders.get(check, {}), **options(check, profile, line.options)}.get(name, 0.0)
        if number < least:
            message = f"the profile {profile.value} measures with {least:.10g}, and less would be less evidence: give that or more"
            raise DecodeError(message, f"--option {option}")
        checks[check] = replace(line, options={**line.options, name: number})
    return replace(rules, checks=checks)


def _read(option: str) -> tuple[str, str, float]:
    left, separator, right = option.partition("=")
    check, _, name = left.rpartition(".")
    try:
        number = float(right)
    except ValueError:
        number = math.nan
    if not separator or not math.isfinite(number):
        raise DecodeError(
            "it is not CHECK.NAME=NUMBER, such as training.smoke.steps=200", f"--option {option:.80}"
        )
    names = [f"{owner}.{number_name}" for owner, numbers in RAISABLE.items() for number_name in numbers]
    if left not in names:
        raise DecodeError(f"it is none of {', '.join(names)}", f"--option {option:.80}", nearest(left, names))
    most = RAISABLE[check][name]
    whole = isinstance(most, int)
    if number > most or (whole and number != int(number)):
        raise DecodeError(
            f"it takes {'whole ' if whole else ''}numbers up to {most:.10g}", f"--option {option:.80}"
        )
    return check, name, number


def lines_of(report: Report) -> list[str]:
    """The report's results by group, a line for each part and check, in the order of the groups."""
    lines: list[str] = []
    for group, checks in GROUPS.items():
        for check, metrics in checks.items():
            results = [measured for measured in report.observations if measured.check == check]
            lines += [
                f"[{group}] {measured.subject} {check}: {_metrics_text(measured, metrics)}"
                for measured in results
            ]
            skips = [planned.skip for planned in report.plan if planned.check == check and planned.skip]
            lines += [f"[{group}] {check}: not run, {skip.value}" for skip in skips]
    return lines


def _metrics_text(measured: Observation, metrics: Sequence[str]) -> str:
    if measured.outcome is not Outcome.MEASURED:
        reason = f"{measured.skip.value}: {measured.reason}" if measured.skip else measured.reason
        return f"not measured: {' '.join(reason.split())[:200]}"
    texts = [f"{name}={value_text(measured.metrics[name])}" for name in metrics if name in measured.metrics]
    first, last = measured.metrics.get("loss_first"), measured.metrics.get("loss_last")
    if isinstance(first, float) and isinstance(last, float):
        texts.append(f"improved={last < first}")
    return " ".join(texts)


def value_text(value: Value | None) -> str:
    """A measured value, short."""
    if isinstance(value, tuple):
        return ",".join(f"{item:.6g}" if isinstance(item, float) else str(item) for item in value)
    return f"{value:.6g}" if isinstance(value, float) else " ".join(str(value).split())[:80]
