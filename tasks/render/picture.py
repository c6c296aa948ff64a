"""The verdict as a picture (PNG), for those who read on a phone: the answer, the culprit, what it is based on, and nodes by checks.

It is drawn with Pillow and its own font, without a browser and without the network; the same input gives the same bytes. Text is never
markup, and a character that is not ASCII is written out.
"""

from __future__ import annotations

import io
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from checks.model import Answer, Report, Verdict
from tasks.render.headline import answer_word, counts_of, explanation, without_coverage
from tasks.render.views.node_grid import Grid, grid
from tasks.render.views.nodes import Line, State
from tasks.text.inert import one_line

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont

WIDTH, HEIGHT, EDGE = 1200, 900, 36
ROOM = WIDTH - 2 * EDGE
COLUMNS, ROW, NAMES = 4, 38, 330
TONES = {Answer.GO: "pass", Answer.NO_GO: "fail", Answer.CANNOT_TELL: "unknown", Answer.ASK: "warn"}
STATES = {
    State.SKIPPED: "skipped", State.PASS: "pass", State.WARN: "warn", State.UNKNOWN: "unknown", State.FAIL: "fail",
}  # fmt: skip
STYLE = Path(__file__).with_name("report.css")


class PictureUnavailable(Exception):
    """No picture could be drawn; the message says why, and the remedy."""


def picture(report: Report | None, verdict: Verdict, name: str) -> bytes:
    """A PNG of 1200 x 900 pixels. Raises PictureUnavailable, and nothing else."""
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:
        raise PictureUnavailable("Pillow is not installed: pip install 'prelaunch[picture]'") from error
    try:
        image, out = Image.new("RGB", (WIDTH, HEIGHT), "#ffffff"), io.BytesIO()
        sheet = ImageDraw.Draw(image)
        y = _coverage(sheet, verdict, _banner(sheet, verdict, name))
        if report is not None:
            _grid(sheet, grid(report, verdict), y)
            declared = f"{report.declared.nodes} x {report.declared.instance_type}"
            footer = f"Gate {report.gate_id}, measured at {report.measured_at}, {declared}"
            _text(sheet, EDGE, HEIGHT - 36, footer, 20, "quiet", ROOM)
        image.save(out, "PNG")
        return out.getvalue()
    except Exception as error:
        raise PictureUnavailable(
            f"the picture could not be drawn: {type(error).__name__}: {error}"
        ) from error


@cache
def light() -> dict[str, str]:
    """The colours of the page's light scheme by name, such as "fail-fill" and "fail-ink"."""
    return dict(re.findall(r"--([a-z0-9-]+):\s*(#[0-9a-f]{6})", STYLE.read_text().partition("@media")[0]))


def _banner(sheet: ImageDraw, verdict: Verdict, name: str) -> int:
    """Draw answer, culprit and meaning; returns where that ends."""
    tone, word = TONES[verdict.answer], answer_word(verdict)
    sentence = without_coverage(verdict, name).removeprefix(f"{word} ")  # the coverage is below, in numbers
    lines = [(line, 34) for line in _wrapped(sentence, 34, 4)]
    lines += [(line, 25) for line in _wrapped(explanation(verdict), 25, 2)]
    height = 122 + sum(size + 11 for _, size in lines)
    sheet.rectangle((0, 0, WIDTH, height), light()[f"{tone}-fill"])
    _text(sheet, EDGE, 20, word, 72, f"{tone}-ink", ROOM)
    y = 108
    for line, size in lines:
        _text(sheet, EDGE, y, line, size, f"{tone}-ink", ROOM)
        y += size + 11
    return height


def _coverage(sheet: ImageDraw, verdict: Verdict, y: int) -> int:
    """Draw how many required observations were made; what is incomplete is written in words."""
    shown = counts_of(verdict.coverage)
    width = ROOM // max(1, len(shown))
    for place, (what, count) in enumerate(shown):
        x, lacks_some = EDGE + place * width, count.observed < count.required
        number = f"{'? ' if lacks_some else ''}{count.observed} of {count.required}"
        _text(sheet, x, y + 16, number, 28, "unknown" if lacks_some else "text", width - 12)
        _text(sheet, x, y + 52, f"{what}, not all" if lacks_some else what, 22, "quiet", width - 12)
    return y + 96


def _grid(sheet: ImageDraw, nodes: Grid, y: int) -> None:
    """Draw the worst nodes and the worst checks; then how many nodes are not shown, and what became of them."""
    own = min(COLUMNS, len(nodes.columns))
    rest = len(nodes.columns) - own + len(nodes.merged)
    titles = ["all checks", *(column.planned.check for column in nodes.columns[:own])]
    titles += [f"{rest} other checks"] if rest else []
    width = (ROOM - NAMES) // len(titles)
    for place, title in enumerate(titles):
        _text(sheet, EDGE + NAMES + place * width, y + 6, title, 17, "quiet", width - 8)
    y += 32
    lines = nodes.lines[: (HEIGHT - 76 - y) // ROW]
    for line in lines:
        _text(sheet, EDGE, y + 6, line.name, 22, "text", NAMES - 12)
        cells = [line.state, *line.cells[:own], *([max(line.cells[own:])] if rest else [])]
        for place, state in enumerate(cells):
            x, tone = EDGE + NAMES + place * width, STATES[state]
            sheet.rectangle((x + 1, y + 1, x + width - 2, y + ROW - 2), light()[f"{tone}-fill"])
            _text(sheet, x + 8, y + 7, state.word, 20, f"{tone}-ink", width - 14)
        y += ROW
    _text(sheet, EDGE, y + 6, _not_shown(nodes, lines), 20, "quiet", ROOM)


def _not_shown(nodes: Grid, lines: tuple[Line, ...]) -> str:
    """Such as "12 more nodes: 2 warn, 10 pass"; "" if each node has a line."""
    states = [line.state for line in lines if not line.is_cluster]
    rest = [(state.word, count - states.count(state)) for state, count in nodes.counts]
    parts = [f"{count} {word}" for word, count in rest if count > 0]
    return f"more nodes: {', '.join(parts)}" if parts else ""


def _text(sheet: ImageDraw, x: int, y: int, text: str, size: int, colour: str, room: int) -> None:
    """One line from x on, its middle left out where it is too wide: a name differs at its ends."""
    line, font = _shown(text), _font(size)
    head, tail = (len(line) + 1) // 2, len(line) // 2
    while font.getlength(line) > room and head > 1:
        head, tail = head - 1, max(tail - 1, 0)
        line = f"{_shown(text)[:head]}...{_shown(text)[-tail:] if tail else ''}"
    sheet.text((x, y), line, light()[colour], font)


def _wrapped(text: str, size: int, most: int) -> list[str]:
    """At most so many lines; what does not fit ends in three dots."""
    lines = [""]
    for word in _shown(text).split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if _font(size).getlength(longer) > ROOM - 40:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines if len(lines) <= most else [*lines[: most - 1], f"{lines[most - 1]} ..."]


def _shown(text: str) -> str:
    return one_line(text, 1000).encode("ascii", "backslashreplace").decode()


@cache
def _font(size: int) -> FreeTypeFont:
    from PIL.ImageFont import FreeTypeFont, load_default

    font = load_default(size)
    if not isinstance(font, FreeTypeFont):
        raise TypeError("this Pillow was built without FreeType")
    return font
