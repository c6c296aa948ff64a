"""Text from a node is no command to the pipeline in whose log it is printed."""

from __future__ import annotations

import re

import pytest

from tasks.text.inert import clean, one_line

COMMANDS = (
    "::set-output name=go::true", "::stop-commands::x", "::add-mask::GO", "::error file=a.py,line=1::broken", "::endgroup::",
    "::ERROR::x", "  ::debug::x", "word::warning title=x::y", "x ::set-env name=PATH::/tmp", "##[error]x", "##[set-output name=a;]b",
    "##vso[task.setvariable variable=go]true", "##teamcity[blockOpened name='x']", "::notice\n::x",
    "section_start:1560896352:x\r\x1b[0Kheader", "a\rb::group::c",
)  # fmt: skip
# What a runner acts on: actions/runner's ActionCommand, Azure's agent (CommandBase), GitLab's runner log.
READERS = re.compile(
    r"::[a-z-]+(?: [^\n]*)?::|##\[|##vso\[|##teamcity\[|section_start:\d+:[\w.-]+\r\x1b", re.IGNORECASE
)


@pytest.mark.parametrize("text", COMMANDS)
def test_no_command_is_left(text: str) -> None:
    """Neither in a text of several lines nor in one line, wherever it is broken."""
    assert READERS.search(text.replace("\n", " "))
    for shown in (clean(text), one_line(text), clean(text).replace("\n", " ")):
        assert not READERS.search(shown)


@pytest.mark.parametrize(
    "text",
    [
        "c10::Error: out of memory",
        "std::vector<int>",
        "::1",
        "::ffff:10.0.0.1",
        "# a note",
        "## Heading",
        "errors::x",
    ],
)
def test_other_text_stays(text: str) -> None:
    """Names of C++, addresses, headings."""
    assert clean(text) == text
