"""After a collective that broke off: whom the others waited for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import pytest

from checks.judge.culprits.silent_ranks import judge
from checks.model import CLUSTER, Answer, Cause, ErrorKind, Finding, Level, Observation, Outcome, Report
from checks.policy import CheckPolicy
from tests.sample_reports import POLICY, healthy, verdict_of, wrong_sums
from tests.sample_reports import without_node as node_taken

REDUCE, DDP, GEMM = "collective.all_reduce", "training.ddp", "compute.gemm"
# As torch 2.13 said it, of a rank that was stopped and of one that was killed.
TIMED_OUT = (
    "it raised RuntimeError: [/__w/pytorch/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 4800ms for "
    "recv operation to complete"
)
RESET = (
    "it raised RuntimeError: [/__w/pytorch/gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:36007: "
    "Connection reset by peer. This is typically caused by a remote worker hanging"
)
WAITED = f"waited for it in {REDUCE}"
LOST = f"not run: the process group was lost in {REDUCE}"
DEADLINE = "its deadline of 8 s passed"
OOM = "it raised OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
KINDS = {
    "not run": ErrorKind.NOT_RUN,
    "not reached": ErrorKind.NOT_REACHED,
    "its deadline": ErrorKind.DEADLINE,
}


def rank(report: Report, number: int) -> str:
    """The subject of a rank."""
    return f"node-{number // report.declared.ranks_per_node}/rank-{number}"


def errored(row: Observation, reason: str) -> Observation:
    """The row of a check that has no result for this reason."""
    kind = next((kind for start, kind in KINDS.items() if reason.startswith(start)), ErrorKind.RAISED)
    return replace(row, outcome=Outcome.ERRORED, reason=reason, metrics={}, error_kind=kind)


def broken(report: Report, check: str, gone: set[int], why: Mapping[int, str] | str = TIMED_OUT) -> Report:
    """Ranks `gone` wrote nothing of the check and of what came later; the others say why they have no result.

    With a mapping only the ranks in it have none.
    """
    group = (REDUCE, DDP)
    later = group[group.index(check) :] if check in group else (check, *group)
    names = {rank(report, number): number for number in range(report.declared.ranks)}

    def change(row: Observation) -> Observation | None:
        number = names.get(row.subject)
        if number is None or row.check not in later:
            return row
        if number in gone:
            return None
        if row.check not in group:
            return row
        said = why if isinstance(why, str) else why.get(number)
        if said is None:
            return row
        return errored(row, said if row.check == next(name for name in later if name in group) else LOST)

    rows = (change(row) for row in report.observations)
    return replace(report, observations=tuple(row for row in rows if row is not None))


def found(report: Report) -> list[Finding]:
    """What is said of suspects."""
    return [one.finding for one in judge(report, POLICY)]


@pytest.mark.parametrize("why", [TIMED_OUT, RESET, DEADLINE])
def test_the_rank_that_said_nothing_is_the_suspect(why: str) -> None:
    """Frozen or killed, over gloo or NCCL: whoever waited says so, and it is no word against the machine."""
    report = broken(healthy(2, 8), REDUCE, {13}, why)
    first = verdict_of(report).findings[0]

    assert found(report) == [first]
    assert (first.level, first.cause, first.check, first.subject) == (
        Level.FAIL, Cause.EVIDENCE, REDUCE, "node-1/rank-13",
    )  # fmt: skip
    assert first.is_predicate and first.message == f"did not report; 15 other ranks waited for it in {REDUCE}"
    assert "node-0/rank-0 and 14 more: " in first.evidence
    assert "/__w/" not in first.evidence
    assert verdict_of(report).condemned == ()
    assert verdict_of(report).answer is Answer.CANNOT_TELL


NO_GROUP = "not run: the process group could not be formed: wait timeout"
NOT_BEGUN = "not reached: the rank checks never began: torchrun ended with exit code 1"
ALL = dict.fromkeys(range(8), TIMED_OUT)


@pytest.mark.parametrize(
    ("report", "suspects"),
    [
        # It froze alone, and the others met without it: named with the check that it never ended.
        (broken(healthy(2, 2), GEMM, {0}, NO_GROUP), [(GEMM, "node-0/rank-0", f"did not report; 3 other ranks {WAITED}")]),
        # The runner's word, where torchrun ended before any rank began, is no word of the rank.
        (
            broken(healthy(2, 2), REDUCE, set(), {0: TIMED_OUT, 1: TIMED_OUT, 2: NOT_BEGUN, 3: NOT_BEGUN}),
            [(REDUCE, "node-1", f"none of the 2 ranks on node-1 reported; 2 other ranks {WAITED} ({NOT_BEGUN})")],
        ),
        # The launcher knew no names: what the peers looked for names the node.
        (
            broken(node_taken(healthy(4, 2, named=False), "node-2"), REDUCE, set()),
            [(REDUCE, "node-2", f"left no report; 6 other ranks {WAITED}")],
        ),
        (
            broken(node_taken(healthy(4, 2), "node-2"), REDUCE, set()),
            [(REDUCE, "node-2", f"left no report; 6 other ranks {WAITED}")],
        ),
        # Rank 7 reported in time: it is no suspect, though it waited for nobody.
        (
            broken(healthy(2, 4), REDUCE, {5}, dict.fromkeys((0, 1, 2, 3, 4, 6), TIMED_OUT)),
            [(REDUCE, "node-1/rank-5", f"did not report; 6 other ranks {WAITED}")],
        ),
        # What befell three ranks at once befell their node.
        (
            broken(healthy(2, 8), REDUCE, {8, 9, 12}),
            [(REDUCE, "node-1", f"ranks 8, 9, 12 on node-1 did not report; 13 other ranks {WAITED}")],
        ),
        # As many nodes as max_unfit_fraction allows.
        (
            broken(healthy(8, 2), REDUCE, {3, 14}),
            [(REDUCE, f"node-{one}", f"did not report; 14 other ranks {WAITED}") for one in ("1/rank-3", "7/rank-14")],
        ),
        # Out of memory on one rank leaves all others waiting.
        (
            broken(healthy(2, 4), REDUCE, set(), {**ALL, 6: OOM}),
            [(REDUCE, "node-1/rank-6", f"ended with an error of its own; 7 other ranks {WAITED}")],
        ),
        # gloo gives up before the check's own deadline: who is there after it was in no collective.
        (
            broken(healthy(2, 4), REDUCE, set(), {**ALL, 2: DEADLINE}),
            [(REDUCE, "node-0/rank-2", f"was still busy at its deadline; 7 other ranks {WAITED}")],
        ),
        # What half of the ranks say is what they share.
        (broken(healthy(4, 2), REDUCE, set(), {**ALL, **dict.fromkeys((1, 3, 5, 7), OOM)}), []),
        # Nobody waits after the last check.
        (broken(healthy(2, 4), DDP, {7}, {}), [(DDP, "node-1/rank-7", f"did not report in {DDP}")]),
        (healthy(2, 2), []),
        (healthy(1, 1), []),
    ],
)  # fmt: skip
def test_broken_collective_names_its_silent_ranks_as_suspects(
    report: Report, suspects: list[tuple[str, str, str]]
) -> None:
    """Of a silence, of an error of one's own, and of neither."""
    assert suspects == [(one.check, one.subject, one.message) for one in found(report)]


@pytest.mark.parametrize(
    ("nodes", "ranks", "gone"), [(4, 2, {1, 3}), (1, 8, {1, 2, 3}), (2, 2, {0, 1, 2, 3})]
)
def test_too_many_are_no_ranks(nodes: int, ranks: int, gone: set[int]) -> None:
    """Something that they share; nobody is named."""
    (finding,) = found(broken(healthy(nodes, ranks), REDUCE, gone))

    many = f"{len(gone)} of {nodes * ranks} ranks did not report"
    assert finding.subject == CLUSTER
    assert finding.message == f"{many}: too many to suspect a single rank"


@pytest.mark.parametrize("why", [TIMED_OUT, OOM, DEADLINE, "it returned a str, not a Measurement"])
def test_ranks_that_all_report_the_same_error_name_no_suspect(why: str) -> None:
    """A bug, or a deadline that is too short; however many a policy would let be named."""
    report = broken(healthy(2, 4), REDUCE, set(), why)

    assert judge(report, replace(POLICY, max_unfit_fraction=1.0)) == ()


def test_silent_rank_in_an_optional_check_is_a_warning() -> None:
    """What is lost there can be no worse."""
    lines = {**POLICY.checks, REDUCE: CheckPolicy(required=False, min_ranks=2)}
    (one,) = judge(broken(healthy(2, 4), REDUCE, {5}), replace(POLICY, checks=lines))

    assert one.finding.level is Level.WARN


def test_the_check_that_went_on_without_it_is_the_one_it_never_ended() -> None:
    """It died in the first group check, whose others measured; they waited in the second."""
    went_on = broken(healthy(2, 4), REDUCE, {7}, {})
    rows = tuple(errored(r, RESET) if r.check == DDP else r for r in went_on.observations)
    (finding,) = found(replace(went_on, observations=rows))

    assert (finding.check, finding.message) == (
        REDUCE, f"did not report; 7 other ranks waited for it in {DDP}",
    )  # fmt: skip


def test_measured_defect_is_listed_before_a_silent_rank() -> None:
    """A measured defect is known; a silence is not. Among what is unknown the suspect is the first."""
    report = wrong_sums(broken(healthy(4, 2), DDP, {7}), "node-1/rank-3")
    report = replace(report, nodes=tuple(replace(n, complete=n.rank != 3) for n in report.nodes))
    findings = [f for f in verdict_of(report).findings if f.level is Level.FAIL]

    assert findings[0].cause is Cause.HARDWARE
    unknown = [f for f in findings if f.cause is Cause.EVIDENCE]
    assert (unknown[0].subject, unknown[0].check) == ("node-3/rank-7", DDP)
    assert "report" in [f.check for f in unknown]


ENDED = (
    RESET,
    TIMED_OUT,
    "it raised DistStoreError: wait timeout after 4800ms, keys: /again/collective.all_reduce/",
    "it raised DistNetworkError: failed to recv, got 0 bytes. Connection was likely closed",
    "it raised DistBackendError: NCCL error, remote process exited or there was a network error",
)


@pytest.mark.parametrize(("number", "count"), [(0, 1), (3, 5)])
def test_the_errors_of_ranks_that_waited_follow_from_the_one_that_is_silent(number: int, count: int) -> None:
    """Each rank prints its own addresses: the page has one finding for all of them, and each stays in the verdict."""
    report = healthy()
    others = [other for other in range(report.declared.ranks) if other != number]
    why = {other: f"{ENDED[at % count]} (of {at})" for at, other in enumerate(others)}

    verdict = verdict_of(broken(report, REDUCE, {number}, why))

    waited = [f for f in verdict.findings if f.check == REDUCE and f.subject != rank(report, number)]
    assert Answer.CANNOT_TELL is verdict.answer
    assert len(waited) == len(others)
    assert {finding.follows for finding in waited} == {rank(report, number)}
    assert not verdict.findings[0].follows


def test_two_silent_ranks_of_two_nodes_explain_no_other_finding() -> None:
    verdict = verdict_of(broken(healthy(), REDUCE, {1, 3}))

    assert {finding.follows for finding in verdict.findings} == {""}


@pytest.mark.parametrize("text", ["Work", "["])
def test_a_long_reason_takes_no_long_time(text: str) -> None:
    """A node's report may have a megabyte."""
    long = text * (60_000 // len(text))
    report = broken(healthy(), REDUCE, set(), {0: DEADLINE + long, 3: long})
    begun = time.process_time()

    assert Answer.CANNOT_TELL is verdict_of(report).answer
    assert time.process_time() - begun < 0.3
