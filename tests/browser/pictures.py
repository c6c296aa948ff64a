"""Makes docs/report.png anew, from simulated measurements: python -m tests.browser.pictures docs/report.png"""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import sync_playwright

from tasks.render.html import html
from tests.browser.test_report_page import FLAGS
from tests.tasks.render.fleets import cut_off, fleet, judged, unable

WIDTH, HEIGHT = 1200, 1690


def page() -> str:
    """Six nodes of p5.48xlarge: one is slow to every peer, and one has no program for a check."""
    report = unable(cut_off(fleet(6), ["ip-10-0-0-13"], 0.3), "disk.io", "ip-10-0-0-15")
    verdict, beside = judged(report)
    return html(
        report,
        verdict,
        "p5-prod",
        replace(beside, place=replace(beside.place, launcher="sagemaker"), shown=()),
    )


def main(path: Path) -> None:
    """Write the upper part of the page."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        shown = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        shown.set_content(page())
        shown.screenshot(path=path)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
