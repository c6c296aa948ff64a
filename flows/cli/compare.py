"""`prelaunch explain --as NAMES FILE`: what each named vendor or cloud says about each Xid, side by side; the first name judges."""

from __future__ import annotations

import argparse

from checks.explain.reading import Kind, ReadOptions
from checks.policy import Policy
from flows.cli.output import json_text, stdout_colour, stdout_width, write_stderr, write_stdout
from tasks.render.findings import verdict_json
from tasks.reports.exit_codes import exit_code
from tasks.reports.explain import explanation_text
from tasks.reports.read import InputError
from tasks.reports.xid_answers import OPTION, compare_overlays, comparison_rows, comparison_text, overlays_of


def run(arguments: argparse.Namespace, policy: Policy | None, asked: ReadOptions) -> int:
    """Compare one input; the exit code is that of the first overlay's verdict. Raises InputError."""
    if len(arguments.files) > 1:
        raise InputError(OPTION, "--as compares the answers for one input. Explain the inputs one by one.")
    if arguments.format not in ("text", "json") or any((arguments.junit, arguments.summary, arguments.html)):
        raise InputError(
            OPTION, "a comparison is written as text or JSON only. Leave other formats and output files out."
        )
    kind = Kind(arguments.kind) if arguments.kind else None
    found = compare_overlays(arguments.files[0], kind, policy, asked, overlays_of(arguments.overlays))
    about = found.explained
    if arguments.format == "json":
        document = {
            **verdict_json(about.verdict),
            "file": about.file,
            "kind": about.kind.value if about.kind else None,
            "title": about.title,
            "as": [overlay.value for overlay in found.overlays],
            "incidents": comparison_rows(found),
            "unread": list(found.unread),
        }
        write_stdout(json_text(document))
    else:
        title = f"{about.title}, judged as {found.overlays[0].value}"
        page = explanation_text(
            about.verdict, about.name, title, about.held, about.left_out, stdout_colour(), stdout_width()
        )
        write_stdout(f"{page}\n{comparison_text(found)}")
    if about.policy:
        write_stderr(f"policy: {about.policy}")
    return int(exit_code(about.verdict))
