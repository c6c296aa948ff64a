"""The picture of a verdict: a PNG without a browser, the same bytes each time, whatever a report says."""

from __future__ import annotations

import struct
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from checks.judge.verdict import unreadable
from checks.model import Report, Verdict
from tasks.render import picture as drawing
from tasks.render.picture import HEIGHT, WIDTH, PictureUnavailable, light, picture
from tests.sample_reports import (
    FACTS,
    POLICY,
    healthy,
    verdict_of,
    with_metric,
    with_row,
    without_node,
    wrong_sums,
)
from tests.tasks.render.fleets import cut_off, fleet, judged

HOSTILE = "$\\frac{a$ $x^2$ \x1b[2J\u202e\x00 <b>&amp; 漢字 \U0001f4a5 " + "n" * 5000


def _size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def _pixel(png: bytes, x: int, y: int) -> str:
    """One pixel's colour as the browser would show it."""
    import io

    from PIL import Image

    with Image.open(io.BytesIO(png)) as image:
        found = image.convert("RGB").getpixel((x, y))
    assert isinstance(found, tuple)
    return "#{:02x}{:02x}{:02x}".format(*found)


@pytest.mark.parametrize(
    ("make", "tone"),
    [
        (lambda: healthy(3, 2), "pass"),
        (lambda: wrong_sums(healthy(6, 2)), "fail"),
        (lambda: without_node(healthy(4, 2), "node-3"), "unknown"),
        (lambda: cut_off(fleet(8), ["ip-10-0-0-15"], 0.2), "fail"),
    ],
    ids=["go", "no-go", "cannot-tell", "pairs"],
)
def test_the_banner_has_the_answers_colour(make: Callable[[], Report], tone: str) -> None:
    """1200 x 900; the page's own tone, so that both are one to the eye."""
    report = make()
    verdict, _ = judged(report, None if "p5" in report.gate_id else POLICY)
    png = picture(report, verdict, "local")

    assert (WIDTH, HEIGHT) == _size(png)
    assert light()[f"{tone}-fill"] == _pixel(png, 5, 5)


def test_the_same_verdict_is_the_same_picture() -> None:
    """Byte for byte: no time and no version in it."""
    report = wrong_sums(healthy())

    assert picture(report, verdict_of(report), "local") == picture(report, verdict_of(report), "local")


def test_another_culprit_is_another_picture() -> None:
    """What it says is the report's."""
    one, other = wrong_sums(healthy(), "node-1/rank-3"), wrong_sums(healthy(), "node-0/rank-1")

    assert picture(one, verdict_of(one), "local") != picture(other, verdict_of(other), "local")


def test_hostile_text_is_drawn_as_text() -> None:
    """Mathematics, controls, characters that no font has, endless names: no error, no warning."""
    report = wrong_sums(healthy())
    report = with_row(
        report, "collective.all_reduce", "node-1/rank-3", lambda row: replace(row, evidence=HOSTILE)
    )
    report = with_metric(report, "network.pairs", "node-0", "peers", (HOSTILE,))
    nodes = tuple(replace(node, name=f"{HOSTILE}{node.rank}") for node in report.nodes)
    plan = tuple(replace(p, check=HOSTILE) if p.check == "training.step" else p for p in report.plan)
    report = replace(report, nodes=nodes, plan=plan, gate_id=HOSTILE, measured_at=HOSTILE)

    assert (WIDTH, HEIGHT) == _size(picture(report, verdict_of(report), HOSTILE))


def test_a_report_that_cannot_be_read_has_a_picture() -> None:
    """Of the answer alone."""
    verdict: Verdict = unreadable("cut at byte 812", POLICY, FACTS, b"{")

    assert light()["unknown-fill"] == _pixel(picture(None, verdict, "local"), 5, 5)


def test_without_pillow_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """An extra that is not installed."""
    monkeypatch.setitem(sys.modules, "PIL", None)

    with pytest.raises(PictureUnavailable, match=r"pip install 'prelaunch\[picture\]'"):
        picture(healthy(), verdict_of(healthy()), "local")


def test_a_drawing_that_fails_is_no_other_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """No verdict hangs on a picture."""
    monkeypatch.setattr(drawing, "grid", lambda *of: 1 / 0)

    with pytest.raises(PictureUnavailable, match="could not be drawn: ZeroDivisionError"):
        picture(healthy(), verdict_of(healthy()), "local")


@pytest.mark.long
def test_a_thousand_nodes_are_drawn_in_seconds() -> None:
    """8,000 GPUs, 61 checks."""
    report = fleet(1000, peers=False)
    verdict, _ = judged(report)
    begun = time.process_time()

    assert (WIDTH, HEIGHT) == _size(picture(report, verdict, "p5-prod"))
    assert time.process_time() - begun < 6
