"""Where a page lies, as an artifact: a link only where a browser that shows a server's page can follow it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tasks.orchestration import artifacts


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What Prefect would get."""
    found: list[dict[str, Any]] = []

    async def link(**said: Any) -> None:
        found.append(said)

    async def markdown(text: str, **said: Any) -> None:
        found.append({"markdown": text, **said})

    monkeypatch.setattr(artifacts, "acreate_link_artifact", link)
    monkeypatch.setattr(artifacts, "acreate_markdown_artifact", markdown)
    return found


@pytest.mark.parametrize(
    ("place", "link"),
    [
        ("https://h/gates/g-1/report.html", "https://h/gates/g-1/report.html"),
        ("http://h:80/report.html", "http://h:80/report.html"),
        ("s3://b/p/g-1/report.html", "https://console.aws.amazon.com/s3/object/b?prefix=p/g-1/report.html"),
    ],
)
def test_what_a_browser_opens_is_a_link(made: list[dict[str, Any]], place: str, link: str) -> None:
    """Of a bucket the console's page: a browser has no s3://."""
    asyncio.run(artifacts.show_place("gate-report-c", place, "login-1", "Report of g-1"))

    assert [
        {"link": link, "link_text": "Report of g-1", "key": "gate-report-c", "description": "Report of g-1"}
    ] == made


@pytest.mark.parametrize(
    ("place", "host"),
    [("/srv/store/g-1/report.html", "login-1"), ("/srv/`a [x](http://y)/r.html", "h<b>\n`")],
)
def test_a_file_is_one_line_to_copy_and_no_link(made: list[dict[str, Any]], place: str, host: str) -> None:
    """Host and path, in a block that neither of them closes, under the same key."""
    asyncio.run(artifacts.show_place("gate-report-c", place, host, "Report of g-1"))
    (one,) = made
    first, _, block = one["markdown"].partition("\n\n")
    fence, line, end = block.rstrip("\n").split("\n")

    assert "link" not in one and "file://" not in one["markdown"] and "gate-report-c" == one["key"]
    assert first == "Report of g-1: a file of the host that ran the gate. A browser opens it only there."
    assert (
        line.startswith(host[:1]) and line.endswith(f":{place}") and fence == f"{end}text" and end not in line
    )
