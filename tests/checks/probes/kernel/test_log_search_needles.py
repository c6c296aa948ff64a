"""Every line that a check makes something of holds a needle, so that a search for needles loses none."""

from __future__ import annotations

import importlib
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from checks.probes.kernel import explain, hardware, log_source, neuron_lines, sxid, xid
from checks.probes.kernel.log_search import matcher_of
from tests.checks.probes.kernel.world import RECORDINGS, said

MOST = 3000
# Python's own reader of regular expressions.
PARSER = importlib.import_module("re._parser")


def texts_of(form: str) -> list[str]:
    """Texts that the form may match: each alternative, each letter of a short class, with and without what is optional."""
    return list(itertools.islice(_sequence(PARSER.parse(form)), MOST))


def _sequence(items: Iterable[tuple[object, object]]) -> Iterator[str]:
    choices = [list(itertools.islice(_one(str(code), value), 60)) for code, value in items]
    return ("".join(parts) for parts in itertools.product(*choices))


def _one(code: str, value: object) -> Iterator[str]:
    if code == "LITERAL":
        yield chr(value)  # type: ignore[arg-type]
    elif code == "BRANCH":
        yield from itertools.chain.from_iterable(map(_sequence, value[1]))  # type: ignore[index]
    elif code == "SUBPATTERN":
        yield from _sequence(value[-1])  # type: ignore[index]
    elif code in ("MAX_REPEAT", "MIN_REPEAT"):
        least, most = int(value[0]), int(value[1])  # type: ignore[index]
        for text in _sequence(value[2]):  # type: ignore[index]
            yield from {text * least, text * min(most, max(least, 1))}
    elif code == "IN":
        yield from _class(value)  # type: ignore[arg-type]
    elif code in ("ANY", "NOT_LITERAL"):
        yield "~"
    else:
        assert code in ("AT", "ASSERT", "ASSERT_NOT"), code
        yield ""


def _class(items: Iterable[tuple[object, object]]) -> Iterator[str]:
    for code, value in items:
        if str(code) == "LITERAL":
            yield chr(value)  # type: ignore[arg-type]
        elif str(code) == "RANGE":
            yield chr(value[0])  # type: ignore[index]
        elif str(code) == "CATEGORY":
            yield {"CATEGORY_DIGIT": "7", "CATEGORY_SPACE": " ", "CATEGORY_WORD": "w"}.get(str(value), "~")
        else:
            assert str(code) == "NEGATE", code
            yield "~"
            return


@pytest.mark.parametrize(("needles", "form"), [(n, f) for _, n, f in hardware._FORMS], ids=str)
def test_every_form_of_a_fault_holds_a_needle(needles: tuple[str, ...], form: str) -> None:
    """Whatever alternative of the form a line takes. A form whose needle is mistyped would never be found in a large log."""
    found = matcher_of(needle.encode() for needle in needles)
    texts = texts_of(form)

    assert texts
    assert [] == [text for text in texts if not found.search(text.encode())][:5]


@pytest.mark.parametrize(
    ("needles", "form"),
    [
        (xid.NEEDLES, xid._XID.pattern),
        (xid.NEEDLES, xid._WITHOUT_CODE.pattern),
        (xid.NEEDLES, sxid._SXID.pattern),
        (log_source.NEEDLES, log_source._DROPPED.pattern),
        (log_source.NEEDLES, log_source._MISSED.pattern),
    ],
)  # fmt: skip
def test_every_other_form_holds_a_needle_too(needles: tuple[str, ...], form: str) -> None:
    """Xids, SXids, lost messages, and how the outputs of other tools begin."""
    found = matcher_of(needle.encode() for needle in needles)

    assert [] == [text for text in texts_of(form) if not found.search(text.encode())][:5]


def test_a_form_without_its_needle_is_noticed() -> None:
    """The proof above can fail."""
    found = matcher_of([b"I/O"])

    assert [text for text in texts_of(r"(?:I/O|critical medium) error") if not found.search(text.encode())]


@pytest.mark.parametrize("path", sorted(RECORDINGS.glob("*.txt")), ids=lambda path: path.name)
def test_no_event_of_a_recording_is_lost(path: Path) -> None:
    """What each check finds in all lines, it finds in those with a needle."""
    needle = matcher_of(explain.NEEDLES)
    text = re.sub(r"^\w+ \| ", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    few = "\n".join(line for line in text.splitlines() if needle.search(line.encode()))

    for family in explain.FAMILIES:
        whole = [(event.kind, event.code, event.pci, event.text) for event in family.find(said(text))]
        assert whole == [(event.kind, event.code, event.pci, event.text) for event in family.find(said(few))]


def test_every_needle_is_asked_for() -> None:
    """Those of the three checks, of lost messages, and what may hide one."""
    wanted = {
        *xid.NEEDLES,
        *hardware.NEEDLES,
        *neuron_lines.NEEDLES,
        *log_source.NEEDLES,
        "\x1b",
        "\0",
        "\\x",
    }

    assert {needle.encode() for needle in wanted} == set(explain.NEEDLES)
