"""Raw output of a tool, as a command line names it -> what it is, and its verdict. Works offline, without an engine."""

from __future__ import annotations

import re
from dataclasses import dataclass

from checks.explain.judge import judge, unread
from checks.explain.reading import Asked, Broken, ExplainError, Kind, NotRecognised
from checks.explain.registry import claimed_by, module_of, only_kind, read
from checks.facts.shipped import builtin
from checks.model import Report, Verdict
from checks.policy import Policy
from tasks.inputs import InputError, default_of, judged_data, read_input
from tasks.policies import SHIPPED, PolicyError, read_policy
from tasks.render.clean import one_line

INPUT_BYTES = 64 << 20
# The shipped policy that holds output of this kind where no type is declared.
OF_KIND = {Kind.NEURON_LS: "neuron.toml"}
OTHERWISE = "nvidia.toml"
_COLOUR = re.compile(r"\x1b\[[0-9;]*[mK]")
_REPORT = re.compile(r'\s*\{\s*"(attempt|declared)"\s*:')


@dataclass(frozen=True)
class Explained:
    """One input and its verdict. `kind` is None where nobody knows what it is; `report` is set for a report.

    `policy` names the policy that was chosen for it, "" where one was given.
    """

    file: str
    name: str
    kind: Kind | None
    title: str
    verdict: Verdict
    held: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    policy: str = ""
    report: Report | None = None


def explained(file: str, kind: Kind | None, policy: Policy | None, asked: Asked) -> Explained:
    """What the input is, and the verdict on it. Raises InputError if it cannot be read, or nothing can judge it."""
    name, data = read_input(file)
    text = _text(data)
    if kind is Kind.REPORT or (kind is None and is_report(text)):
        found = judged_data(file, name, data, policy)
        title = "a report of Prelaunch"
        return Explained(
            file, found.name, Kind.REPORT, title, found.verdict, policy=found.policy, report=found.report
        )
    return explained_text(file, name, data, kind, policy, asked)


def explained_text(
    file: str, name: str, data: bytes, kind: Kind | None, policy: Policy | None, asked: Asked
) -> Explained:
    """The same for a tool's output that was read already. Raises InputError where no policy can be had."""
    text, found = _text(data), kind
    try:
        _require_text(data, text)
        module = module_of(kind) if kind else claimed_by(text)
        found = kind or only_kind(module)
        reading = read(module, text, asked, kind)
    except ExplainError as error:
        rules, chosen = _policy(policy, found, asked)
        judged = unread(_why(error, found), rules, builtin(), data)
        title = f"{found.value} that cannot be read" if found else "nothing that can be read"
    else:
        rules, chosen = _policy(policy, reading.kind, asked)
        judged = judge(reading, rules, builtin(), asked, data)
        found, title = reading.kind, one_line(reading.title)
    return Explained(file, name, found, title, judged.verdict, judged.held, judged.left_out, chosen)


def is_report(text: str) -> bool:
    """Whether it is a report of ours, or the beginning of one."""
    return _REPORT.match(text) is not None or ('"schema_version"' in text and '"gate_id"' in text)


def _text(data: bytes) -> str:
    """Bytes that are no UTF-8 are written out as \\\\xff: a reader stumbles over them only where they matter. Colours go."""
    return _COLOUR.sub("", data.decode("utf-8-sig", "backslashreplace").replace("\r\n", "\n"))


def _require_text(data: bytes, text: str) -> None:
    if len(data) > INPUT_BYTES:
        raise Broken(
            f"it has more than the {INPUT_BYTES >> 20} MiB that are read. Cut out the part in question."
        )
    if "\0" in text:
        raise Broken(f"line {text[: text.index(chr(0))].count(chr(10)) + 1} holds a zero byte: it is no text")


def _why(error: ExplainError, kind: Kind | None) -> str:
    said = one_line(str(error), 500)
    if isinstance(error, NotRecognised) and kind:
        return f"it is no output of {kind.value}: {said}"
    return said


def _policy(policy: Policy | None, kind: Kind | None, asked: Asked) -> tuple[Policy, str]:
    if policy is not None:
        return policy, ""
    if asked.declared is not None:
        return default_of(asked.declared.instance_type)
    path = SHIPPED / (OF_KIND.get(kind, OTHERWISE) if kind else OTHERWISE)
    try:
        found = read_policy(path)
    except PolicyError as error:
        raise InputError(str(error.file), error.message, error.path, error.nearest) from error
    return found, f"{found.name} ({path})"
