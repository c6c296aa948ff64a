"""The arguments that commands share: gate files and `--set`, stores, reports, `--format`."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from checks.command_line import InputError, number
from checks.model import NODE_NAME
from tasks.gate_file.folder import typed_path
from tasks.reports.read import DEFAULT
from tasks.reports.store_argument import typed_store

PLACES = "a folder, s3://bucket/prefix, or a gate file"


def add_gate_file(parser: argparse.ArgumentParser) -> None:
    """GATE_FILE, whose name in the folder of gate files becomes a path when the command runs."""
    text = "a gate file, such as deployments/gates/local.toml, or its name in the folder of gate files"
    parser.add_argument("file", metavar="GATE_FILE", help=text)


def gate_file(arguments: argparse.Namespace) -> Path:
    """The gate file that was named."""
    return Path(typed_path(arguments.file))


def require_node_name(node: str) -> None:
    """Raise InputError for what cannot be the name of a node, as --node; "" is none."""
    if node and not re.fullmatch(NODE_NAME, node[:300]):
        raise InputError("command line", f"{node!r:.80} is not the name of a node.", "--node")


def add_set(parser: argparse.ArgumentParser) -> None:
    """--set A.B=VALUE."""
    text = "change a value of the gate file (commands and paths cannot be changed)"
    parser.add_argument(
        "--set", action="append", default=[], metavar="A.B=VALUE", dest="overrides", help=text
    )


def add_store(parser: argparse.ArgumentParser) -> None:
    """STORE."""
    text = f"{PLACES} that names a store (default {DEFAULT})"
    parser.add_argument("store", metavar="STORE", nargs="?", default=DEFAULT, type=typed_store, help=text)


def add_store_of_ids(parser: argparse.ArgumentParser) -> None:
    """--store STORE."""
    text = f"the store in which gate ids are looked up: {PLACES} (default {DEFAULT})"
    parser.add_argument("--store", metavar="STORE", type=typed_store, help=text)


def add_reports(parser: argparse.ArgumentParser, use: str) -> None:
    """REPORT... --policy FILE; `use` is what the policy does."""
    text = f"a report, a folder that holds one, - for stdin, or a store with all its reports: {PLACES}"
    parser.add_argument("reports", nargs="+", type=typed_store, metavar="REPORT", help=text)
    default = "(default: that of the gate file, else the shipped policy of the declared type)"
    add_policy(parser, f"that {use} {default}")


def add_policy(parser: argparse.ArgumentParser, use: str) -> None:
    """--policy FILE."""
    parser.add_argument("--policy", type=Path, metavar="FILE", help=f"a TOML or JSON policy file {use}")


def add_baseline(parser: argparse.ArgumentParser) -> None:
    """--baseline FILE."""
    parser.add_argument(
        "--baseline",
        type=lambda text: Path(text) if text else None,
        metavar="FILE",
        help="a baseline (from prelaunch fleet baseline learn): a value that is worse is a WARN",
    )


def add_launch(parser: argparse.ArgumentParser, default: str = "") -> None:
    """--wait and --check-only."""
    text = f"return once the verdict is known, the training started, or the training finished{default}"
    parser.add_argument("--wait", choices=("verdict", "started", "finished"), help=text)
    parser.add_argument("--check-only", action="store_true", help="check and decide; launch nothing")


def add_timeout(parser: argparse.ArgumentParser, use: str) -> None:
    """--timeout-minutes M."""
    parser.add_argument("--timeout-minutes", type=MINUTES, metavar="M", help=use)


def add_cluster(parser: argparse.ArgumentParser, noun: str = "gates") -> None:
    """--cluster C."""
    text = f"only {noun} of this cluster (default: all, or that of the gate file)"
    parser.add_argument("--cluster", help=text)


def add_format(parser: argparse.ArgumentParser) -> None:
    """--format text|json."""
    text = "format of stdout (default text)"
    parser.add_argument("--format", choices=("text", "json"), default="text", help=text)


def add_force(parser: argparse.ArgumentParser) -> None:
    """--force."""
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")


def host_port(text: str) -> str:
    """HOST:PORT, as an argument's type."""
    match = re.fullmatch(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})", text)
    if match is None or int(match[1]) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r:.80} is not of the form HOST:PORT")
    return text


def whole_number(text: str) -> int:
    """A whole number from 1 to 100,000, as an argument's type."""
    if not re.fullmatch("[1-9][0-9]{0,5}", text) or int(text) > 100_000:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a number from 1 to 100000")
    return int(text)


FOREVER = 366 * 1440.0
MINUTES = number(0, FOREVER, "minutes")
