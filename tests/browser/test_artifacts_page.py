"""A verdict in Prefect's own pages, in a real browser."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, sync_playwright
from prefect import flow

from tasks.orchestration import artifacts
from tasks.render.headline import headline
from tasks.render.markdown import markdown
from tests.browser.test_report_page import FLAGS
from tests.tasks.render.fleets import cut_off, fleet, judged
from tests.world import World, a_world

pytestmark = [pytest.mark.browser, pytest.mark.needs("chromium")]
# As the browser asks: on the server that the page is of. V1 is at /, V2 at /v2.
SETTINGS = {"PREFECT_SERVER_UI_API_URL": "/api", "PREFECT_SERVER_UI_V2_ENABLED": "true"}
KEPT = os.environ.get("PRELAUNCH_SHOTS", "")


@pytest.fixture(scope="module")
def served(world_cache: Path) -> Iterator[World]:
    """A server with both UIs, to which Prefect in this process speaks."""
    with a_world(world_cache, settings=SETTINGS) as world, world.here():
        yield world


@contextlib.contextmanager
def _chromium() -> Iterator[Browser]:
    """Debian's chromium; Playwright keeps this thread's event loop for itself until it is closed."""
    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        yield opened
        opened.close()


@flow(persist_result=False)
async def _published(cluster: str) -> str:
    """What a gate publishes of a host that is cut off; the headline."""
    report = cut_off(fleet(6), ["ip-10-0-0-13"], 0.3)
    verdict, beside = judged(report)
    said = headline(verdict, cluster)
    await artifacts.show_markdown(f"gate-verdict-{cluster}", markdown(report, verdict, cluster, beside), said)
    return said


def _page_of(world: World, prefix: str, key: str) -> str:
    """The page of the newest artifact under a key."""
    chosen = {"artifacts": {"key": {"any_": [key]}}, "sort": "CREATED_DESC"}
    return f"{prefix}/artifacts/artifact/{world.api.post('/artifacts/filter', json=chosen).json()[0]['id']}"


def _open(browser: Browser, world: World, path: str) -> Page:
    """A page of the UI, kept from asking anybody but the server."""
    page = browser.new_page(viewport={"width": 1400, "height": 1000})

    def only_here(route: Route) -> None:
        if route.request.url.startswith((world.ui_url, "data:")):
            route.continue_()
        else:
            route.abort()

    page.route("**/*", only_here)
    page.goto(world.ui_url + path)
    return page


def _shot(page: Page, name: str) -> None:
    if KEPT:
        page.screenshot(path=str(Path(KEPT) / f"{name}.png"), full_page=True)


@pytest.mark.long
def test_the_page_of_a_verdict_begins_with_its_answer(served: World) -> None:
    """And has the findings with their remedies."""
    said = asyncio.run(_published("tabled"))
    with _chromium() as browser:
        page = _open(browser, served, _page_of(served, "", "gate-verdict-tabled"))
        page.get_by_role("heading", name=re.compile("^NO-GO tabled")).first.wait_for(timeout=30_000)
        _shot(page, "verdict")
        text = page.locator("body").inner_text()

        assert "ip-10-0-0-13" in text and "slow to and from every peer" in text and "Check its NIC" in text
        assert said[:40] in text
        page.close()
