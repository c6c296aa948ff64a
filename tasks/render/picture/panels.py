"""The parts of the picture: node x check, bandwidth against the expected value, and rates between hosts."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.render.picture.canvas import Sheet
from tasks.render.picture.colours import light, shades
from tasks.render.views.bandwidth import Row, Sweep, said_of, scale, size_text
from tasks.render.views.heatmap import HeatMap
from tasks.render.views.node_grid import Grid, GridLine
from tasks.render.views.nodes import State
from tasks.render.views.suspects import SuspectRow

TITLE, TEXT, SMALL, ROW = 27.0, 22.0, 20.0, 38.0
COLUMNS, NUMBERS, SUSPECTS = 2, 6, 3
HEADING = 17.0
TONES = {
    State.SKIPPED: "skipped", State.PASS: "pass", State.WARN: "warn", State.UNKNOWN: "unknown", State.FAIL: "fail",
}  # fmt: skip


@dataclass(frozen=True)
class Area:
    """A part of the sheet, in pixels from the top left."""

    x: float
    y: float
    width: float
    height: float


def draw_grid(sheet: Sheet, area: Area, grid: Grid) -> None:
    """The worst nodes and the worst checks; how many nodes are not shown, and what became of them."""
    top = _title(sheet, area, "Nodes and checks")
    wide = 0.34 * area.width
    titles = ["all", *(column.planned.check for column in grid.columns[:COLUMNS])]
    rest = len(grid.columns[COLUMNS:]) + len(grid.merged)
    titles += [f"{rest} other checks"] if rest else []
    each = (area.width - wide) / len(titles)
    for place, title in enumerate(titles):
        _heading(sheet, area.x + wide + place * each, top, each, title)
    top += 66
    room = int((area.y + area.height - top - 34) // ROW)
    lines = grid.lines if len(grid.lines) <= room else grid.lines[:room]
    for line in lines:
        name = sheet.fitted(line.name, TEXT, wide - 10, bold=True)
        sheet.text(area.x, top + ROW / 2, name, TEXT, light()["text"], bold=True)
        for place, state in enumerate(_states(line, grid)):
            _cell(sheet, area.x + wide + place * each, top, each, state, line.is_cluster)
        top += ROW
    left = _left_over(grid, lines)
    if left:
        sheet.text(area.x, top + 20, sheet.fitted(left, SMALL, area.width), SMALL, light()["quiet"])


def _states(line: GridLine, grid: Grid) -> list[State]:
    own = min(COLUMNS, len(grid.columns))
    others = line.cells[own:]
    return [line.state, *line.cells[:own], *([max(others)] if others else [])]


def _left_over(grid: Grid, shown: Sequence[GridLine]) -> str:
    nodes = sum(count for _, count in grid.counts)
    drawn = [line for line in shown if not line.is_cluster]
    more = nodes - len(drawn)
    if more <= 0:
        return ""
    parts = []
    for state, count in grid.counts:
        rest = count - sum(line.state is state for line in drawn)
        parts += [f"{rest} {state.word}"] if rest else []
    return f"{more} more node{'' if more == 1 else 's'}: {', '.join(parts)}"


def _heading(sheet: Sheet, x: float, y: float, width: float, title: str) -> None:
    """A check's name in up to three lines, broken behind its dots and dashes."""
    lines = [""]
    for part in re.findall(r"[^._ ]+[._ ]?", title):
        if lines[-1] and sheet.width_of(lines[-1] + part, HEADING) > width - 8:
            lines.append("")
        lines[-1] += part
    for place, line in enumerate(lines[:3]):
        sheet.text(
            x + 4, y + 10 + 21 * place, sheet.fitted(line, HEADING, width - 6), HEADING, light()["quiet"]
        )


def _cell(sheet: Sheet, x: float, y: float, width: float, state: State, is_cluster: bool) -> None:
    tone = TONES[state]
    sheet.box(x + 1, y + 1, width - 2, ROW - 2, light()[f"{tone}-fill"])
    text, ink = f"{state.sign} {state.word}", light()[f"{tone}-ink"]
    if is_cluster and state is State.SKIPPED:
        text = state.sign
    if sheet.width_of(text, SMALL) > width - 10:
        text = f"{state.sign} none" if state is State.UNKNOWN else state.sign
    sheet.text(x + 7, y + ROW / 2, text, SMALL, ink)


def draw_curve(
    sheet: Sheet, area: Area, measured: Sequence[Sweep], rows: Sequence[Row], blamed: Sequence[str]
) -> None:
    """One collective: one that a finding names, else the one furthest below what is expected of it."""
    sweep = _chosen(measured, rows, blamed)
    mine = [row for row in rows if row.check == sweep.check]
    top = _title(sheet, area, f"{sweep.check}, GB/s") + 8
    plot = Area(area.x + 62, top, area.width - 72, area.y + area.height - top - 130)
    expected = [row for row in mine if row.expected is not None]
    values = [row.sample.most for row in mine]
    values += [row.expected.value for row in expected if row.expected is not None]
    most, step = scale(max(values), 5)
    sizes = [math.log(row.sample.size_bytes) for row in mine]

    def at(row: Row, value: float) -> tuple[float, float]:
        share = (math.log(row.sample.size_bytes) - sizes[0]) / max(sizes[-1] - sizes[0], 1e-9)
        return plot.x + plot.width * share, plot.y + plot.height * (1 - min(value / most, 1.0))

    band = [
        *(at(row, row.sample.most) for row in mine),
        *(at(row, row.sample.least) for row in reversed(mine)),
    ]
    blue = light()["series-0"]
    sheet.shape(band, blue, 0.25)
    _axes(sheet, plot, [row.sample.size_bytes for row in mine], most, step)
    if len(expected) > 1:
        sheet.line([at(r, r.expected.value) for r in expected if r.expected], light()["text"], 3, (5, 3))
    line = [at(row, row.sample.middle) for row in mine]
    sheet.line(line, blue, 4)
    for x, y in line:
        sheet.dot(x, y, 6, blue)
    _key(sheet, area, blue, bool(expected), said_of(mine[-1]))


def _key(sheet: Sheet, area: Area, blue: str, expected: bool, said: str) -> None:
    y = area.y + area.height - 82
    sheet.line([(area.x, y), (area.x + 44, y)], blue, 4)
    sheet.text(area.x + 52, y, "median, slowest to fastest", SMALL, light()["text"])
    x = area.x + 0.62 * area.width
    if expected:
        sheet.line([(x, y), (x + 44, y)], light()["text"], 3, (5, 3))
        sheet.text(x + 52, y, "expected", SMALL, light()["text"])
    for place, line in enumerate(sheet.wrapped(said, SMALL, area.width, 2)):
        sheet.text(area.x, y + 32 + 26 * place, line, SMALL, light()["text"])


def _chosen(measured: Sequence[Sweep], rows: Sequence[Row], blamed: Sequence[str]) -> Sweep:
    of_check = {sweep.check: sweep for sweep in measured}
    for check in blamed:
        if check in of_check:
            return of_check[check]
    known = [(row.of_expected, row.check) for row in rows if row.of_expected is not None]
    return of_check[min(known)[1]] if known else measured[0]


def _axes(sheet: Sheet, plot: Area, sizes: Sequence[float], most: float, step: float) -> None:
    for place in range(round(most / step) + 1):
        y = plot.y + plot.height * (1 - place * step / most)
        sheet.line([(plot.x, y), (plot.x + plot.width, y)], light()["rule"], 1)
        sheet.text(plot.x - 8, y, f"{place * step:.4g}", SMALL, light()["quiet"], right=True)
    logs = [math.log(size) for size in sizes]
    every = max(1, math.ceil(len(sizes) / 4))
    for place in range(len(sizes) - 1, -1, -every):
        x = plot.x + plot.width * (logs[place] - logs[0]) / max(logs[-1] - logs[0], 1e-9)
        label = size_text(sizes[place])
        half = sheet.width_of(label, SMALL) / 2
        sheet.text(min(x - half, plot.x + plot.width - 2 * half), plot.y + plot.height + 18, label, SMALL,
                   light()["quiet"])  # fmt: skip


def draw_heat(sheet: Sheet, area: Area, pairs: HeatMap, suspects: Sequence[SuspectRow] = ()) -> None:
    """Up to six hosts with their numbers, or all that the map has as shades; who is condemned stands first.

    Below it the likeliest suspects, each with what it rests on.
    """
    top = _title(sheet, area, f"{pairs.title}, {pairs.unit}" if pairs.unit else pairs.title)
    lines = [_suspect(one) for one in suspects[:SUSPECTS]]
    room = area.y + area.height - top - 66 - 27 * len(lines) - (12 if lines else 0)
    if len(pairs.names) <= NUMBERS:
        _numbers(sheet, Area(area.x, top, area.width, room), pairs)
    else:
        _shades(sheet, Area(area.x, top, area.width, room), pairs)
    for place, line in enumerate(lines):
        y = top + room + 14 + 27 * place
        sheet.text(area.x, y, sheet.fitted(line, SMALL, area.width), SMALL, light()["text"])
    x, y = area.x, area.y + area.height - 48
    each = area.width / len(pairs.key)
    for step in pairs.key:
        fill, ink = shades()[step.step]
        sheet.box(x, y, each - 2, 26, fill, light()["rule"])
        sign = " +" if step is pairs.key[-1] and not pairs.lower else ""
        sheet.text(x + 6, y + 13, f"{step.short}{sign}", 18, ink)
        x += each
    sheet.text(area.x, y + 44, sheet.fitted(pairs.said, 18, area.width), 18, light()["quiet"])


def _suspect(one: SuspectRow) -> str:
    kind = "" if one.kind in ("node", "rank", "link") else f"{one.kind} "
    share = "no value" if one.of_usual == "no value" else f"{one.of_usual} of usual"
    return f"{kind}{one.subject}: {one.probability}, {share}"


def _numbers(sheet: Sheet, area: Area, pairs: HeatMap) -> None:
    wide = 0.34 * area.width
    each = (area.width - wide) / max(1, len(pairs.rows))
    tall = min(52.0, (area.height - 34) / max(1, len(pairs.rows)))
    for place, name in enumerate(pairs.shown):
        sheet.text(area.x + wide + place * each + 4, area.y + 16, sheet.ending(name, 18, each - 8), 18,
                   light()["quiet"])  # fmt: skip
    for i, (name, row) in enumerate(pairs.rows):
        y = area.y + 34 + i * tall
        sign = "✕ " if name in pairs.condemned else ""
        sheet.text(area.x, y + tall / 2, sheet.fitted(sign + name, SMALL, wide - 6, bold=True), SMALL,
                   light()["text"], bold=True)  # fmt: skip
        for j, cell in enumerate(row):
            if not cell.text:
                continue
            fill, ink = shades()[cell.step] if cell.step is not None else (light()["soft"], light()["text"])
            sheet.box(area.x + wide + j * each + 1, y + 1, each - 2, tall - 2, fill, light()["rule"])
            text = f"{'✕ ' if cell.bad else '? ' if cell.step is None else ''}{cell.text}"
            sheet.text(
                area.x + wide + j * each + 6, y + tall / 2, sheet.fitted(text, SMALL, each - 10), SMALL, ink
            )


def _shades(sheet: Sheet, area: Area, pairs: HeatMap) -> None:
    side = min(area.width - 150, area.height - 8)
    sheet.cells(area.x, area.y, side, _colours(pairs))
    sheet.line([(area.x, area.y), (area.x + side, area.y), (area.x + side, area.y + side),
                (area.x, area.y + side), (area.x, area.y)], light()["rule"], 1)  # fmt: skip
    x, y, room = area.x + side + 14, area.y + 14, area.width - side - 14
    said = sheet.wrapped(f"{len(pairs.names)} {pairs.of}, from the row to the column", SMALL, room, 4)
    named = [name for name in pairs.names if name in pairs.condemned]
    said += ["", "bad:" if pairs.decoded else "slow:", *named[:6]] if named else []
    for line in said:
        sheet.text(x, y, sheet.fitted(line, SMALL, room), SMALL, light()["text"])
        y += 27


def _colours(pairs: HeatMap) -> list[list[str]]:
    colours = [[light()["soft"]] * len(pairs.names) for _ in pairs.names]
    for y, row in enumerate(pairs.steps):
        for x, step in enumerate(row):
            if step is not None:
                colours[y][x] = light()["rule"] if step < 0 else shades()[step][0]
    return colours


def _title(sheet: Sheet, area: Area, text: str) -> float:
    """Draw the title; returns where the next part begins."""
    sheet.text(
        area.x,
        area.y + 20,
        sheet.fitted(text, TITLE, area.width, bold=True),
        TITLE,
        light()["text"],
        bold=True,
    )
    return area.y + 46
