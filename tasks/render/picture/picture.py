"""The verdict as a picture (PNG), for those who read on a phone: the answer, the culprit, and what it is based on.

It is drawn without a browser and without the network; the same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from checks.model import Answer, Report, Verdict
from tasks.render.context import NO_CONTEXT, VerdictContext
from tasks.render.headline import answer_word, explanation, without_coverage
from tasks.render.picture.canvas import PictureUnavailable, Sheet
from tasks.render.picture.colours import light
from tasks.render.picture.panels import Area, draw_curve, draw_grid, draw_heat
from tasks.render.views.bandwidth import bandwidth_rows, sweeps
from tasks.render.views.heatmap import HeatMap
from tasks.render.views.node_grid import grid
from tasks.render.views.pairs import pair_map
from tasks.render.views.rails import first_map
from tasks.render.views.suspects import SuspectRow, suspect_rows

WIDTH, HEIGHT, EDGE, GAP = 1200, 900, 36, 36
LINES = 4
_TONES = {Answer.GO: "pass", Answer.NO_GO: "fail", Answer.CANNOT_TELL: "unknown", Answer.ASK: "warn"}


def picture(
    report: Report | None, verdict: Verdict, name: str, context: VerdictContext = NO_CONTEXT
) -> bytes:
    """A PNG of 1200 x 900 pixels. Raises PictureUnavailable, and nothing else."""
    try:
        sheet = Sheet(WIDTH, HEIGHT)
        below = _banner(sheet, verdict, name)
        below = _coverage(sheet, verdict, below)
        if report is not None:
            _panels(sheet, report, verdict, context, below)
            _footer(sheet, report)
        return sheet.png()
    except PictureUnavailable:
        raise
    except Exception as error:
        raise PictureUnavailable(
            f"the picture could not be drawn: {type(error).__name__}: {error}"
        ) from error


def _banner(sheet: Sheet, verdict: Verdict, name: str) -> float:
    """Draw answer and culprit; returns where that ends."""
    tone, word = _TONES[verdict.answer], answer_word(verdict)
    fill, ink = light()[f"{tone}-fill"], light()[f"{tone}-ink"]
    room = WIDTH - 2 * EDGE
    said = without_coverage(verdict, name).removeprefix(f"{word} ")  # the coverage is below, in numbers
    lines = sheet.wrapped(said, 34, room, LINES, bold=True)
    meant = sheet.wrapped(explanation(verdict), 25, room, 2)
    height = 112 + 46 * len(lines) + 34 * len(meant) + 20
    sheet.box(0, 0, WIDTH, height, fill)
    sheet.text(EDGE, 62, word, 72, ink, bold=True)
    y = 134.0
    for line in lines:
        sheet.text(EDGE, y, line, 34, ink, bold=True)
        y += 46
    for line in meant:
        sheet.text(EDGE, y, line, 25, ink)
        y += 34
    return height


def _coverage(sheet: Sheet, verdict: Verdict, y: float) -> float:
    """Draw how many required observations were made; what is incomplete is written in words."""
    c = verdict.coverage
    counts = [("nodes", c.nodes), ("GPUs", c.gpus), ("ranks", c.ranks), ("observations", c.checks)]
    shown = [(what, count) for what, count in counts if count.required]
    each = (WIDTH - 2 * EDGE) / max(1, len(shown))
    for place, (what, count) in enumerate(shown):
        x, lacking = EDGE + place * each, count.observed < count.required
        colour = light()["unknown" if lacking else "text"]
        number = f"{'? ' if lacking else ''}{count.observed} of {count.required}"
        size = next((size for size in (30, 26, 22) if sheet.width_of(number, size, True) < each - 12), 19)
        sheet.text(x, y + 36, sheet.fitted(number, size, each - 12, bold=True), size, colour, bold=True)
        said = f"{what}, not all" if lacking else what
        sheet.text(x, y + 68, sheet.fitted(said, 22, each - 12), 22, light()["quiet"])
    return y + 92


def _panels(sheet: Sheet, report: Report, verdict: Verdict, context: VerdictContext, y: float) -> None:
    """Node x check at the left; at the right what was measured between machines, where anything was."""
    height = HEIGHT - y - 44
    half = (WIDTH - 2 * EDGE - GAP) / 2
    right = Area(EDGE + half + GAP, y, half, height)
    measured = [sweep for sweep in sweeps(report) if len(sweep.samples) > 1]
    about_pairs = any(
        finding.check.startswith("network.") or finding.check.endswith(".pairs")
        for finding in verdict.findings[:1]
    )
    # The map of all pairs takes long to make, so it is made only if it is drawn.
    pairs, suspects = _pairs(report, verdict, context) if about_pairs or not measured else (None, ())
    if pairs is not None:
        draw_heat(sheet, right, pairs, suspects)
    elif measured:
        rows = bandwidth_rows(measured, context.expected)
        draw_curve(sheet, right, measured, rows, tuple(finding.check for finding in verdict.findings))
    drawn = pairs is not None or bool(measured)
    draw_grid(sheet, Area(EDGE, y, half if drawn else WIDTH - 2 * EDGE, height), grid(report, verdict))


def _pairs(
    report: Report, verdict: Verdict, context: VerdictContext
) -> tuple[HeatMap | None, Sequence[SuspectRow]]:
    """The map with suspects, and these; without any the bandwidth between hosts, or the first map that there is."""
    decoded, suspects = first_map(context.shown), suspect_rows(context.shown)
    if decoded is not None and suspects:
        return decoded, suspects
    return pair_map(report, verdict) or decoded, ()


def _footer(sheet: Sheet, report: Report) -> None:
    said = f"Gate {report.gate_id}, measured at {report.measured_at}, {report.declared.nodes} x {report.declared.instance_type}"
    sheet.text(EDGE, HEIGHT - 22, sheet.fitted(said, 20, WIDTH - 2 * EDGE), 20, light()["quiet"])
