"""`prelaunch render REPORT`: shows the same verdict as pages for people; Markdown on stdout by default."""

from __future__ import annotations

import argparse

from flows.cli import judge


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """As judge, of one report, with Markdown as stdout's default."""
    judge.add_arguments(parser, "markdown")


def run(arguments: argparse.Namespace) -> int:
    """Render; the exit code says what the verdict is, so that a page cannot hide a refusal."""
    return judge.run(arguments)
