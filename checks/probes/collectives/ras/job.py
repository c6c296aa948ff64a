"""nccl.job: the ranks of the job that runs on this node, as NCCL's RAS sees them: which do not answer, and which stand still while
others wait for them.

A look is plain JSON, so that the next round of a watch can compare with it. `at` is a time of the machine's monotonic clock; "since"
says when a rank was first seen as it still is.

One look proves nothing about progress: counts differ in every busy job, and RAS says OK in a job that hangs (NCCL issue 1730).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping

from checks.check import CheckError, Context, Measurement, check
from checks.model import MachinePart, Scope, Value
from checks.probes.collectives.ras.client import EndedError, RasAnswer, RasError, Reach, address_of, ask
from checks.probes.collectives.ras.report import MOST_NAMED, Lag, RasReport, ReportError, operations, read

ADDRESS, WHICH = "NCCL_RAS_ADDR", "PRELAUNCH_NCCL_RAS"
NEVER = "never"
# RAS waits 5 s for ranks that do not answer, and 10 s at most.
TIMEOUT_S = 15.0
# Between an answer that was cut and the next question. The job has ended then, or it answers.
AGAIN_S = 0.5
# What is left for the second question about a silent rank; RAS has routed around it by then and answers at once.
QUICK_S = 1.0
# A job's processes end within seconds of each other, and a collective operation is launched within milliseconds by all ranks: who
# is still as it was after so long is not just a little later than the others. Judgement: a hang is found within two rounds of 15 s.
SILENT_S, STILL_S = 3.0, 8.0
NOBODY = "none"
METRICS = (
    "answered", "ranks", "communicators", "silent_ranks", "silent", "behind_ranks", "behind", "failed_ranks", "failed", "unchanged_s",
)  # fmt: skip

RasState = Mapping[str, object]
Entries = Mapping[str, Mapping[str, object]]


def snapshot(context: Context) -> Mapping[str, object]:
    """Asks RAS, and again if a rank is silent that was not so before. Raises CheckError if what listens gives no complete answer."""
    until = time.monotonic() + context.timeout_s - QUICK_S
    if os.environ.get(WHICH, "") == NEVER:
        return nobody(Reach.OFF, time.monotonic())
    try:
        snapshot = _snapshot(context.before, until)
        if unconfirmed(snapshot) and until - time.monotonic() > SILENT_S + QUICK_S:
            time.sleep(SILENT_S)
            snapshot = _again(snapshot, until)
    except (RasError, ReportError) as error:
        raise CheckError(f"NCCL's RAS at {os.environ.get(ADDRESS) or 'localhost:28028'}: {error}") from error
    return snapshot


@check(
    "nccl.job",
    Scope.NODE,
    timeout_s=TIMEOUT_S,
    metrics=METRICS,
    needs="nothing (a job whose NCCL offers RAS)",
    cost="seconds",
    part=MachinePart.GPU,
    before=snapshot,
    beside_job=True,
)
def job(context: Context) -> Measurement:
    """Asks the NCCL of a running job for ranks that do not answer, report errors, or stand still while the others wait for them.

    Only a watch of a node runs it. `answered` is 0 and nothing is named where no job offers RAS. `silent`, `behind` and `failed` say
    in words what is wrong with each of `silent_ranks`, `behind_ranks` and `failed_ranks`, whose only element is "none" otherwise.
    `unchanged_s` is for how long no rank has launched anything.
    """
    return measured(context.current if context.current is not None else snapshot(context))


def _snapshot(before: Mapping[str, object] | None, until: float) -> dict[str, object]:
    """One look. An answer that ends early is asked for again, because a job that ends does not answer then."""
    address = address_of(os.environ.get(ADDRESS, ""))
    try:
        return _followed(before, ask(address, until))
    except (EndedError, ReportError):
        time.sleep(AGAIN_S)
        return _followed(before, ask(address, until))


def _again(first: dict[str, object], until: float) -> dict[str, object]:
    """The second look at silent ranks. Without an answer in time the first one counts, and the next round goes on from it."""
    try:
        return _snapshot(first, until)
    except (RasError, ReportError):
        return first


def _followed(before: Mapping[str, object] | None, answer: RasAnswer) -> dict[str, object]:
    if answer.reach is not Reach.JOB:
        return nobody(answer.reach, time.monotonic())
    return followed(before, read(answer.text), time.monotonic())


def nobody(reach: Reach, at: float) -> dict[str, object]:
    """The look at a node on which no job was asked."""
    return {"at": at, "reach": reach.value, "silent": {}, "lags": {}}


def followed(before: RasState | None, report: RasReport, at: float) -> dict[str, object]:
    """The returned look holds what was found now. What the look before already had keeps the time since when it is so."""
    was = before or {}
    lags = _entries(was, "lags")
    still_launched = was.get("launched") == report.launched
    return {
        "at": at,
        "reach": Reach.JOB.value,
        "version": report.version,
        "ranks": report.ranks,
        "communicators": report.communicators,
        "passing": report.passing,
        "launched": report.launched,
        "launched_since": _number(was, "launched_since", at) if still_launched else at,
        "silent": {
            label: {"dead": dead, "since": _since(_entries(was, "silent"), label, at)}
            for label, dead in report.silent.items()
        },
        "lags": {
            key: {**vars(lag), "since": _since(lags, key, at), "again": key in lags}
            for key, lag in ((_key(lag), lag) for lag in report.lags)
        },
        "failed": dict(report.failed),
    }


def unconfirmed(state: RasState) -> bool:
    """Whether a rank is silent of which it is not known yet whether it stays so."""
    at = _number(state, "at", 0.0)
    return any(not _is_lost(entry, at) for entry in _entries(state, "silent").values())


def measured(state: RasState) -> Measurement:
    """What the look shows. The lists hold one text "none" and one empty text where no rank is to be named."""
    at = _number(state, "at", 0.0)
    silent = {
        label: f"does not answer{' and is considered dead' if entry.get('dead') else ''}"
        for label, entry in _entries(state, "silent").items()
        if _is_lost(entry, at)
    }
    behind_ranks = dict(_lagging(state, at))
    errors = state.get("failed", {})
    failed = {
        str(label): f"reports NCCL's error {error!r}"
        for label, error in (errors.items() if isinstance(errors, Mapping) else ())
    }
    metrics: dict[str, Value] = {
        "answered": int(state.get("reach") == Reach.JOB.value),
        "ranks": int(_number(state, "ranks", 0)),
        "communicators": int(_number(state, "communicators", 0)),
        "unchanged_s": round(at - _number(state, "launched_since", at), 1),
        **_listed("silent", silent),
        **_listed("behind", behind_ranks),
        **_listed("failed", failed),
    }
    return Measurement(metrics, "\n".join(_evidence(state, at)))


def _lagging(state: RasState, at: float) -> Iterator[tuple[str, str]]:
    """Each rank that stands still, by its label, with the operation in which it is farthest from the others."""
    lags = sorted(_entries(state, "lags").values(), key=lambda entry: -_number(entry, "by", 0))
    labels = set()
    for entry in lags:
        still_s, label = at - _number(entry, "since", at), str(entry.get("label"))
        if label in labels or not entry.get("again") or still_s < STILL_S:
            continue
        labels.add(label)
        still = ", and none of them has moved" if entry.get("ahead") else " and has not moved"
        others = " of the other ranks" if entry.get("ahead") else " the other ranks"
        yield label, f"is {_distance(entry, others)}{still} for {still_s:.0f} s"


def _distance(lag: Mapping[str, object], others: str = "") -> str:
    by = operations(int(_number(lag, "by", 0)), str(lag.get("operation")))
    return f"{'ahead' if lag.get('ahead') else 'behind'}{others} by {by}"


NO_JOB = {
    Reach.NOBODY: "no job on this node offers NCCL's RAS (nothing listens at its address)",
    Reach.OFF: "PRELAUNCH_NCCL_RAS is never: no job is asked",
    Reach.OTHER: "another program uses the port of NCCL's RAS: nothing is known of a job",
    Reach.OLD: "a job offers the RAS of NCCL before 2.29.2, which is not asked, because asking it has ended jobs (NCCL issue 1762)",
}


def _evidence(state: RasState, at: float) -> Iterator[str]:
    reach = Reach(str(state.get("reach")))
    if reach is not Reach.JOB:
        yield NO_JOB[reach]
        return
    yield (
        f"NCCL {state.get('version')}: {state.get('ranks')} ranks, {state.get('communicators')} communicators, of which "
        f"{state.get('passing')} are made or taken down at the moment"
    )
    unchanged_s = at - _number(state, "launched_since", at)
    if unchanged_s > 0:
        yield (
            f"no rank has launched anything for {unchanged_s:.0f} s: the job is idle, or it hangs. RAS does not show whether "
            "launched operations end (NCCL issue 1730)"
        )
    for entry in _entries(state, "lags").values():
        yield f"{entry.get('label')}: {_distance(entry)} in communicator {entry.get('communicator')}"


def _key(lag: Lag) -> str:
    """Equal in two looks if the rank stands apart in the same operation and has launched nothing since, or if it is ahead, none of
    those that it is compared with.
    """
    return f"{lag.communicator}|{lag.operation}|{lag.label}|{lag.ahead:d}|{lag.launched}|{lag.others if lag.ahead else ''}"


def _since(before: Entries, key: str, at: float) -> float:
    return _number(before[key], "since", at) if key in before else at


def _is_lost(entry: Mapping[str, object], at: float) -> bool:
    return bool(entry.get("dead")) or at - _number(entry, "since", at) >= SILENT_S


def _listed(name: str, texts: Mapping[str, str]) -> dict[str, Value]:
    if not texts:
        return {f"{name}_ranks": (NOBODY,), name: ("",)}
    labels, text = [*texts][:MOST_NAMED], [*texts.values()][:MOST_NAMED]
    if len(texts) > MOST_NAMED:
        more = len(texts) - MOST_NAMED
        labels.append("other ranks")
        text.append(f"are like these: {more:,} more")
    return {f"{name}_ranks": tuple(labels), name: tuple(text)}


def _entries(state: RasState, name: str) -> Entries:
    value = state.get(name)
    if not isinstance(value, Mapping):
        return {}
    return {str(key): entry for key, entry in value.items() if isinstance(entry, Mapping)}


def _number(values: Mapping[str, object], name: str, otherwise: float) -> float:
    number = values.get(name)
    return float(number) if isinstance(number, (int, float)) and not isinstance(number, bool) else otherwise
