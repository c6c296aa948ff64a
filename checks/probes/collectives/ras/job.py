"""nccl.job: the ranks of the job that runs on this node, as NCCL's RAS sees them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from checks.check import CheckError, Context, Measurement, check
from checks.model import Part, Scope
from checks.probes.collectives.ras.client import Answer, EndedError, RasError, Reach, address_of, ask
from checks.probes.collectives.ras.progress import METRICS, SILENT_S, followed, measured, nobody, unconfirmed
from checks.probes.collectives.ras.report import ReportError, read

ADDRESS, WHICH = "NCCL_RAS_ADDR", "PRELAUNCH_NCCL_RAS"
NEVER = "never"
# RAS waits 5 s for ranks that do not answer, and 10 s at most.
TIMEOUT_S = 15.0
# Between an answer that was cut and the next question. The job has ended then, or it answers.
AGAIN_S = 0.5
# What is left for the second question about a silent rank; RAS has routed around it by then and answers at once.
QUICK_S = 1.0


def look(context: Context) -> Mapping[str, object]:
    """Asks RAS, and again if a rank is silent that was not so before. Raises CheckError if what listens gives no complete answer."""
    until = time.monotonic() + context.timeout_s - QUICK_S
    if os.environ.get(WHICH, "") == NEVER:
        return nobody(Reach.OFF, time.monotonic())
    try:
        seen = _seen(context.before, until)
        if unconfirmed(seen) and until - time.monotonic() > SILENT_S + QUICK_S:
            time.sleep(SILENT_S)
            seen = _again(seen, until)
    except (RasError, ReportError) as error:
        raise CheckError(f"NCCL's RAS at {os.environ.get(ADDRESS) or 'localhost:28028'}: {error}") from error
    return seen


@check(
    "nccl.job",
    Scope.NODE,
    timeout_s=TIMEOUT_S,
    metrics=METRICS,
    needs="nothing (a job whose NCCL offers RAS)",
    cost="seconds",
    part=Part.GPU,
    before=look,
    beside_job=True,
)
def job(context: Context) -> Measurement:
    """Asks the NCCL of a running job for ranks that do not answer, report errors, or stand still while the others wait for them.

    Only a watch of a node runs it. `answered` is 0 and nothing is named where no job offers RAS. `silent`, `behind` and `failed` say
    in words what is wrong with each of `silent_ranks`, `behind_ranks` and `failed_ranks`, whose only element is "none" otherwise.
    `unchanged_s` is for how long no rank has launched anything.
    """
    return measured(context.look if context.look is not None else look(context))


def _seen(before: Mapping[str, object] | None, until: float) -> dict[str, object]:
    """One look. An answer that ends early is asked for again, because a job that ends does not answer then."""
    address = address_of(os.environ.get(ADDRESS, ""))
    try:
        return _followed(before, ask(address, until))
    except (EndedError, ReportError):
        time.sleep(AGAIN_S)
        return _followed(before, ask(address, until))


def _again(seen: dict[str, object], until: float) -> dict[str, object]:
    """The second look at silent ranks. Without an answer in time the first one counts, and the next round goes on from it."""
    try:
        return _seen(seen, until)
    except (RasError, ReportError):
        return seen


def _followed(before: Mapping[str, object] | None, answer: Answer) -> dict[str, object]:
    if answer.reach is not Reach.ANSWERED:
        return nobody(answer.reach, time.monotonic())
    return followed(before, read(answer.text), time.monotonic())
