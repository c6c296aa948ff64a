"""How the shipped policy answers NVIDIA's catalogue, beside the lists of public tools: docs/evidence/public-defects.md."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from checks.documents.decode import decode, parse_json
from checks.judge.rules import apply
from checks.model import Action, Finding, Level, Observation, Outcome
from checks.policy import CheckPolicy
from checks.probes.kernel.xid import measured
from checks.probes.kernel.xid_catalogue import table
from tasks.gate_file.references import read_policy
from tests.checks.probes.kernel.world import log_of

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
PAGE = ROOT / "docs" / "evidence" / "public-defects.md"


@dataclass(frozen=True)
class Tool:
    """A public tool's list."""

    name: str
    source: str
    acts_on: tuple[int, ...]
    calls_fatal: tuple[int, ...]


@dataclass(frozen=True)
class Scores:
    """What is scored, and whom beside."""

    source: str
    must_act: tuple[int, ...]
    harmless: tuple[int, ...]
    tools: tuple[Tool, ...]


SCORES = decode(Scores, parse_json((HERE / "xid_scores.json").read_bytes(), 1 << 20))
LINES = {
    int(line.partition("): ")[2].partition(",")[0]): line
    for line in (HERE / "xid_must_act.txt").read_text(encoding="utf-8").splitlines()
    if line.startswith("NVRM")
}


@lru_cache(maxsize=1)
def policy_line() -> CheckPolicy:
    """kernel.xid as the shipped NVIDIA policy has it."""
    return read_policy(ROOT / "deployments/policies/nvidia.toml").checks["kernel.xid"]


def findings(*messages: str, apart_s: float = 1.0) -> list[Finding]:
    """What the shipped policy says of a log that holds these messages, and of nothing else in it."""
    stamps = [9000.0 + index * apart_s for index in range(len(messages))]
    text = "".join(f"[{stamp:9.1f}] {said}\n" for stamp, said in zip(stamps, messages, strict=True))
    seen = measured(log_of(f"[    1.0] all well\n{text}"), ())
    row = Observation("kernel.xid", "node-0", Outcome.MEASURED, 0.1, seen.metrics, evidence=seen.evidence)
    return list(apply.apply("kernel.xid", policy_line(), [row], 1))


def worst(found: list[Finding]) -> Finding | None:
    """The gravest of them."""
    return max(found, key=lambda finding: finding.level.rank, default=None)


def example(code: int) -> str:
    """A line with the code, as the driver writes it for a program."""
    return f"NVRM: Xid (PCI:0000:b9:00): {code}, pid=4242, name=python3, Ch 00000008"


def test_every_code_that_must_be_acted_on_is() -> None:
    """A realistic line of each is a FAIL that calls for something, and says for what."""
    for code in SCORES.must_act:
        found = worst(findings(LINES[code]))

        assert found is not None, code
        assert (found.level, f"Xid {code} " in found.message) == (Level.FAIL, True), code
        assert found.action in (Action.RESET_GPU, Action.REBOOT, Action.INSPECT), code
        assert f"row {code}" in found.source, code


def test_no_code_of_a_program_is_fatal() -> None:
    """Those that the catalogue answers with RESTART_APP or IGNORE, once and again and again."""
    for code in SCORES.harmless:
        once, often = findings(example(code)), findings(*[example(code)] * 5, apart_s=200.0)

        assert Level.FAIL not in {finding.level for finding in (*once, *often)}, code


def test_the_lists_are_the_catalogues() -> None:
    """The harmless ones are those that our table gives the two answers for; the 19 have other ones."""
    answered = [code for code, row in table().items() if row.immediate in ("RESTART_APP", "IGNORE")]

    assert answered == list(SCORES.harmless)
    assert sorted(LINES) == list(SCORES.must_act)
    assert not set(SCORES.must_act) & set(SCORES.harmless)


def test_the_page_is_current() -> None:
    """The end of docs/evidence/public-defects.md is what this computes; UPDATE_GOLDEN=1 writes it."""
    text, (first, *_) = "\n".join(page()) + "\n", page()
    before, heading, written = PAGE.read_text(encoding="utf-8").partition(f"{first}\n")
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(before + text, encoding="utf-8")
        written = text.removeprefix(heading)

    assert heading + written == text


def page() -> Iterator[str]:
    """The table, ours computed from lines, the others' from their lists."""
    must, harmless = SCORES.must_act, SCORES.harmless
    acted = [code for code in must if (found := worst(findings(LINES[code]))) and found.level is Level.FAIL]
    fatal = [code for code in harmless if any(f.level is Level.FAIL for f in findings(example(code)))]
    yield "## Xid actions"
    yield ""
    yield "This section is written by `UPDATE_GOLDEN=1 python -m pytest tests/checks/probes/kernel/test_xid_scores.py`."
    yield "It counts two things in"
    yield f"NVIDIA's Xid catalogue (read 2025-10). For {len(must)} codes the catalogue requires a reset, a restart or an inspection:"
    yield f"how many of them does a tool act on? For {len(harmless)} codes the catalogue says RESTART_APP or IGNORE: how many of them"
    yield "does a tool call fatal? Prelaunch's answers come from one kernel log line per code, judged by the shipped policy. The"
    yield "answers of the other tools come from the lists in their sources."
    yield ""
    yield f"| tool | must act: acted on, of {len(must)} | missed | harmless: called fatal, of {len(harmless)} | source |"
    yield "| --- | ---: | --- | ---: | --- |"
    ours = "policy `nvidia`, lines in `tests/checks/probes/kernel/xid_must_act.txt`"
    yield _row("Prelaunch", acted, fatal, ours)
    for tool in SCORES.tools:
        acts_on = [code for code in must if code in tool.acts_on]
        calls_fatal = [code for code in harmless if code in tool.calls_fatal]
        yield _row(tool.name, acts_on, calls_fatal, tool.source)
    yield ""
    yield "### Which action each Xid requires"
    yield ""
    yield "| Xid | name | action |"
    yield "| ---: | --- | --- |"
    for code in must:
        found = worst(findings(LINES[code]))
        yield f"| {code} | {table()[code].name} | {found.action.value if found else ''} |"


def _row(name: str, acted: list[int], fatal: list[int], source: str) -> str:
    missed = " ".join(str(code) for code in SCORES.must_act if code not in acted) or "-"
    return f"| {name} | {len(acted)} | {missed} | {len(fatal)} | {source} |"
