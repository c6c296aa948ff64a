"""The Slack messages of a gate run: its message while it runs and at its end, its question, and the thread below it (pure).

A message begins with one line that names the answer and the culprit. A message with a question shows the deadline, where to
answer, and the buttons. A button's value says which question it answers, and proves nothing: whoever handles the click reads the
question from the store.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from checks.value_types import age_text
from tasks.notifiers.base import MEANING, PAID, AnswerLine, Item, Link, Notification, PendingQuestion, Status
from tasks.notifiers.slack.blocks import (
    CONTEXT,
    FALLBACK,
    HEADER,
    TEXT,
    Block,
    code,
    entities,
    escape,
    fit,
    header,
    is_local,
    link,
    marked,
    mention,
    opens,
    plain,
    small,
    small_marked,
    when,
)
from tasks.text.inert import browsable, clean, one_line
from tasks.text.tables import counted, excerpt

APPROVE, REFUSE, RECHECK = "prelaunch_approve", "prelaunch_refuse", "prelaunch_recheck"
ACTIONS = (APPROVE, REFUSE, RECHECK)
BLOCK_ID = "prelaunch_question"
LINE = 300
ITEMS_SHOWN = 3
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
# Behind a link to a server on the machine that wrote the message.
ELSEWHERE = "opens only on the machine that runs this server"
# Facts that stand before the findings, and are not cut with the last ones.
FIRST = (MEANING, PAID)
CUT = "This message is truncated at Slack's limits. The report has everything."
# Nothing else may stand in a mention: https://docs.slack.dev/messaging/formatting-message-text#mentioning-users.
_USER = re.compile(r"[UW][A-Z0-9]{2,30}")


def question_blocks(gate_id: str, question: PendingQuestion) -> list[Block]:
    """The deadline and how to answer; buttons only if somebody may press them."""
    ways = ["with the buttons below"] if question.by_slack else []
    ways += [_in_prefect(question.url)] if question.url and not question.repair else []
    how = f"Answer {' or '.join(ways)} by" if ways else "It waits until"
    lines = [f"{label}: {effect}." for label, effect in question.choices]
    text = marked("\n".join([_question_line(question, how), *lines]))
    text["block_id"] = BLOCK_ID
    return [text, _buttons(gate_id, question)] if question.by_slack else [text]


def _question_line(question: PendingQuestion, how: str) -> str:
    prompt = f"*{escape(question.prompt, LINE)}* {how} {when(question.deadline)}"
    return f"{prompt}. Without an answer by then, {question.default}."


def _in_prefect(url: str) -> str:
    if opens(url):
        return f"{link('in Prefect', url)} (the button Resume on the run's page)"
    return f"in Prefect (the button Resume on the run's page; {escape(url)} {ELSEWHERE})"


def without_question(blocks: Sequence[Block]) -> list[Block]:
    """The message's blocks after the question was answered."""
    return [block for block in blocks if not str(block.get("block_id", "")).startswith(BLOCK_ID)]


def _buttons(gate_id: str, question: PendingQuestion) -> Block:
    value = {"flow_run_id": question.flow_run_id, "gate_id": gate_id, "key": question.key}
    pairs = zip((REFUSE, APPROVE, RECHECK), question.choices, strict=False)
    elements = [_button(action, label, value) for action, (label, _) in pairs]
    elements[1] |= {"style": "danger"} if question.override and not question.repair else {}
    return {"type": "actions", "block_id": f"{BLOCK_ID}_buttons", "elements": elements}


def _button(action: str, text: str, value: dict[str, str]) -> Block:
    label = {"type": "plain_text", "text": text, "emoji": False}
    return {"type": "button", "action_id": action, "text": label, "value": json.dumps(value)}


def first_line(page: Notification) -> str:
    """The title: "NO-GO p5-prod: node ip-10-0-3-7 fails DCGM's diagnostic: GPU 5: memory: error 44"."""
    return one_line(page.title, LINE) or f"{page.topic} {page.gate or page.cluster}"


@dataclass(frozen=True)
class Message:
    """`text` is shown in notifications, and alone if Slack refuses the blocks; `long` is what is shown then."""

    text: str
    blocks: list[Block]
    long: str = ""


def status_message(status: Status) -> Message:
    """Such as "checking p5-prod: 14 of 27 observations, 1 min 20 s"."""
    line = f"{DOING.get(status.stage, status.stage)} {status.gate or status.cluster}"
    line += f": {status.done} of {status.total} observations" if status.total else ""
    line += f", {age_text(status.elapsed_s)}"
    blocks = [header(line)]
    blocks += [plain(one_line(status.detail, 600))] if status.detail else []
    blocks += [small(f"cluster {status.cluster}, gate {status.gate_id}"), *_links(status.links)]
    return Message(escape(line, FALLBACK), blocks)


def notification_message(page: Notification) -> Message:
    """The run's message in its final state, or with its question."""
    line = first_line(page)
    blocks = [header(line) if len(line) <= HEADER else plain(one_line(page.title, 1200))]
    about = escape(f"gate {page.gate or '-'}, cluster {page.cluster}, run {page.gate_id}")
    blocks.append(small_marked(f"{about}, measured {when(page.measured_s)}" if page.measured_s else about))
    blocks += [plain(str(page.answer))] if page.answer else []
    blocks += [
        plain(value if key == MEANING else f"{key}: {value}") for key, value in page.facts if key in FIRST
    ]
    blocks += [] if page.items or page.facts or not page.text else [plain(page.text)]
    blocks += [block for item in page.items[:ITEMS_SHOWN] for block in finding_blocks(item)]
    more = len(page.items) + page.more_items - ITEMS_SHOWN
    blocks += (
        [small(f"and {counted(more, 'more finding')}: see the thread and the report")] if more > 0 else []
    )
    blocks += [plain("\n".join(page.costs))] if page.costs else []
    others = [f"{key}: {value}" for key, value in page.facts if key not in FIRST and value]
    blocks += [small("\n".join(others))] if others else []
    tail = _tail(page)
    return Message(escape(line, FALLBACK), fit([*blocks, *tail], CUT, len(tail)), _long(page))


def mention_message(page: Notification, ids: Sequence[str]) -> Message:
    """The reply that @-mentions people: who, the first line, and what to do first, or by when to answer. Of several findings with
    commands it has the first command of each, and its machine, up to ITEMS_SHOWN.
    """
    line = first_line(page)
    called = f"{mention(ids)} " if ids else ""
    blocks = [*([marked(mention(ids))] if ids else []), plain(line)]
    first = page.items[0] if page.items else None
    if page.question is not None:
        blocks.append(marked(_question_line(page.question, "Answer in the message above by")))
    elif first is not None and first.remedy:
        meaning = [value for key, value in page.facts if key == MEANING]
        blocks.append(plain("\n".join([*meaning, f"Do: {first.remedy}"])))
        commands = {line: item.where for item in page.items[:ITEMS_SHOWN] for line in item.commands}
        are_several = len(set(commands.values())) > 1
        lines = [f"{line}  # {where}" if are_several else line for line, where in commands.items()]
        blocks += [code("\n".join(lines))] if lines else []
    else:
        blocks += [plain(value) for key, value in page.facts if key == MEANING]
    return Message(called + escape(line, FALLBACK), blocks)


def more_message(page: Notification) -> Message | None:
    """The findings for which the run's message has no room, for its thread; None if there are none."""
    blocks = [block for item in page.items[ITEMS_SHOWN:] for block in finding_blocks(item)]
    if not blocks:
        return None
    blocks += (
        [small(f"and {counted(page.more_items, 'more finding')} in the report")] if page.more_items else []
    )
    return Message(escape(f"More findings of {first_line(page)}", FALLBACK), fit(blocks, CUT))


def answer_message(answer: AnswerLine) -> Message:
    """Who decided what, and why; a user whom Slack proved is shown by name."""
    line = str(answer)
    if not _USER.fullmatch(answer.slack_user):
        return Message(escape(line, FALLBACK), [plain(line)])
    markup = f"{mention((answer.slack_user,))} (Slack) {escape(answer.text, TEXT // 2)}"
    return Message(escape(line, FALLBACK), [marked(markup)])


def finding_blocks(item: Item) -> list[Block]:
    """A finding with its remedy, the commands to type, and its evidence. What the title says already is not repeated."""
    text = f"{item.heading}: {item.where} ({item.check})" if item.is_titled else str(item)
    text += f"\nDo: {item.remedy}" if item.remedy else ""
    blocks = [plain(text)]
    blocks += [code("\n".join(item.commands))] if item.commands else []
    blocks += [small("Evidence:"), code(item.evidence, EVIDENCE)] if item.evidence else []
    return blocks


def _tail(page: Notification) -> list[Block]:
    """The end of a message, which stays however long the message is."""
    blocks = [small(f"Other notifiers failed: {'; '.join(page.failed)}")] if page.failed else []
    blocks += _links((*((Link("report", page.url),) if page.url else ()), *page.links))
    return [*blocks, *(question_blocks(page.gate_id, page.question) if page.question else ())]


def _links(links: Sequence[Link]) -> list[Block]:
    """Links for the URLs that every reader's browser can open; the rest as text."""
    pairs = [(entry.text, browsable(entry.url)) for entry in links]
    markup, left = "", 0
    for text, url in ((text, url) for text, url in pairs if opens(url)):
        wider = f"{markup}  |  {link(text, url)}" if markup else link(text, url)
        markup, left = (wider, left) if len(wider) < CONTEXT - 100 else (markup, left + 1)
    markup += f"  |  and {counted(left, 'more link')} in the report" if left else ""
    others = "\n".join(
        f"{text}: {url}{f' ({ELSEWHERE})' if is_local(url) else ''}"
        for text, url in pairs
        if url and not opens(url)
    )
    return [*([small_marked(markup)] if markup else []), *([small(others)] if others else [])]


def _long(page: Notification) -> str:
    return entities(excerpt(clean(f"{page.title}\n{page.text}"), TEXT))[: TEXT + 400]
