"""Makes the pictures of docs/ from simulated measurements: python -m tests.browser.pictures docs [NAME ...]; `make pictures`.

Every picture is of the real thing: pages in Chromium, Prefect's own UI, a terminal, and Slack's blocks as they are sent.
"""

from __future__ import annotations

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Literal

import pyte
from playwright.sync_api import Page
from pyte.screens import Char

from checks.model import ANSWER_WORDS, Cause, Finding, Level, Profile, Report
from tasks.render.html import html
from tasks.reports.fleet.page import fleet_page
from tasks.reports.fleet.states import HOUR_S
from tasks.store.node_rows import GateNodes, Standing
from tests.browser.reader import chromium
from tests.browser.slack_page import slack_page
from tests.tasks.render.fleets import cut_off, fleet, judged, silent, unable, with_metrics
from tests.tasks.reports.fleet import test_states as states

ROOT = Path(__file__).parents[2]
SICK = "ip-10-0-0-13"
# Shades of a page are few: an eighth of the bytes, and nobody sees the difference.
COLOURS = 128
COMMAND = (f"{ROOT}/.venv/bin/prelaunch", "gate", f"{ROOT}/deployments/gates/local.toml", "--check-only")
# What stands on the terminal while checks run.
RUNNING = "check"
# On white, with a contrast that can be read.
COLOURS_OF = {
    "green": "#00614a", "red": "#a62b00", "magenta": "#6f3f8c", "brown": "#7a4f00", "blue": "#0060df", "cyan": "#00606b",
    "brightgreen": "#00614a", "brightred": "#a62b00", "brightmagenta": "#6f3f8c", "brightbrown": "#7a4f00", "black": "#1b1f24",
    "white": "#545d68", "brightblack": "#545d68",
}  # fmt: skip
# The pictures that the tests of Prefect's own pages leave, by the names that they have there and here.
PREFECT = {"form": "form", "run-no-go": "run-no-go", "approval": "approval"}


def page_of(report: Report) -> str:
    """The page of a report as a gate on SageMaker would make it."""
    verdict, beside = judged(report)
    place = replace(beside.site, launcher="sagemaker")
    return html(report, verdict, "p5-prod", replace(beside, site=place))


def six() -> str:
    """One of six nodes is slow to every peer, and one has no program for a check."""
    return page_of(unable(cut_off(fleet(6), [SICK], 0.3), "disk.io", "ip-10-0-0-15"))


def sixty_four() -> str:
    """The same, and a node that sent no report."""
    report = unable(cut_off(fleet(64), [SICK], 0.3), "disk.io", "ip-10-0-0-15")
    return page_of(silent(report, "ip-10-0-0-44"))


def thousand() -> str:
    """37 nodes sent no report, and one computes wrong products; the tests of pairs are left out by the gate file."""
    report = fleet(1000, peers=False)
    quiet = [report.declared.node_names[place] for place in range(12, 981, 26)][:37]
    report = with_metrics(silent(report, *quiet), "compute.gemm", "ip-10-0-3-33", wrong_elements=12)
    verdict, beside = judged(report)
    about = tuple(finding for finding in verdict.findings if finding.subject != "cluster")
    return html(report, replace(verdict, findings=about), "p5-prod", beside)


def fleet_over_time() -> str:
    """24 nodes over 30 days: one is condemned, one warns, one sent no report, and one was last proven a week ago."""
    names = [f"ip-10-0-0-{number}" for number in range(11, 35)]
    fail, warn, rank = (Level.FAIL, Cause.HARDWARE), (Level.WARN, Cause.HARDWARE), f"{names[2]}/rank-19"
    wrong = Finding(*fail, "compute.gemm", rank, "computes wrong products", is_predicate=True)
    rate = "write_gbps is 0.41 GB/s, threshold 0.8 GB/s"
    slow = Finding(*warn, "disk.io", names[7], rate, is_predicate=True)
    silent = Finding(Level.FAIL, Cause.EVIDENCE, "report", names[12], "sent no report", is_predicate=True)

    def night(day: int) -> GateNodes:
        rows = {name: states.node(name) for name in names}
        if day < 7:
            del rows[names[20]]
        if day < 2:
            rows[names[2]] = states.node(names[2], Standing.CONDEMNED, [wrong])
        if day < 4:
            rows[names[7]] = states.node(names[7], Standing.DOUBTFUL, [slow])
        if day == 0:
            rows[names[12]] = states.node(names[12], Standing.CANNOT_TELL, [silent], None)
        return states.gate(
            day * states.DAY_S + HOUR_S, *rows.values(), cluster="p5-prod", profile=Profile.STANDARD
        )

    gates = tuple(night(day) for day in range(29, -1, -1))
    return fleet_page(replace(states.fleet(*gates), gates=len(gates)), lambda gate_id: "")


def slack() -> str:
    """A refused gate and a question, as the tests' golden files hold what is sent."""
    golden = ROOT / "tests/golden/slack"
    messages = [json.loads((golden / f"{name}.json").read_text("utf-8")) for name in ("refused", "question")]
    return "".join(map(slack_page, messages))


def terminal() -> str:
    """`prelaunch gate` on this machine, while it runs, as the terminal shows it."""
    rows = _screen()
    while rows and not _said(rows[-1:]).strip():
        rows.pop()
    text = "\n".join("".join(map(_cell, row)) for row in rows)
    style = "body{margin:0;padding:14px;width:max-content} pre{margin:0;font:14px/1.35 'DejaVu Sans Mono','Liberation Mono',monospace}"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><style>{style}</style><pre>{text}</pre></html>'
    )


def _screen() -> list[list[Char]]:
    """The rows of a terminal once the checks run on both nodes."""
    columns, lines = 110, 30
    screen = pyte.Screen(columns, lines)
    stream = pyte.ByteStream(screen)
    stream.feed(b"$ prelaunch gate deployments/gates/local.toml\r\n")
    with tempfile.TemporaryDirectory() as folder:
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(folder)
            os.environ |= {"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": str(lines)}
            os.execv(COMMAND[0], COMMAND)
        best = _rows(screen)
        try:
            ends = time.monotonic() + 180
            while time.monotonic() < ends and select.select([terminal], [], [], 60)[0]:
                stream.feed(os.read(terminal, 512))
                held = "\n".join(screen.display)
                if any(f"{word} local" in held for word in ANSWER_WORDS.values()):
                    break
                if RUNNING in held and len(held.split()) >= len(_said(best).split()):
                    best = _rows(screen)
        except OSError:  # the command has ended
            pass
        finally:
            os.kill(child, signal.SIGINT)
            os.waitpid(child, 0)
            os.close(terminal)
    return best


def _rows(screen: pyte.Screen) -> list[list[Char]]:
    return [[screen.buffer[y][x] for x in range(screen.columns)] for y in range(screen.lines)]


def _said(rows: list[list[Char]]) -> str:
    return "\n".join("".join(char.data for char in row) for row in rows)


def _cell(char: Char) -> str:
    colour = COLOURS_OF.get(char.fg, "inherit" if char.fg == "default" else f"#{char.fg}")
    return f'<span style="color:{colour};font-weight:{700 if char.bold else 400}">{escape(char.data)}</span>'


@contextmanager
def shown(page: str, width: int, height: int, dark: bool = False, at: float | None = None) -> Iterator[Page]:
    """The page in a browser, whose clock says `at` (Unix seconds)."""
    with chromium() as browser:
        scheme: Literal["dark", "light"] = "dark" if dark else "light"
        made = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        if at is not None:
            made.clock.set_fixed_time(at)
        made.set_content(page)
        yield made


def _upper(
    page: Callable[[], str], width: int, height: int, dark: bool = False, at: float | None = None
) -> bytes:
    with shown(page(), width, height, dark, at) as made:
        return made.screenshot()


def _part(page: Callable[[], str], selector: str, width: int, most: int = 10_000) -> bytes:
    with shown(page(), width, 900) as made:
        box = made.locator(selector).first.bounding_box()
        assert box is not None
        height = min(box["height"], most)
        clip = {"x": box["x"], "y": box["y"], "width": box["width"], "height": height}
        return made.screenshot(clip=clip, full_page=True)  # type: ignore[arg-type]


PAGES: Mapping[str, Callable[[], bytes]] = {
    "report": lambda: _upper(six, 1200, 1690),
    "report-phone": lambda: _upper(six, 390, 844, dark=True),
    "report-64-nodes": lambda: _upper(sixty_four, 1280, 1600),
    "report-1000-nodes": lambda: _upper(thousand, 1280, 1600),
    "fleet": lambda: _upper(fleet_over_time, 1440, 900, at=states.NOW),
    "slack": lambda: _part(slack, "body", 760),
    "terminal": lambda: _part(terminal, "body", 1100),
}


def prefect(folder: Path, names: list[str]) -> None:
    """The pages of Prefect, as the tests that use them leave them."""
    with tempfile.TemporaryDirectory() as shots:
        command = (sys.executable, "-m", "pytest", "-q", "-m", "long", "tests/browser_form/test_form.py")
        environment = {**os.environ, "PRELAUNCH_SHOTS": shots}
        subprocess.run(command, cwd=ROOT, env=environment, stdout=sys.stderr, check=True)
        for name in names:
            (folder / f"{name}.png").write_bytes(_small((Path(shots) / f"{PREFECT[name]}.png").read_bytes()))


def _small(png: bytes) -> bytes:
    from PIL import Image

    out, picture = io.BytesIO(), Image.open(io.BytesIO(png)).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return out.getvalue()


def main(folder: Path, names: list[str]) -> None:
    """Make the named pictures, or all."""
    if unknown := set(names) - {*PAGES, *PREFECT}:
        there = ", ".join([*PAGES, *PREFECT])
        raise SystemExit(f"no picture is called {', '.join(sorted(unknown))}. There are: {there}")
    for name in names or PAGES:
        if name in PAGES:
            (folder / f"{name}.png").write_bytes(_small(PAGES[name]()))
            print(f"{folder / name}.png", file=sys.stderr)
    if chosen := [name for name in names or PREFECT if name in PREFECT]:
        prefect(folder, chosen)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
