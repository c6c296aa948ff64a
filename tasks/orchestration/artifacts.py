"""Artifacts in Prefect's UI. They are for people: a server that refuses them never changes a verdict."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from uuid import UUID

import httpx
from prefect.artifacts import acreate_markdown_artifact, acreate_progress_artifact, aupdate_progress_artifact
from prefect.exceptions import PrefectException
from prefect.logging import get_logger

from tasks.render.markdown import inert

LOG = get_logger("prelaunch")
EVERY_S = 2.0
PROGRESS_TITLE = "Health checks"
# A database row, not a file: the whole text is in the store.
MARKDOWN_CHARACTERS = 200_000
CUT = "\n\nTruncated here: the store has the whole summary, next to the report.\n"


class ProgressArtifact:
    """One progress artifact, written at most every two seconds. Its last state is the last one seen, which may be incomplete."""

    def __init__(self, cluster: str) -> None:
        self.key = f"gate-progress-{cluster}"
        self.id: UUID | None = None
        self.written_at = 0.0
        self.percent, self.text = 0.0, PROGRESS_TITLE
        self.written: tuple[float, str] | None = None

    async def show(self, percent: float, description: str = PROGRESS_TITLE) -> None:
        """Show it, unless something was shown just now; `description` is a sentence for people."""
        self.percent, self.text = max(percent, self.percent), description
        if time.monotonic() - self.written_at >= EVERY_S:
            await self._write()

    async def finish(self) -> None:
        """Write the last progress that was seen."""
        await self._write()

    async def _write(self) -> None:
        if self.written == (self.percent, self.text):
            return
        self.written_at, self.written = time.monotonic(), (self.percent, self.text)
        with warn_on_failure("progress"):
            if self.id is None:
                self.id = await acreate_progress_artifact(self.percent, key=self.key, description=self.text)
            else:
                await aupdate_progress_artifact(self.id, self.percent, self.text)


async def show_markdown(key: str, text: str, description: str) -> None:
    """Show Markdown as an artifact. `description` is the one line that the artifact's card shows."""
    cut = text if len(text) <= MARKDOWN_CHARACTERS else text[: MARKDOWN_CHARACTERS - len(CUT)] + CUT
    with warn_on_failure(key):
        await acreate_markdown_artifact(cut, key=key, description=inert(description))


@contextlib.contextmanager
def warn_on_failure(subject: str) -> Iterator[None]:
    """Turn a failure to write an artifact into a warning."""
    try:
        yield
    except (httpx.HTTPError, PrefectException, OSError, ValueError, RuntimeError) as error:
        LOG.warning("Prefect did not accept the artifact %s: %s", subject, error)
