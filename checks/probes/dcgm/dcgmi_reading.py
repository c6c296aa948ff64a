"""Reads what dcgmi printed: diag (JSON and table), health -c and policy --get (JSON)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from checks.explain.reading import CheckData, Garbled, OutputKind, Reading, ReadOptions
from checks.explain.unread_lines import lines_matching, lines_of_json
from checks.probes.dcgm import diag, diag_json, diag_text, health, policy
from checks.probes.dcgm.diagnosis import DcgmStatus, Diagnosis, Problem, Result, meaning_of, problems_of
from checks.probes.dcgm.error_table import dcgm_facts

# The texts must be where dcgmi itself prints them: a text that only mentions dcgmi is not its output.
_JSON_ROOT = re.compile(rf'"(?:{diag_json.ROOT_4}|{diag_json.ROOT_3})"\s*:')
_MESSAGE = re.compile(
    r"^\s*(?:Successfully ran diagnostic for group|(?:Error: )?Health watches not enabled"
    r"|Error: Unable to run diagnostic)",
    re.MULTILINE,
)
_AROUND_POLICY = re.compile(r"Policy information$|\*+ Non-homogenous settings across group\.")
_PHRASES = ("Successfully ran", "Health watches", "Error: Unable")
_ENGINE = re.compile(
    r"^Error: .*(?:host engine|connection to the specified host|homogeneous group)", re.MULTILINE
)


def detect(text: str) -> bool:
    """Whether this is output of dcgmi. Plain strings are searched first, because a regular expression takes seconds for 30 MB."""
    return bool(
        ('"DCGM' in text and _JSON_ROOT.search(text))
        or _titled(health.TITLE, text)
        or _titled(policy.TITLE, text)
        or (any(phrase in text for phrase in _PHRASES) and _MESSAGE.search(text))
        or ("Diagnostic" in text and diag_text.HEADER.search(text))
        or ("Error: " in text and _ENGINE.search(text))
    )


def _titled(title: str, text: str) -> bool:
    """Whether a table's row or a JSON list begins with the title, or a line consists of it."""
    if title not in text:
        return False
    form = rf'^\s*(?:\|\s*)?{title}\s*(?:\||$)|(?:\[|^)\s*"{title}"\s*(?:,|\]|$)'
    return re.search(form, text, re.MULTILINE) is not None


def read(text: str, options: ReadOptions) -> Reading:
    """The reading. Raises Garbled, CheckError."""
    if _titled(health.TITLE, text):
        return _health(text, options)
    if _titled(policy.TITLE, text):
        return _policy(text)
    if _JSON_ROOT.search(text):
        return _diag(text, diag_json.parse(text), options)
    if diag_text.HEADER.search(text):
        return _diag(text, diag_text.parse(text), options)
    raise Garbled(f"dcgmi gave no result: {' '.join(text.split())[:300]}")


def level_of(diagnosis: Diagnosis) -> int:
    """The highest level of which a test ran; dcgmi does not print the requested level."""
    tested = {result.test for result in diagnosis.results}
    return max([1, *(int(n) for n, tests in dcgm_facts().levels.items() if tested & set(tests))])


def _diag(text: str, diagnosis: Diagnosis, options: ReadOptions) -> Reading:
    level = level_of(diagnosis)
    declared = options.declared.gpus_per_node if options.declared and diagnosis.gpus else None
    unread = [diagnosis.broken] if diagnosis.broken else []
    if options.declared and declared is None:
        unread.append("the output names no GPU, so the number of tested GPUs is unknown")
    metrics = diag.metrics_of(diagnosis, level, diagnosis.gpus, declared)
    lines = _diag_lines(text.splitlines(), diagnosis)
    plural = "" if len(diagnosis.gpus) == 1 else "s"
    title = (
        f"dcgmi diag of DCGM {diagnosis.version}, {len(diagnosis.gpus)} GPU{plural}, {diagnosis.form}, "
        f"level {level} as far as its tests tell"
    )
    result = CheckData("dcgm.diag", metrics, lines, diag.account(diagnosis))
    brief = "" if declared or not diagnosis.gpus else f"{len(diagnosis.gpus)} GPU{plural} (number not judged)"
    understood = (diagnosis.lines or lines_of_json(text)) | lines_matching(text, _MESSAGE)
    return Reading(OutputKind.DCGMI, title, (result,), tuple(unread), understood=understood, brief=brief)


def _diag_lines(text: list[str], diagnosis: Diagnosis) -> dict[str, str]:
    """The lines that each metric comes from: the status, and the message under it."""
    numbers_of: dict[str, list[int]] = {}
    for result in diagnosis.results:
        at = [result.line] if result.line else []
        for meaning, _ in problems_of(result):
            numbers_of.setdefault(meaning.value, []).extend(at)
        for problem in result.problems:
            name = meaning_of(problem, result).value
            numbers_of.setdefault(name, []).extend(_message_lines(text, problem, result))
        if result.status in (DcgmStatus.SKIP, DcgmStatus.NOT_RUN, DcgmStatus.UNKNOWN):
            numbers_of.setdefault("not_passed", []).extend(at)
    return {name: _quoted(text, numbers) for name, numbers in numbers_of.items() if numbers}


def _message_lines(text: list[str], problem: Problem, result: Result) -> list[int]:
    """The lines with the beginning of the message: complete in JSON, wrapped at the width of the cell in a table."""
    phrase = problem.message[:30]
    numbers = [index for index, line in enumerate(text, 1) if phrase in " ".join(line.split())]
    return ([index for index in numbers if index >= result.line] or numbers)[:1]


def _quoted(text: list[str], numbers: Iterable[int]) -> str:
    return "\n".join(f"{number}: {text[number - 1].strip()}" for number in sorted(set(numbers)))


def _health(text: str, options: ReadOptions) -> Reading:
    report = health.parse(text)
    declared = options.declared.gpus_per_node if options.declared else 0
    gpus = {incident.entity for incident in report.incidents if incident.group == "GPU"}
    metrics = health.metrics_of(report, tuple(sorted(gpus | set(range(declared)))))
    quoted: dict[str, list[int]] = {}
    for incident in report.incidents:
        if incident.line:
            quoted.setdefault(health.metric_of(incident), []).append(incident.line)
    lines = {name: _quoted(text.splitlines(), numbers) for name, numbers in quoted.items()}
    title = f"dcgmi health -c: {report.overall}, {len(report.incidents)} incidents"
    result = CheckData("dcgm.health", metrics, lines, "\n".join(map(health.words_of, report.incidents)))
    return Reading(OutputKind.DCGMI, title, (result,), understood=lines_of_json(text))


def _policy(text: str) -> Reading:
    policy_set = policy.parse(text)
    lines = {
        name: _quoted(text.splitlines(), _lines_with(text, title))
        for name, title in (("action", "Action on violation"), ("validation", "Validation after action"))
    }
    result = CheckData("dcgm.policy", vars(policy_set), lines, "")
    understood = lines_of_json(text) | lines_matching(text, _AROUND_POLICY)
    return Reading(OutputKind.DCGMI, "dcgmi policy --get, JSON", (result,), understood=understood)


def _lines_with(text: str, phrase: str) -> list[int]:
    return [index for index, line in enumerate(text.splitlines(), 1) if phrase in line]
