"""The picture of a verdict: a PNG without a browser, the same bytes each time, whatever a report says."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from checks.judge.verdict import unreadable
from checks.model import Report, Verdict
from tasks.render.picture import canvas
from tasks.render.picture import picture as drawing
from tasks.render.picture.canvas import PictureUnavailable, Sheet
from tasks.render.picture.colours import light
from tasks.render.picture.picture import HEIGHT, WIDTH, picture
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
    verdict, beside = judged(report, None if "p5" in report.gate_id else POLICY)
    png = picture(report, verdict, "local", beside)

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


def test_what_no_font_has_is_written_out() -> None:
    """Nothing is drawn as a box, which says nothing."""
    sheet = Sheet(100, 100)

    assert "a\\u6f22" == sheet.shown("a漢")


def test_cells_are_where_their_rows_say() -> None:
    """The first row is at the top, and what is drawn later lies on top."""
    sheet = Sheet(100, 100)
    sheet.box(0, 0, 100, 100, "#111111")
    sheet.cells(10, 20, 60, [["#ff0000", "#00ff00", "#0000ff"], *[["#ffffff"] * 3] * 2])
    sheet.dot(20, 70, 5, "#222222")
    drawn = sheet.png()

    assert ["#ff0000", "#00ff00", "#0000ff"] == [_pixel(drawn, x, 21) for x in (11, 31, 69)]
    assert ["#111111"] * 4 == [_pixel(drawn, *place) for place in ((9, 30), (71, 30), (30, 19), (30, 81))]
    assert ["#ffffff", "#222222"] == [_pixel(drawn, *place) for place in ((11, 79), (20, 70))]


def test_a_map_that_is_not_drawn_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the curve of a collective is drawn: a map of all pairs takes longer than the rest of the picture."""
    report = fleet(2)
    verdict, beside = judged(report)
    monkeypatch.setattr(drawing, "pair_map", lambda *of: 1 / 0)
    monkeypatch.setattr(drawing, "first_map", lambda *of: 1 / 0)

    assert (WIDTH, HEIGHT) == _size(picture(report, verdict, "local", beside))


def test_text_is_cut_to_its_room() -> None:
    """Names keep both ends; lines end in an ellipsis where one more would not fit."""
    sheet = Sheet(600, 100)
    name = sheet.fitted("ip-10-0-3-7.eu-central-1.compute.internal", 22, 150)
    lines = sheet.wrapped("a sentence of words " * 20, 22, 300, 2)

    assert name.startswith("ip") and name.endswith("al") and "…" in name
    assert sheet.width_of(name, 22) <= 150
    assert 2 == len(lines) and lines[-1].endswith("…")
    assert all(sheet.width_of(line, 22) <= 300 for line in lines)


def test_without_matplotlib_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """An extra that is not installed."""
    monkeypatch.delitem(sys.modules, "matplotlib.font_manager", raising=False)
    monkeypatch.setattr(canvas, "find_spec", lambda name: None)

    with pytest.raises(PictureUnavailable, match=r"pip install 'prelaunch\[picture\]'"):
        picture(healthy(), verdict_of(healthy()), "local")


def test_a_drawing_that_fails_is_no_other_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """No verdict hangs on a picture."""
    monkeypatch.setattr(drawing, "grid", lambda *of: 1 / 0)

    with pytest.raises(PictureUnavailable, match="could not be drawn: ZeroDivisionError"):
        picture(healthy(), verdict_of(healthy()), "local")


def test_nothing_is_written_outside_the_temporary_folder(tmp_path: Path) -> None:
    """Neither in the home nor in the working folder, whose matplotlibrc is not read; no word, no warning, no network."""
    home, here, temporary = (tmp_path / name for name in ("home", "here", "tmp"))
    for folder in (home, here, temporary):
        folder.mkdir()
    (here / "matplotlibrc").write_text("nonsense: 1\nsavefig.dpi: 10\n")
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from tests.sample_reports import healthy, verdict_of\n"
        "from tasks.render.picture.picture import picture\n"
        "sys.stdout.buffer.write(picture(healthy(), verdict_of(healthy()), 'local'))\n"
        "assert 'matplotlib.figure' not in sys.modules  # its import takes longer than the drawing\n"
    )
    root = str(Path(__file__).resolve().parents[4])
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(temporary)}
    ended = subprocess.run(
        (sys.executable, "-W", "error", "-c", script, root),
        cwd=here,
        env=environment,
        capture_output=True,
        check=False,
    )

    assert (0, b"") == (ended.returncode, ended.stderr)
    assert picture(healthy(), verdict_of(healthy()), "local") == ended.stdout
    assert ([], ["matplotlibrc"]) == ([*home.iterdir()], [path.name for path in here.iterdir()])
    assert [f"prelaunch-matplotlib-{os.getuid()}"] == [path.name for path in temporary.iterdir()]


def test_a_cache_that_somebody_else_could_write_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a shared temporary folder the name is known to everybody."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / f"prelaunch-matplotlib-{os.getuid()}").mkdir()
    (tmp_path / f"prelaunch-matplotlib-{os.getuid()}").chmod(0o777)

    assert f"prelaunch-matplotlib-{os.getuid()}" != canvas._cache().name


@pytest.mark.long
def test_a_thousand_nodes_are_drawn_in_seconds() -> None:
    """8,000 GPUs, 61 checks."""
    report = fleet(1000, peers=False)
    verdict, beside = judged(report)
    begun = time.process_time()

    assert (WIDTH, HEIGHT) == _size(picture(report, verdict, "p5-prod", beside))
    assert time.process_time() - begun < 6
