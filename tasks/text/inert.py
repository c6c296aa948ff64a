"""Makes text from a report harmless to show, because a report is written on machines that are under suspicion (pure).

It also decides which places in a store a browser can open.
"""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote

# Controls (C0, C1), marks that turn or hide text, separators that break lines, surrogates, what no font has.
_UNSAFE = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_PLAIN = re.compile(r"[ -~\n]*")
# What GitHub Actions, Azure Pipelines and TeamCity take for a command in what a job prints, wherever a line is broken; GitLab's
# marks are behind a carriage return and an escape, which are written out.
_COMMAND = re.compile(
    r"(:)(?=:(?:internal-set-repo-path|set-env|set-output|save-state|add-path|add-mask|(?:add|remove)-matcher|debug|warning|error"
    r"|notice|echo|group|endgroup|stop-commands)(?:\s|::))|(#)(?=#(?:\[|vso\[|teamcity\[))",
    re.IGNORECASE,
)
S3 = "s3://"


def clean(text: str) -> str:
    """Every character that a terminal, browser or XML parser might act upon, written out as \\x1b or \\u202e.

    Line feeds stay and tabs become spaces; the result can be encoded as UTF-8 and is valid in XML 1.0. Commands to a pipeline that may
    print it are broken up by a space.
    """
    text = _COMMAND.sub(r"\g<0> ", text)
    return text if _PLAIN.fullmatch(text) else "".join(_escaped(character) for character in text)


def one_line(text: str, most: int = 300) -> str:
    """`clean`, on one line, cut to `most` characters with an ellipsis."""
    line = " ".join(clean(text[: most * 2]).split())
    cut = len(line) > most or len(text) > most * 2
    return line[: most - 1] + "…" if cut else line


def _escaped(character: str) -> str:
    if character == "\n":
        return character
    if character == "\t":
        return "    "
    if character == "\r":
        return "\\r"
    code = ord(character)
    if unicodedata.category(character) in _UNSAFE:
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    return character


def browsable(address: str) -> str:
    """The console's page of an object in S3; anything else as it is."""
    if not address.startswith(S3):
        return address
    bucket, _, key = address.removeprefix(S3).partition("/")
    return f"https://console.aws.amazon.com/s3/object/{quote(bucket)}?prefix={quote(key)}"
