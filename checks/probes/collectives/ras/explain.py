"""`prelaunch explain` for what `ncclras` prints: its status in text and JSON, and NCCL's own diagnostics (`ncclras -D`, from 2.31).

One output shows who is silent, and never that a job goes on: RAS says OK in a job that hangs (NCCL issue 1730). Two outputs of one job
that follow one another in the text are compared, as two rounds of a watch are.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from checks.check import Measurement
from checks.explain.reading import Broken, Complete, Kind, NotRecognised, Part, Reading, ReadOptions
from checks.explain.unread_lines import lines_matching, lines_of_json
from checks.model import Value
from checks.probes.collectives.ras import json_report, text_report
from checks.probes.collectives.ras.progress import NOBODY, SAVED, followed, measured
from checks.probes.collectives.ras.report import Place, RasReport, ReportError, operations

ONE = Complete(
    "one output does not show whether the job goes on, and RAS says OK in a job that hangs (NCCL issue 1730). Save two outputs of it, "
    "some seconds apart, one after the other in one file"
)
NO_COUNTS = Complete(
    "the text of RAS has no counts of the ranks that are alike, so that it does not show whether the job goes on. "
    "Use ncclras -f json"
)
STILL = (
    "no rank has launched anything between the two outputs: the job is idle, or it hangs. RAS does not show whether "
    "launched operations end (NCCL issue 1730)"
)
OTHERS = "the outputs have no communicator in common: they are of different jobs"
BACKWARDS = "the last output counts fewer operations than the one before: they are not in their order, or not of one job"
TWICE = "Take two outputs of one job, some seconds apart, one after the other in one file, and look at the job's own log."
REVIEW = "Look at each of these settings and counters by hand, and run nccl-tests or a gate, which move data."
DIAGNOSED = "NCCL's diagnostics compare settings and counters, and move no data: that all results are OK is no proof of health"

_DIAGNOSTICS = re.compile(r"^\S+:\d+ NCCL DIAG (?P<said>.*)$", re.M)
_BEGUN, _ENDED = (
    "=== RAS Diagnostics ===",
    re.compile(r"RAS diagnostics completed in .* across (\d+) RAS peers"),
)
_RESULT = re.compile(r"\[(OK|INFO)\]\s+(\S.*)")


def detect(text: str) -> bool:
    """Whether it is output of ncclras."""
    return json_report.begins(text) or bool(text_report.begins(text)) or _DIAGNOSTICS.search(text) is not None


def read(text: str, asked: ReadOptions) -> Reading:
    """What nccl.job would have measured. Raises NotRecognised, Broken."""
    if not detect(text):
        raise NotRecognised("the text has no table of communicators in the form that ncclras prints")
    if _DIAGNOSTICS.search(text):
        return _diagnostics(text)
    json_form = json_report.begins(text)
    try:
        texts = json_report.texts(text) if json_form else text_report.texts(text)
        found = [json_report.read(one) if json_form else text_report.read(one) for one in texts]
    except ReportError as error:
        raise Broken(str(error)) from error
    last, made = found[-1], _compared(found)
    several = f"{len(found)} outputs" if len(found) > 1 else "one output"
    title = (
        f"ncclras of NCCL {last.version or 'of an unknown version'}, {'JSON' if json_form else 'text'}, {several}: "
        f"{last.ranks} ranks, {last.communicators} communicators"
    )
    left_out = [f"{last.passing} communicators: they are made or taken down at the moment"] * bool(
        last.passing
    )
    part = Part("nccl.job", _metrics(made, len(found) > 1), _lines(text, last, made), made.evidence)
    return Reading(
        Kind.NCCL_RAS,
        title,
        (part,),
        tuple(_doubts(found)),
        left_out=tuple(left_out),
        remedy=TWICE,
        understood=lines_of_json(text) if json_form else text_report.understood(text),
    )


def _compared(found: Sequence[RasReport]) -> Measurement:
    look = followed(None, found[0], 0.0)
    for place, one in enumerate(found[1:], 1):
        look = followed(look, one, float(place))
    return measured(look, SAVED)


def _metrics(made: Measurement, several: bool) -> dict[str, Value]:
    """Without what only a comparison shows, if there is none."""
    names = ["silent", "failed", *(["behind"] if several else [])]
    return {name: made.metrics[name] for each in names for name in (f"{each}_ranks", each)}


def _doubts(found: Sequence[RasReport]) -> Iterator[str]:
    """Why the outputs do not show that the job is healthy."""
    last = found[-1]
    yield from last.unnamed
    if len(found) == 1:
        for lag in last.lags:
            by = operations(lag.by, lag.operation)
            yield f"{lag.place.label} is {'ahead' if lag.ahead else 'behind'} by {by}: a second output shows whether it moves"
        yield ONE
        return
    for before, after in itertools.pairwise(found):
        if before.launched is None or after.launched is None:
            yield NO_COUNTS
        elif not before.names & after.names:
            yield OTHERS
        elif after.launched < before.launched:
            yield BACKWARDS
        elif after.launched == before.launched:
            yield STILL


def _lines(text: str, last: RasReport, made: Measurement) -> dict[str, str]:
    """For each rank that is named, the last line of the text that names its process."""
    lines = text.splitlines()
    places = (
        [one.place for one in last.silent]
        + [one.place for one in last.failed]
        + [one.place for one in last.lags]
    )
    shown = {place.label: _line_of(lines, place) for place in places}
    found = {}
    for name in ("silent", "failed", "behind"):
        labels = made.metrics[f"{name}_ranks"]
        if isinstance(labels, tuple) and labels != (NOBODY,):
            found[name] = "\n".join(shown.get(str(label), "") for label in labels)
    return found


def _line_of(lines: Sequence[str], place: Place) -> str:
    named = re.compile(
        rf'"pid": {place.pid}\b|[Pp]rocess {place.pid} on node |\b[Rr]ank:? {place.rank}\b(?! ranks)'
    )
    exact = re.compile(rf'"pid": {place.pid}\b|[Pp]rocess {place.pid} on node ')
    numbered = [(number, line) for number, line in enumerate(lines, 1) if named.search(line)]
    best = [one for one in numbered if exact.search(one[1])] or numbered
    return f"{best[-1][0]}: {best[-1][1].strip()}" if best else ""


def _diagnostics(text: str) -> Reading:
    """NCCL's own diagnostics: what they ask to be reviewed is for a person, who knows what the machines should have."""
    said = [(text.count("\n", 0, at.start()) + 1, at["said"].strip()) for at in _DIAGNOSTICS.finditer(text)]
    results = [(number, found) for number, line in said if (found := _RESULT.match(line))]
    ended = [found for _, line in said if (found := _ENDED.match(line))]
    if said[0][1] != _BEGUN or not ended or not results:
        raise Broken(
            "the output of ncclras -D is not complete: it has a head, results, and a line that says how long they took"
        )
    reviewed = [f"line {number}: {found[2]}" for number, found in results if found[1] == "INFO"]
    unread = [f"NCCL's diagnostics ask for a review ({line})" for line in reviewed] or [DIAGNOSED]
    title = f"ncclras -D: {len(results)} results, {len(reviewed)} to review, {ended[-1][1]} RAS peers"
    understood = lines_matching(text, _DIAGNOSTICS)
    return Reading(Kind.NCCL_RAS, title, (), tuple(unread), remedy=REVIEW, understood=understood)
