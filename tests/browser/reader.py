"""A reader of pages in Debian's chromium, without a network: what a page asks for and complains about is kept."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
ATTACK = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "<a href=https://e.example>"
)
# Luminance and contrast as WCAG 2.2 defines them, of every text seen, against its first opaque background.
CONTRASTS = Path(__file__).with_name("contrasts.js").read_text()


@dataclass
class Reader:
    """One page for a whole file, because a new one costs more than what is seen of it; `said` is what it asked and complained."""

    page: Page
    said: list[str] = field(default_factory=list)

    def show(self, folder: Path, text: str, width: int = 1280, fragment: str = "") -> Page:
        """The page of this text, on a light screen. `said` grows while it is looked at."""
        file = folder / "page.html"
        file.write_text(text, encoding="utf-8")
        self.page.set_viewport_size({"width": width, "height": 800})
        self.page.emulate_media(media="screen", color_scheme="light")
        self.page.goto("about:blank")
        self.said.clear()
        self.page.goto(file.as_uri() + fragment)
        assert file.as_uri() == self.said.pop(0).partition("#")[0]
        return self.page

    def too_wide(self) -> list[int]:
        """The widths of a telephone and of a desk at which the page scrolls sideways."""
        found = []
        for width in (400, 1200):
            self.page.set_viewport_size({"width": width, "height": 800})
            if self.page.evaluate("document.documentElement.scrollWidth") > width:
                found.append(width)
        return found

    def illegible(self) -> list[tuple[str, float]]:
        """Texts with a contrast below 4.5 to 1 (WCAG AA), in light or dark."""
        found = []
        for scheme in SCHEMES:
            self.page.emulate_media(color_scheme=scheme)
            texts = self.page.evaluate(CONTRASTS)
            assert texts
            found += [(text, round(ratio, 2)) for ratio, text in texts if ratio < 4.5]
        return found


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's."""
    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        try:
            yield opened
        finally:
            opened.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's chromium."""
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def reader(browser: Browser) -> Iterator[Reader]:
    """A reader of pages."""
    made = Reader(browser.new_page())
    made.page.context.set_offline(True)
    made.page.on("request", lambda request: made.said.append(request.url))
    made.page.on("console", lambda message: made.said.append(f"console {message.text}"))
    made.page.on("pageerror", lambda error: made.said.append(f"error {error}"))
    yield made
    made.page.close()
