"""The arguments that the commands about a store share."""

from __future__ import annotations

import argparse
from pathlib import Path

from tasks.reports.read import DEFAULT
from tasks.reports.store_argument import typed_store

PLACES = "a folder, s3://bucket/prefix, or a gate file"


def add_store(parser: argparse.ArgumentParser) -> None:
    """STORE."""
    parser.add_argument(
        "store", metavar="STORE", nargs="?", default=DEFAULT, type=typed_store,
        help=f"{PLACES} that names a store (default {DEFAULT})",
    )  # fmt: skip


def add_reports(parser: argparse.ArgumentParser, use: str, nargs: str = "+") -> None:
    """REPORT... --policy FILE; `use` is what the policy does."""
    default = f" (default {DEFAULT})" if nargs == "*" else ""
    parser.add_argument(
        "reports", nargs=nargs, default=[DEFAULT], type=typed_store, metavar="REPORT",
        help=f"a report, a folder that holds one, - for stdin, or a store with all its reports: {PLACES}{default}",
    )  # fmt: skip
    parser.add_argument(
        "--policy", type=Path, metavar="FILE",
        help=f"policy (TOML or JSON) that {use} (default: that of the gate file, else the shipped policy of the declared type)",
    )  # fmt: skip


def add_cluster(parser: argparse.ArgumentParser, what: str = "gates") -> None:
    """--cluster C."""
    parser.add_argument(
        "--cluster", help=f"only {what} of this cluster (default: all, or that of the gate file)"
    )


def add_format(parser: argparse.ArgumentParser) -> None:
    """--format text|json."""
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="format of stdout (default text)"
    )
