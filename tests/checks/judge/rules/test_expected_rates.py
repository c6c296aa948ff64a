"""`prelaunch explain` holds an output of nccl-tests to what such machines reached: captured rates, and parts of them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from checks.explain.reading import ReadOptions
from checks.model import Answer, Cause, Level
from checks.probes.collectives.nccl_tests import read
from tasks.reports.explained_input import ExplainedInput, explain_text, explanation_text
from tests.corpus.case import declared
from tests.public.inputs import all_reduce

P5, P4DE, MIB = "p5.48xlarge", "p4de.24xlarge", 1 << 20
TWO = ("node-a", "node-b")


def from_size(first: int, *rates: float) -> dict[int, float]:
    """Rates by size: each size is twice the one before it."""
    return {first << at: rate for at, rate in enumerate(rates)}


# Algorithm bandwidths out of place (10^9 bytes/s), by size in MiB. AWS's nccl-tests README: 2 x p5 and 2 x p4de over EFA,
# and (aws-batch) 1 x p5; SuperBench's nccl_allreduce.log: 8 x A100.
P5_TWO = from_size(128, 154.22, 182.83, 209.78, 233.04, 236.65, 248.46, 255.62, 259.78)
P5_ONE = from_size(128, 226.39, 239.38, 247.94, 252.47, 253.73, 271.98, 274.53, 276.03)
P4DE_TWO = from_size(64, 25.38, 34.30, 37.27, 39.62, 40.96, 41.78)
A100_ONE = from_size(64, 114.81, 115.49, 127.09, 127.82, 131.59, 132.44, 133.92, 134.44)


def explained(rates: Mapping[int, float], kind: str, nodes: int, part: float = 1.0) -> ExplainedInput:
    text = all_reduce(hosts=TWO[:nodes], rates={size * MIB: rate * part for size, rate in rates.items()})
    return explain_text("-", "input", text.encode(), None, None, ReadOptions(declared(kind, nodes)))


@pytest.mark.parametrize(
    ("rates", "kind", "nodes"),
    [
        (P5_TWO, P5, 2),
        (P5_ONE, P5, 1),
        (P4DE_TWO, P4DE, 2),
        (A100_ONE, P4DE, 1),
        (A100_ONE, "p4d.24xlarge", 1),
    ],
)
def test_captured_healthy_runs_are_a_go(rates: Mapping[int, float], kind: str, nodes: int) -> None:
    """Public runs of sound machines."""
    verdict = explained(rates, kind, nodes).verdict

    assert (Answer.GO, Level.PASS) == (verdict.answer, verdict.level), verdict.findings


@pytest.mark.parametrize(("rates", "kind", "nodes"), [(P5_TWO, P5, 2), (P5_ONE, P5, 1), (P4DE_TWO, P4DE, 2)])
def test_half_of_a_captured_rate_is_a_no_go(rates: Mapping[int, float], kind: str, nodes: int) -> None:
    """Results right, footer OK, exit code 0, and more than any floor for all types: half of the network is gone."""
    verdict = explained(rates, kind, nodes, 0.5).verdict
    (found,) = [finding for finding in verdict.findings if finding.check == "nccl.tests"]

    assert Answer.NO_GO is verdict.answer
    assert (Level.FAIL, Cause.CONFIGURATION) == (found.level, found.cause)
    assert "50 % of the expected value" in found.message


def test_the_finding_rests_on_its_row() -> None:
    """The line of the worst size, with its number."""
    halved = {**P5_TWO, 1024: P5_TWO[1024] / 2}
    verdict = explained(halved, P5, 2).verdict
    (found,) = verdict.findings

    assert "all_reduce 1073741824 B, 16 ranks" in found.message
    assert [str(MIB * 1024)] == [line.split()[1] for line in found.evidence.splitlines()]


def test_without_a_declaration_the_rate_is_not_judged_and_that_is_said() -> None:
    """434 is a p5's all_reduce, and no other machine's."""
    text = all_reduce(rates={size * MIB: rate / 2 for size, rate in P5_ONE.items()})
    judged = explain_text("-", "input", text.encode(), None, None, ReadOptions())

    assert Answer.CANNOT_TELL is judged.verdict.answer
    assert ["bandwidth" in finding.message for finding in judged.verdict.findings] == [True]
    first = "CANNOT TELL input: all_reduce, 8 ranks, 241.5 GB/s; no --instance-type"
    assert first == explanation_text(judged).splitlines()[0]
    assert "nccl.tests busbw_gbps: not judged without --instance-type" in judged.left_out


def unnamed(collective: str, rate: float, above: str = "") -> ExplainedInput:
    """8 x H100, whose output does not name its collective, at one rate (10^9 bytes/s of algorithm bandwidth)."""
    sizes = {size * MIB: rate for size in (128, 256, 512, 1024)}
    text = above + all_reduce(rates=sizes, collective=collective)
    return explain_text("-", "input", text.encode(), None, None, ReadOptions(declared(P5, 1)))


@pytest.mark.parametrize("collective", ["all_gather", "alltoall", "sendrecv", "broadcast"])
def test_a_collective_that_its_numbers_do_not_name_is_not_told(collective: str) -> None:
    """Several have the same factor; the remedy is the command line. What no collective over NVLink does is a no-go."""
    fine, slow = (unnamed(collective, rate).verdict for rate in (350.0, 1.2))

    assert (Answer.CANNOT_TELL, Answer.NO_GO) == (fine.answer, slow.answer)
    assert "Include the command" in " ".join(finding.message for finding in fine.findings)


@pytest.mark.parametrize("collective", ["all_reduce", "reduce_scatter"])
def test_a_collective_that_its_numbers_name_is_held_to_its_rate(collective: str) -> None:
    """A factor above 1 is all_reduce's alone, an operator with one below 1 reduce_scatter's."""
    verdict = unnamed(collective, 1.2).verdict

    assert Answer.NO_GO is verdict.answer
    assert any(f"{collective} 1073741824 B" in finding.message for finding in verdict.findings)


@pytest.mark.parametrize("collective", ["all_gather", "alltoall", "sendrecv", "broadcast"])
def test_the_command_line_above_names_the_collective(collective: str) -> None:
    """Slow is refused, a healthy rate is let through with at most the word that nobody published it."""
    above = f"$ mpirun -np 8 /opt/nccl-tests/build/{collective}_perf -b 128M -e 1G -f 2 -g 1\n"
    slow, fine = (unnamed(collective, rate, above).verdict for rate in (1.2, 350.0))

    assert (Answer.NO_GO, Answer.GO) == (slow.answer, fine.answer), fine.findings
    assert all("no baseline" in finding.message for finding in fine.findings)


def test_two_commands_name_two_runs() -> None:
    """Each stands above its own output."""
    sizes = {size * MIB: 350.0 for size in (128, 256)}
    runs = [
        f"$ ./{name}_perf -g 8\n{all_reduce(rates=sizes, collective=name)}"
        for name in ("all_gather", "sendrecv")
    ]

    assert ["all_gather_perf", "sendrecv_perf"] == [run.program for run in read("".join(runs))]
