"""`prelaunch explain`: recognises and judges raw output of a tool, and prints what it shows. Works offline, without an engine.

The text names the kind of output, and each finding with the lines that prove it; it is made by pure functions.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from checks.command_line import InputError
from checks.explain.reading import ExplainError, Garbled, NotRecognised, OutputKind, Reading, ReadOptions
from checks.explain.registry import claimed_by, claims, module_of, only_kind, read
from checks.facts.builtin import builtin
from checks.judge.culprits.matrix_file import DecodedTable, summary
from checks.judge.tool_output import ITSELF, judge, unread
from checks.model import ANSWER_WORDS, Answer, Cause, FindingKind, Level, Verdict
from checks.policy import Policy
from checks.value_types import listed_names
from tasks.gate_file.references import SHIPPED, read_policy
from tasks.render.findings import Group, gathered
from tasks.render.headline import deciding, explanation
from tasks.reports import seed_report
from tasks.reports.read import default_policy_of, read_input
from tasks.text.inert import clean, one_line
from tasks.text.tables import counted

INPUT_BYTES = 64 << 20
# The shipped policy that holds output of this kind where no type is declared.
OF_KIND = {OutputKind.NEURON_LS: "neuron.toml"}
OTHERWISE = "nvidia.toml"
# How files begin that hold a log, and are none (file(1) knows them by the same bytes).
PACKED = {
    b"\x1f\x8b": "compressed: gunzip it",
    b"\x28\xb5\x2f\xfd": "compressed: unzstd it",
    b"\xfd7zXZ\0": "compressed: unxz it",
    b"BZh": "compressed: bunzip2 it",
    b"PK\x03\x04": "an archive: unzip it",
    b"LPKSHHRH": "a journal: print it with journalctl --file, -k and -o short-iso",
}
_COLOUR = re.compile(r"\x1b\[[0-9;]*[mK]")
_REPORT = re.compile(r'\s*\{\s*"(attempt|declared)"\s*:')
LINES = 12
UNRATED = (FindingKind.NO_BASELINE, FindingKind.ONLY_SMALL_MESSAGES)
# The first line fits a terminal.
FIRST_LINE, LEAST_NAME, MOST_HOSTS = 100, 12, 4
_BOLD = {Answer.GO: "1;32", Answer.NO_GO: "1;31", Answer.CANNOT_TELL: "1;35", Answer.ASK: "1;33"}


@dataclass(frozen=True)
class ExplainedInput:
    """One input and its verdict. `kind` is None if nobody knows what it is;

    `policy` names the policy that was chosen for it, "" if one was given.
    """

    file: str
    name: str
    tool: OutputKind | None
    title: str
    verdict: Verdict
    held: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    policy: str = ""
    tables: tuple[DecodedTable, ...] = ()
    reading: Reading | None = None
    instance_type: str = ""


def explain_input(
    file: str, tool: OutputKind | None, policy: Policy | None, options: ReadOptions
) -> ExplainedInput:
    """What the input is, and the verdict on it. Raises InputError if it cannot be read, or nothing can judge it."""
    name, data = read_input(file)
    text = _text(data if data.lstrip()[:1] == b"{" else data[: INPUT_BYTES + 1])
    if (tool is OutputKind.REPORT and not seed_report.detect(text)) or (tool is None and is_report(text)):
        raise InputError(file, f"a report of Prelaunch is judged by another command: prelaunch judge {file}")
    return explain_text(file, name, data, tool, policy, options)


def explain_text(
    file: str, name: str, data: bytes, tool: OutputKind | None, policy: Policy | None, options: ReadOptions
) -> ExplainedInput:
    """A tool's output that was read already is judged as in `explain_input`. Raises InputError if no policy can be had."""
    reading: Reading | None = None
    text = _text(data[: INPUT_BYTES + 1])
    is_seed = tool in (None, OutputKind.REPORT) and seed_report.detect(text)
    detected = tool = OutputKind.REPORT if is_seed else tool
    try:
        _require_text(data, text, tool)
        if is_seed:
            reading = seed_report.read(text, options)
        else:
            module = module_of(tool) if tool else claimed_by(text)
            detected = tool or only_kind(module)
            reading = read(module, text, options, tool)
    except ExplainError as error:
        rules, chosen = _policy(policy, detected, options)
        judged = unread(_reason(error, detected), rules, builtin(), data, error.remedy)
        title = f"{detected.value} that cannot be read" if detected else "unreadable input"
    else:
        neuron = any(check.check.startswith("neuron.") for check in reading.checks)
        rules, chosen = _policy(policy, OutputKind.NEURON_LS if neuron else reading.output_kind, options)
        judged = judge(reading, rules, builtin(), options, data)
        detected, title = reading.output_kind, one_line(reading.title)
    return ExplainedInput(
        file,
        name,
        detected,
        title,
        judged.verdict,
        judged.held,
        judged.left_out,
        chosen,
        judged.tables,
        reading,
        options.declared.instance_type if options.declared else "",
    )


def is_report(text: str) -> bool:
    """Whether it is a report of ours, or the beginning of one."""
    return _REPORT.match(text) is not None or ('"schema_version"' in text and '"gate_id"' in text)


def _text(data: bytes) -> str:
    """Bytes that are no UTF-8 are written out as \\\\xff: a reader stumbles over them only where they matter. Colours go."""
    return _COLOUR.sub("", data.decode("utf-8-sig", "backslashreplace").replace("\r\n", "\n"))


def _require_text(data: bytes, text: str, tool: OutputKind | None) -> None:
    for begins, reason in PACKED.items():
        if data.startswith(begins):
            raise Garbled(f"it is {reason}, and explain what comes out", "")
    if len(data) > INPUT_BYTES:
        raise Garbled(
            f"it has more than the {INPUT_BYTES >> 20} MiB that are read. Give the part in question, or the last day of a log.",
            "",
        )
    # A crash leaves zeros in a log; its reader says what they cost.
    if "\0" in text and (
        tool is not OutputKind.KERNEL_LOG if tool else not claims(OutputKind.KERNEL_LOG, text)
    ):
        raise Garbled(
            f"line {text[: text.index(chr(0))].count(chr(10)) + 1} contains a zero byte, so the input is not text",
            "Give the text that the tool printed, and no binary file.",
        )


def _reason(error: ExplainError, tool: OutputKind | None) -> str:
    reason = one_line(str(error), 500)
    if isinstance(error, NotRecognised) and tool:
        return f"it is no output of {tool.value} that Prelaunch reads: {reason}"
    return reason


def _policy(policy: Policy | None, tool: OutputKind | None, options: ReadOptions) -> tuple[Policy, str]:
    if policy is not None:
        return policy, ""
    if options.declared is not None:
        return default_policy_of(options.declared.instance_type, options.declared)
    path = SHIPPED / (OF_KIND.get(tool, OTHERWISE) if tool else OTHERWISE)
    shipped = read_policy(path)
    return shipped, f"{shipped.name} ({path})"


def explanation_text(result: ExplainedInput, colour: bool = False, width: int = 120) -> str:
    """The answer on a line of its own; then what the input is; then each finding; then which rules were applied to what.

    Lines of the input are never folded, so that they can be searched for.
    """
    verdict, decoded = result.verdict, [summary(table) for table in result.tables]
    head, short = ANSWER_WORDS[verdict.answer], _in_short(result)
    name = one_line(result.name, 4000)
    if result.reading and result.reading.brief:
        full = f"{one_line(result.reading.brief)}; {short}"
        short = full if len(f"{head} : {full}") <= FIRST_LINE - LEAST_NAME else short
    room = max(FIRST_LINE - len(f"{head} : {short}"), LEAST_NAME)
    name = name if len(name) <= room else f"…{name[1 - room :]}"
    lines = [
        f"{_paint(head, _BOLD[verdict.answer], colour)} {name}: {short}",
        *_folded(f"Input: {one_line(result.title)}", width),
        *_folded(_meaning(verdict), width, ""),
    ]
    proofs: set[str] = set()
    for item in gathered(verdict.findings):
        proof = set(_proof(item))
        subject = "the run" if result.tool is OutputKind.NCCL_TESTS else "the node"
        lines += ["", *_finding(item, subject, colour, width, again=bool(proof) and proof <= proofs)]
        proofs |= proof if item.remedy else set()
    if verdict.answer is Answer.NO_GO and not decoded:
        lines += ["", *_folded(_next(result), width)]
    lines += [""] if result.held or result.left_out or decoded else []
    for text in decoded:
        lines += _folded(f"decoded: {one_line(text, 600)}", width)
    if result.held:
        lines += _folded(f"judged by the policy: {', '.join(map(one_line, result.held))}", width)
    for text in not_judged(result.left_out):
        lines += _folded(f"not judged: {one_line(text, 2000)}", width)
    return "\n".join(lines) + "\n"


def _in_short(result: ExplainedInput) -> str:
    """What the answer follows from, in a few words. The findings below it say the rest."""
    verdict = result.verdict
    if verdict.answer is Answer.CANNOT_TELL:
        return result.reading.doubt if result.reading else one_line(result.title)
    if verdict.level is Level.PASS:
        return "no fault in what was judged"
    if verdict.level is Level.WARN:
        unrated = any(finding.kind in UNRATED for finding in verdict.findings)
        return counted(len(deciding(verdict)), "warning") + ", and rates were not judged" * unrated
    counts = Counter(item.cause for item in deciding(verdict))
    return ", ".join(counted(n, f"{cause.value.lower()} failure") for cause, n in counts.items())


def _next(result: ExplainedInput) -> str:
    """What to type on the node once the remedies are done."""
    names = result.reading.hosts if result.reading else ()
    hosts = listed_names(list(map(one_line, names)), MOST_HOSTS)
    declared = result.instance_type or "TYPE"
    again = "repeat the run, and test each of" if len(names) > 1 else "test"
    subject = hosts or "the node that printed this"
    return (
        f"Next: after that, {again} {subject} again. Type there: prelaunch check --instance-type {declared}"
    )


def not_judged(left_out: Sequence[str]) -> list[str]:
    """What was not judged, one line per reason: "gpu.inventory models, vbios: it compares nodes ..."."""
    by_reason: dict[str, dict[str, list[str]]] = {}
    for line in left_out:
        name, _, reason = line.partition(": ")
        check, _, metric = name.partition(" ")
        by_reason.setdefault(reason, {}).setdefault(check, []).append(metric)
    return [
        one_line(
            "; ".join(f"{check} {', '.join(names)}" for check, names in checks.items()) + f": {reason}", 4000
        )
        for reason, checks in by_reason.items()
    ]


def _meaning(verdict: Verdict) -> str:
    """The words for a gate suppose that all was observed; this is the output of one tool."""
    if verdict.answer is Answer.CANNOT_TELL:
        return "There is no verdict from this output. This does not mean that any machine is broken."
    return (
        explanation(verdict) if verdict.level is Level.WARN else "Only the values in this output were judged."
    )


def _proof(item: Group) -> list[str]:
    """The lines that are shown as proof of a finding: those of its first subject."""
    return [line for _, evidence in item.evidence[:1] for line in clean(evidence).splitlines()]


def _finding(item: Group, about: str, colour: bool, width: int, again: bool) -> list[str]:
    """`again`: an earlier finding with a remedy is proven by the same lines, so that its remedy comes first."""
    tone = {Level.FAIL: "31", Level.WARN: "33", Level.PASS: "32"}[item.level]
    if item.level is Level.FAIL and item.cause is Cause.EVIDENCE:
        tone = "35"
    head = item.heading
    checks = "" if item.checks == (ITSELF,) else f" {one_line(', '.join(item.checks), 600)}"
    subject = f"{about} " if item.is_predicate else ""
    first, *rest = _folded(f"{head}{checks}: {subject}{one_line(item.message, 600)}", width)
    lines = [_paint(head, tone, colour) + first.removeprefix(head), *rest]
    raw = _proof(item)
    lines += [f"  | {one_line(line)}" for line in raw[:LINES]]
    if len(raw) > LINES:
        lines.append(f"  | ({counted(len(raw) - LINES, 'more line')}: see --format json)")
    if item.remedy and again:
        lines.append("  Do: Follow the remedy above for the same lines.")
    elif item.remedy:
        lines += _folded(f"  Do: {one_line(item.remedy, 600)}", width, "      ")
    return lines


def _folded(text: str, width: int, indent: str = "  ") -> list[str]:
    return textwrap.wrap(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ) or [text]


def _paint(text: str, code: str, colour: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if colour else text
