"""Reads what nccom-test printed.

The table shows neither which operation it was nor whether the results were checked; the command line above the table does.
"""

from __future__ import annotations

import itertools
import re

from checks.explain.reading import Broken, Complete, Kind, NotRecognised, Part, Reading, ReadOptions
from checks.explain.unread_lines import lines_matching
from checks.model import Value
from checks.probes.neuron import collectives
from checks.probes.neuron.collectives import GREATEST_BYTES, Run, RunError

_TABLE = re.compile(r"size\(B\)[ \t]+count\(elems\)[^\n]*algbw")
_ASKED = re.compile(r"\bnccom-test\b.*")
UNCHECKED = Complete(
    "it is unknown whether the results were checked: include the command line with --check above the output"
)


def detect(text: str) -> bool:
    """Whether nccom-test printed it."""
    return _TABLE.search(text) is not None


def read(text: str, asked: ReadOptions) -> Reading:
    """The reading. Raises NotRecognised, Broken."""
    if not detect(text):
        raise NotRecognised("this is not a table of nccom-test")
    if len(_TABLE.findall(text)) > 1:
        raise Broken("the text has several tables of nccom-test. Explain them one at a time.", "")
    try:
        run = collectives.parse(text)
    except RunError as error:
        raise Broken(str(error)) from error
    command = _ASKED.search(text)
    name = (re.findall(r"(?<=\s)(?:allr|allg|redsct|alltoall)\b", command[0]) if command else []) or [
        "nccom-test"
    ]
    metrics: dict[str, Value] = {
        "operations": tuple(name[:1]),
        "failures": ("; ".join(run.failures)[:300],),
        "wrong_results": ("; ".join(run.wrong)[:300],),
        "rows_missing": (_gaps(run, _least(command[0]) if command else 0),),
    }
    unread: list[str] = [] if run.wrong or (command and "--check" in command[0]) else [UNCHECKED]
    greatest = [row.busbw_gbps for row in run.rows if row.size_bytes >= GREATEST_BYTES]
    if greatest:
        metrics["busbw_gbps"] = (greatest[0],)
    elif not run.failures:
        unread.append(
            f"the table has no size of {GREATEST_BYTES >> 20} MiB or more, and only these are judged"
        )
    lines = {
        name: _with(text, words) for name, words in (("failures", run.failures), ("wrong_results", run.wrong))
    }
    title = (
        f"nccom-test {name[0]}, {len(run.rows)} sizes" if command else f"nccom-test, {len(run.rows)} sizes"
    )
    part = Part("neuron.collectives", metrics, lines, text[:1000])
    understood = lines_matching(text, collectives.KNOWN)
    return Reading(Kind.NCCOM_TEST, title, (part,), tuple(unread), understood=understood)


def _least(command: str) -> int:
    """The smallest size that was asked for, in bytes; 0 if the command does not say."""
    found = re.search(r"--minbytes[ =](\d{1,12})([KMG]?)B?\b", command)
    return int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2]] if found else 0


def _gaps(run: Run, asked: int) -> int:
    """Sizes that are left out, from the smallest that was asked for: nccom-test multiplies by one factor, so that the
    smallest step is the step.
    """
    sizes = sorted({row.size_bytes for row in run.rows if row.size_bytes > 0} | ({asked} if asked else set()))
    steps = [after / before for before, after in itertools.pairwise(sizes)]
    least = min(steps, default=2.0)
    missing = int(bool(asked) and asked not in {row.size_bytes for row in run.rows})
    for step in steps:
        while least > 1 and step > least * 1.5:
            step, missing = step / least, missing + 1
    return missing


def _with(text: str, said: tuple[str, ...]) -> str:
    return "\n".join(
        f"{number}: {line.strip()}"
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() in said
    )
