"""The commands of the watch on a node: `watch`, and `findings`, which lists what is open and closes what a person has answered."""

from __future__ import annotations

import argparse
from pathlib import Path

from checks.command_line import number

# Loopback: who wants metrics from other hosts says so, and protects them.
LISTEN = "127.0.0.1:9402"
EVERY_S = 60.0


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the commands."""
    text = "check this node at an interval, beside whatever runs on it, and serve metrics about it"
    watching = verbs.add_parser("watch", help=text)
    watching.add_argument("--instance-type", required=True, help="the instance type of this machine")
    watching.add_argument("--policy", type=Path, help="policy as JSON (or TOML from Python 3.11 on)")
    text = f"seconds between the starts of two rounds (default {EVERY_S:g})"
    watching.add_argument("--every", type=number(0.5, 86400.0, "seconds"), default=EVERY_S, help=text)
    text = f"HOST:PORT of /metrics (default {LISTEN}); empty for none"
    watching.add_argument("--listen", default=LISTEN, help=text)
    text = "also write the metrics to this folder of node_exporter's textfile collector"
    watching.add_argument("--textfile", type=Path, help=text)
    text = "end after so many rounds (default: go on until a signal)"
    watching.add_argument("--rounds", type=int, default=0, help=text)
    watching.set_defaults(verb=_watch)
    text = "list the open findings of this machine, or close one that you have dealt with"
    listing = verbs.add_parser("findings", help=text)
    listing.add_argument("--format", choices=("text", "json"), default="text")
    listing.add_argument("--close", metavar="NAME", help="the name of an open finding, as the list shows it")
    listing.add_argument("--by", metavar="WHO", help="who closes it, and why")
    listing.set_defaults(verb=_findings)


def _watch(arguments: argparse.Namespace) -> int:
    from checks.watch import loop

    return loop.run(arguments)


def _findings(arguments: argparse.Namespace) -> int:
    from checks.watch import listing

    return listing.run(arguments)
