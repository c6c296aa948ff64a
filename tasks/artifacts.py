"""Artifacts in Prefect's UI. They are for people: a server that refuses them never changes a verdict."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from uuid import UUID

import httpx
from prefect.artifacts import (
    acreate_link_artifact,
    acreate_markdown_artifact,
    acreate_progress_artifact,
    acreate_table_artifact,
    aupdate_progress_artifact,
)
from prefect.exceptions import PrefectException
from prefect.logging import get_logger

LOG = get_logger("prelaunch")
EVERY_S = 2.0
# A database row, not a file: the whole text is in the store.
MARKDOWN_CHARACTERS = 200_000
ROWS = 2000


class Meter:
    """One progress artifact, written at most every two seconds."""

    def __init__(self, cluster: str) -> None:
        self.key = f"gate-progress-{cluster}"
        self.id: UUID | None = None
        self.shown_at = 0.0
        self.percent = 0.0

    async def show(self, percent: float) -> None:
        """Show it, unless it was shown just now."""
        if time.monotonic() - self.shown_at < EVERY_S or percent <= self.percent:
            return
        self.shown_at, self.percent = time.monotonic(), percent
        with optional("progress"):
            if self.id is None:
                self.id = await acreate_progress_artifact(percent, key=self.key, description="Health checks")
            else:
                await aupdate_progress_artifact(self.id, percent)

    async def finish(self) -> None:
        """100 %."""
        self.shown_at = 0.0
        await self.show(100.0)


async def show_markdown(key: str, text: str, description: str) -> None:
    """The verdict, as the first line of a page. `description` is the one line that the card shows."""
    with optional(key):
        await acreate_markdown_artifact(text[:MARKDOWN_CHARACTERS], key=key, description=description)


async def show_table(key: str, rows: list[dict[str, object]], description: str) -> None:
    """A table, worst first."""
    with optional(key):
        await acreate_table_artifact(rows[:ROWS], key=key, description=description)


async def show_link(key: str, url: str, text: str) -> None:
    """A link that a browser on this machine can open."""
    with optional(key):
        await acreate_link_artifact(link=url, link_text=text, key=key, description=text)


@contextlib.contextmanager
def optional(what: str) -> Iterator[None]:
    """An artifact that fails is a warning."""
    try:
        yield
    except (httpx.HTTPError, PrefectException, OSError, ValueError, RuntimeError) as error:
        LOG.warning("the artifact %s was not taken: %s", what, error)
