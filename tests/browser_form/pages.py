"""Prefect's own UI in Debian's chromium, on a server of tests.world; it asks nobody but that server."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, expect

from tests.world import World

WAIT_MS = 20_000
# A picture of every page is written here where it is set: to look at, and for docs/.
SHOTS = "PRELAUNCH_SHOTS"


@contextmanager
def page_of(browser: Browser, world: World, path: str, height: int = 1400) -> Iterator[Page]:
    """A page of the UI; fails where it asked another host than the server."""
    expect.set_options(timeout=WAIT_MS)  # as long for what is to be seen as for what is to be pressed
    page = browser.new_page(viewport={"width": 1280, "height": height}, color_scheme="light")
    page.set_default_timeout(WAIT_MS)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    try:
        page.goto(world.ui_url + path)
        yield page
        strangers = [url for url in asked if not url.startswith((world.ui_url, "data:", "blob:"))]
        assert [] == strangers
    finally:
        page.close()


@contextmanager
def form_of(browser: Browser, world: World, deployment: str) -> Iterator[Page]:
    """The form of a deployment, once its fields are there."""
    with page_of(browser, world, f"/deployments/deployment/{deployment}/run", 1600) as page:
        expect(page.get_by_text("Validate parameters")).to_be_visible()
        yield page


def field(root: Page | Locator, title: str) -> Locator:
    """The box of a field: its label, description, input and error."""
    page = root if isinstance(root, Page) else root.page
    label = page.locator(".schema-form-property__label").filter(
        has_text=re.compile(rf"^{re.escape(title)}( |$)")
    )
    return root.locator(".schema-form-property").filter(has=label).last  # the innermost


def choose(page: Page, title: str, value: str) -> None:
    """Choose from the drop-down of a field."""
    control = field(page, title).locator(".p-select-button__control")
    control.focus()
    page.keyboard.press("Space")
    page.locator(".p-select-option").get_by_text(value, exact=True).click()
    expect(control).to_have_text(value)


def submit(page: Page) -> None:
    """Press the button."""
    page.get_by_role("button", name="Submit").click()


def start(page: Page) -> str:
    """Press the button of a form that is right; the id of the run that the server made of it."""
    with page.expect_response(lambda answer: answer.url.endswith("/create_flow_run")) as made:
        submit(page)
    assert made.value.ok, made.value.text()
    return str(made.value.json()["id"])


def shot(page: Page, name: str) -> None:
    """A picture, where pictures are wanted."""
    if folder := os.environ.get(SHOTS):
        page.wait_for_timeout(1000)  # it fades in
        page.screenshot(path=Path(folder) / f"{name}.png")
