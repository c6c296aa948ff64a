"""`prelaunch explain --as NAMES FILE`: whose answer to each Xid is which, side by side; the first one judges."""

from __future__ import annotations

import argparse

from checks.explain.reading import Asked, Kind
from checks.policy import Policy
from flows.cli.output import (
    exit_code,
    json_text,
    stdout_colour,
    stdout_width,
    verdict_json,
    write_stderr,
    write_stdout,
)
from tasks.comparing import OPTION, compared, overlays_of
from tasks.inputs import InputError
from tasks.render.compared import compared_rows, compared_text
from tasks.render.explained import explained_text


def run(arguments: argparse.Namespace, policy: Policy | None, asked: Asked) -> int:
    """Compare one input; the exit code is that of the first overlay's verdict. Raises InputError."""
    if len(arguments.files) > 1:
        raise InputError(OPTION, "it compares one input. Explain them one by one.")
    if arguments.format not in ("text", "json") or any((arguments.junit, arguments.summary, arguments.html)):
        raise InputError(OPTION, "a comparison is text or JSON: leave other formats and files out")
    kind = Kind(arguments.kind) if arguments.kind else None
    found = compared(arguments.files[0], kind, policy, asked, overlays_of(arguments.overlays))
    about = found.explained
    if arguments.format == "json":
        document = {
            **verdict_json(about.verdict),
            "file": about.file,
            "kind": about.kind.value if about.kind else None,
            "title": about.title,
            "as": [overlay.value for overlay in found.overlays],
            "incidents": compared_rows(found),
            "unread": list(found.unread),
        }
        write_stdout(json_text(document))
    else:
        title = f"{about.title}, judged as {found.overlays[0].value}"
        page = explained_text(
            about.verdict, about.name, title, about.held, about.left_out, stdout_colour(), stdout_width()
        )
        write_stdout(f"{page}\n{compared_text(found)}")
    if about.policy:
        write_stderr(f"policy: {about.policy}")
    return int(exit_code(about.verdict))
