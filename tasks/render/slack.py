"""What Slack shows of a gate run: its message while it runs and at its end, and the thread below it (pure)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.notifiers.base import Item, Kind, Link, Page, Status
from tasks.render.browsable import browsable
from tasks.render.clean import clean, one_line
from tasks.render.slackask import question_blocks
from tasks.render.slackline import first_line
from tasks.render.slacktext import (
    CONTEXT,
    FALLBACK,
    HEADER,
    TEXT,
    Block,
    code,
    cut,
    entities,
    escape,
    fit,
    header,
    link,
    marked,
    mention,
    opens,
    plain,
    small,
    small_marked,
)

ITEMS_SHOWN = 3
DIAGNOSES = 3
EVIDENCE = 1500
DOING = {
    "checks": "checking",
    "preflight": "looking at",
    "capacity": "waiting for machines of",
    "pool": "waiting for machines of",
    "training": "training on",
    "adopt": "taking over",
    "question": "waiting for an answer about",
}
CUT = "This message is cut at Slack's limits. All of it is in the report."


# As tasks.question writes who answered.
_PROVEN = re.compile(r"([UW][A-Z0-9]{2,30}) \(Slack\)")


@dataclass(frozen=True)
class Message:
    """`text` stands in notifications, and alone where Slack refuses the blocks; `long` is what is shown then."""

    text: str
    blocks: list[Block]
    long: str = ""


def status_message(status: Status) -> Message:
    """Such as "checking p5-prod: 14 of 27 observations, 1 min 20 s"."""
    line = f"{DOING.get(status.stage, status.stage)} {status.gate or status.cluster}"
    line += f": {status.done} of {status.total} observations" if status.total else ""
    line += f", {elapsed(status.elapsed_s)}"
    blocks = [header(line)]
    blocks += [plain(one_line(status.detail, 600))] if status.detail else []
    blocks += [small(f"cluster {status.cluster}, gate {status.gate_id}"), *_links(status.links)]
    return Message(escape(line, FALLBACK), blocks)


def page_message(page: Page) -> Message:
    """The run's message in its final state, or with its question."""
    line = first_line(page)
    blocks = [header(line)]
    blocks += [plain(one_line(page.title, 600))] if len(line) > HEADER else []
    blocks.append(small(f"gate {page.gate or '-'}, cluster {page.cluster}, run {page.gate_id}"))
    blocks += [plain(page.answered)] if page.answered else []
    blocks += _facts(page)
    for item in page.items[:ITEMS_SHOWN]:
        blocks += _finding(item)
    more = len(page.items) + page.more_items - ITEMS_SHOWN
    blocks += (
        [small(f"and {_plural(more, 'more finding')}: see the thread and the report")] if more > 0 else []
    )
    blocks += [plain("\n".join(page.costs))] if page.costs else []
    tail = _tail(page)
    return Message(escape(line, FALLBACK), fit([*blocks, *tail], CUT, len(tail)), _long(page))


def call_message(page: Page, ids: Sequence[str]) -> Message:
    """The reply that calls people: who, the first line, and what to do first."""
    line = first_line(page)
    called = f"{mention(ids)} " if ids else ""
    blocks = [marked(f"{called}*{escape(line)}*")]
    first = page.items[0] if page.items else None
    if page.kind is Kind.QUESTION:
        blocks.append(plain("It waits for an answer: see the first message of this thread."))
    elif first is not None and first.remedy:
        blocks.append(plain(f"What to do: {first.remedy}"))
    return Message(called + escape(line, FALLBACK), blocks)


def diagnoses(page: Page) -> tuple[Message, ...]:
    """The thread: every finding with evidence, remedy and commands; then the costs, the facts and the links."""
    parts = [_finding(item, evidence=True) for item in page.items]
    end: list[Block] = [plain("\n".join(page.costs))] if page.costs else []
    end += [*_facts(page), *_links((*page.links, *_report(page)))]
    messages: list[list[Block]] = [[]]
    left = len(parts)
    for part in parts:
        wider = [*messages[-1], *part]
        if messages[-1] and fit(wider, CUT) != wider:
            if len(messages) == DIAGNOSES:
                break
            messages.append([])
            wider = part
        messages[-1] = fit(wider, CUT)
        left -= 1
    left += page.more_items
    end = [small(f"and {_plural(left, 'more finding')} in the report"), *end] if left else end
    last = [*messages[-1], *end]
    messages[-1:] = [last] if fit(last, CUT) == last else [messages[-1], fit(end, CUT)]
    line = escape(f"Diagnostics: {first_line(page)}", FALLBACK)
    return tuple(Message(line, blocks) for blocks in messages if blocks)


def answer_message(said: str) -> Message:
    """Who decided what, and why; a user whom Slack proved is shown by name."""
    who = _PROVEN.match(said)
    if who is None:
        return Message(escape(said, FALLBACK), [plain(said)])
    rest = said[who.end() :]
    return Message(escape(said, FALLBACK), [marked(f"<@{who[1]}> (Slack) {escape(rest, TEXT // 2)}")])


def elapsed(seconds: float) -> str:
    """ "45 s", "1 min 20 s", "2 h 5 min"."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _finding(item: Item, evidence: bool = False) -> list[Block]:
    said = f"{item.word} {item.cause} {item.where}: {item.check}: {item.message}"
    said += f"\nRemedy: {item.remedy}" if item.remedy else ""
    blocks = [plain(said)]
    blocks += [code("\n".join(item.commands))] if item.commands else []
    blocks += [code(item.evidence, EVIDENCE)] if evidence and item.evidence else []
    return blocks


def _facts(page: Page) -> list[Block]:
    meaning = [value for key, value in page.facts if key == "what it means"]
    others = [f"{key}: {value}" for key, value in page.facts if key != "what it means" and value]
    return [*(plain(value) for value in meaning), *([small("\n".join(others))] if others else [])]


def _tail(page: Page) -> list[Block]:
    """What stays however long the message is."""
    blocks = [small(f"Could not be told otherwise: {'; '.join(page.said)}")] if page.said else []
    if page.no_picture:
        blocks.append(
            small(f"No picture in the thread: {one_line(page.no_picture, 300)} The report shows it.")
        )
    blocks += _links((*page.links, *_report(page)))
    return [*blocks, *(question_blocks(page.gate_id, page.question) if page.question else ())]


def _report(page: Page) -> tuple[Link, ...]:
    return (Link("report", page.url),) if page.url else ()


def _links(links: Sequence[Link]) -> list[Block]:
    """What a browser opens as links; the rest as text."""
    found = [(one.text, browsable(one.url)) for one in links]
    shown, left = "", 0
    for text, url in ((text, url) for text, url in found if opens(url)):
        wider = f"{shown}  |  {link(text, url)}" if shown else link(text, url)
        shown, left = (wider, left) if len(wider) < CONTEXT - 100 else (shown, left + 1)
    shown += f"  |  and {_plural(left, 'more link')} in the report" if left else ""
    others = "\n".join(f"{text}: {url}" for text, url in found if url and not opens(url))
    return [*([small_marked(shown)] if shown else []), *([small(others)] if others else [])]


def _long(page: Page) -> str:
    return entities(cut(clean(f"{page.title}\n{page.text}"), TEXT))[: TEXT + 400]


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
