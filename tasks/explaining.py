"""Raw output of a tool, as a command line names it -> what it is, and its verdict. Works offline, without an engine."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from checks.explain.judge import judge, unread
from checks.explain.matrices import Told
from checks.explain.reading import Asked, Broken, ExplainError, Kind, NotRecognised, Part
from checks.explain.registry import claimed_by, claims, module_of, only_kind, read
from checks.facts.shipped import builtin
from checks.kernel.overlay import under
from checks.model import Report, Verdict
from checks.policy import Policy
from checks.secondopinion.mark import TABLES, TOOL
from tasks.inputs import InputError, default_of, judged_data, read_input
from tasks.large import Large, large, require_kernel_log, require_unpacked, searched
from tasks.policies import SHIPPED, PolicyError, read_policy
from tasks.render.clean import one_line
from tasks.secondopinion import NOTHING_STATED, Stated

INPUT_BYTES = 64 << 20
# The shipped policy that holds output of this kind where no type is declared.
OF_KIND = {Kind.NEURON_LS: "neuron.toml", Kind.NCCOM_TEST: "neuron.toml"}
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
    parts: tuple[Part, ...] = ()
    told: tuple[Told, ...] = ()


def explained(file: str, kind: Kind | None, policy: Policy | None, asked: Asked) -> Explained:
    """What the input is, and the verdict on it. Raises InputError if it cannot be read, or nothing can judge it."""
    with large(file, INPUT_BYTES) as found_large:
        if found_large is not None and kind is not Kind.REPORT:
            head = _text(found_large.head)
            if kind is not None or not head.lstrip().startswith("{"):  # a report is held as a whole
                return _explained_large(file, found_large, head, kind, policy, asked)
    name, data = read_input(file)
    text = _text(data)
    if kind in (None, Kind.REPORT) and is_anothers(text):
        return _anothers(file, name, data, policy, asked)
    if kind is Kind.REPORT or (kind is None and is_report(text)):
        found = judged_data(file, name, data, policy)
        if asked.overlay and found.report is not None:
            chosen = policy or default_of(found.report.declared.instance_type)[0]
            judged = judged_data(file, name, data, under(chosen, asked.overlay))
            found = replace(judged, policy=found.policy)
        title = "a report of Prelaunch"
        return Explained(
            file, found.name, Kind.REPORT, title, found.verdict, policy=found.policy, report=found.report
        )
    return explained_text(file, name, data, kind, policy, asked)


def _anothers(file: str, name: str, data: bytes, policy: Policy | None, asked: Asked) -> Explained:
    """The report of another tool, as `prelaunch judge` judges it. It carries no Xid: overlays say nothing of it."""
    stated = Stated(asked.declared.instance_type, asked.declared.nodes) if asked.declared else NOTHING_STATED
    found = judged_data(file, name, data, policy, stated=stated)
    left_out = found.opinion.not_judged if found.opinion else ()
    title = f"a report of {TOOL}"
    return Explained(
        file, found.name, Kind.REPORT, title, found.verdict, (), left_out, found.policy, found.report
    )


def explained_text(
    file: str, name: str, data: bytes, kind: Kind | None, policy: Policy | None, asked: Asked
) -> Explained:
    """The same for a tool's output that was read already. Raises InputError where no policy can be had."""
    text, found, parts, told = _text(data), kind, tuple[Part, ...](), tuple[Told, ...]()
    try:
        _require_text(data, text, kind)
        module = module_of(kind) if kind else claimed_by(text)
        found = kind or only_kind(module)
        reading = read(module, text, asked, kind)
    except ExplainError as error:
        rules, chosen = _policy(policy, found, asked)
        judged = unread(_why(error, found), rules, builtin(), data)
        title = f"{found.value} that cannot be read" if found else "nothing that can be read"
    else:
        rules, chosen = _policy(policy, reading.kind, asked)
        parts = reading.parts
        judged = judge(reading, rules, builtin(), asked, data)
        found, title, told = reading.kind, one_line(reading.title), judged.told
    return Explained(
        file, name, found, title, judged.verdict, judged.held, judged.left_out, chosen, parts=parts, told=told
    )


def _explained_large(
    file: str, found: Large, head: str, kind: Kind | None, policy: Policy | None, asked: Asked
) -> Explained:
    """The same for a kernel's log that is too large to be held. The digest is of its size and of what was looked at."""
    facts = builtin()
    with searched(found) as reading:
        rules, chosen = _policy(policy, Kind.KERNEL_LOG, asked)
        try:
            require_kernel_log(found, head, kind)
            read_of_it, seen = reading()
        except ExplainError as error:
            judged = unread(_why(error, kind), rules, facts, found.head)
            title = f"{kind.value} that cannot be read" if kind else "nothing that can be read"
            return Explained(file, file, kind, title, judged.verdict, policy=chosen)
        judged = judge(read_of_it, rules, facts, asked, seen)
    title = one_line(read_of_it.title)
    return Explained(
        file,
        file,
        read_of_it.kind,
        title,
        judged.verdict,
        judged.held,
        judged.left_out,
        chosen,
        parts=read_of_it.parts,
    )


def is_report(text: str) -> bool:
    """Whether it is a report of ours, or the beginning of one."""
    return _REPORT.match(text) is not None or ('"schema_version"' in text and '"gate_id"' in text)


def is_anothers(text: str) -> bool:
    """Whether it may be the report of another tool."""
    return text.lstrip()[:1] == "{" and all(f'"{key}"' in text for key in TABLES) and not is_report(text)


def _text(data: bytes) -> str:
    """Bytes that are no UTF-8 are written out as \\\\xff: a reader stumbles over them only where they matter. Colours go."""
    return _COLOUR.sub("", data.decode("utf-8-sig", "backslashreplace").replace("\r\n", "\n"))


def _require_text(data: bytes, text: str, kind: Kind | None) -> None:
    require_unpacked(data)
    if len(data) > INPUT_BYTES:
        raise Broken(
            f"it has more than the {INPUT_BYTES >> 20} MiB that are read. Cut out the part in question, or name a file: "
            "a kernel's log is searched where it lies."
        )
    # A crash leaves zeros in a log; its reader says what they cost.
    if "\0" in text and (kind is not Kind.KERNEL_LOG if kind else not claims(Kind.KERNEL_LOG, text)):
        raise Broken(f"line {text[: text.index(chr(0))].count(chr(10)) + 1} holds a zero byte: it is no text")


def _why(error: ExplainError, kind: Kind | None) -> str:
    said = one_line(str(error), 500)
    if isinstance(error, NotRecognised) and kind:
        return f"it is no output of {kind.value}: {said}"
    return said


def _policy(policy: Policy | None, kind: Kind | None, asked: Asked) -> tuple[Policy, str]:
    found, chosen = _chosen(policy, kind, asked)
    return under(found, asked.overlay), chosen


def _chosen(policy: Policy | None, kind: Kind | None, asked: Asked) -> tuple[Policy, str]:
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
