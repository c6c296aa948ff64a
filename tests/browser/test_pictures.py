"""The pictures of docs/: each is one that the command makes, small, and Slack's blocks are drawn whole and inertly."""

from __future__ import annotations

import json
import re

import pytest

from tests.browser.pictures import PAGES, PREFECT, ROOT
from tests.browser.slack_page import slack_page

GOLDEN = sorted((ROOT / "tests/golden/slack").glob("*.json"))


def test_every_picture_of_the_documents_is_one_that_the_command_makes() -> None:
    """And none is larger than a slow line likes, and none is shown nowhere."""
    pictures = {path.stem: path.stat().st_size for path in (ROOT / "docs").glob("*.png")}
    texts = "".join(path.read_text("utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")))
    shown = set(re.findall(r"!\[[^\]]*\]\((?:docs/|\.\./)?([\w-]+)\.png\)", texts))

    assert set(pictures) <= {*PAGES, *PREFECT}
    assert set(pictures) == shown
    assert {} == {name: size for name, size in pictures.items() if size > 150_000}


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_slack_picture_shows_every_text_of_the_messages(path: object) -> None:
    """Every text of every block, with what Slack makes of its marks."""
    messages = json.loads((ROOT / str(path)).read_text("utf-8"))
    page = slack_page(messages)

    assert len(messages) == page.count('class="by"')
    for message in messages:
        for block in message["blocks"]:
            for text in re.findall(r'"type": "plain_text", "text": "([^"\\&<\']{10,})"', json.dumps(block)):
                assert text in page
