"""`prelaunch exporter STORE`: serves metrics about the gates in a store to Prometheus until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import re

from checks.exit_codes import Exit
from flows.cli.output import write_stderr
from flows.cli.rejection import report_rejection
from tasks.reports.read import DEFAULT, InputError
from tasks.reports.store_argument import open_named_store, typed_store

LISTEN = "127.0.0.1:9403"
FORM = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """STORE --listen --most-series."""
    parser.description = (
        "Serves metrics about the gates in a store at /metrics: answers, times, declared and proven nodes. At / is the page of "
        "`prelaunch fleet`, at /nodes/NAME that of `prelaunch history`. The store is read at every "
        "scrape; if it cannot be read there is one sample, prelaunch_store_readable 0. There is no password, so it listens on this "
        "machine only unless you say otherwise. It ends on SIGTERM (143) and SIGINT (130); 2: rejected; 5: it cannot listen."
    )
    parser.add_argument(
        "store", metavar="STORE", nargs="?", default=DEFAULT, type=typed_store,
        help=f"a folder, s3://bucket/prefix, or a gate file that names a store (default {DEFAULT})",
    )  # fmt: skip
    parser.add_argument(
        "--listen", default=LISTEN, metavar="HOST:PORT", help=f"where it listens (default {LISTEN})"
    )
    parser.add_argument(
        "--most-series", type=_count, default=20_000, metavar="NUMBER",
        help="how many series one scrape may have; prelaunch_store_series_omitted counts the others (default 20000)",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Serve; returns only if it could not."""
    try:
        host, port = _place(arguments.listen)
        named = open_named_store(arguments.store)
    except InputError as error:
        return report_rejection("text", error)
    from checks.watch.families import CONTENT_TYPE
    from checks.watch.server import METRICS, Page, PageServer
    from tasks.monitoring.fleet_pages import HTML, FleetPages
    from tasks.monitoring.store_collector import StoreCollector

    collector = StoreCollector(
        named.store, named.index, lambda said: write_stderr(f"prelaunch: {said}"), most_series=arguments.most_series
    )  # fmt: skip
    fleet = FleetPages(named.store, named.index)

    def page(path: str) -> Page | None:
        if path == METRICS:
            return CONTENT_TYPE, collector.text().encode()
        text = fleet(path)
        return None if text is None else (HTML, text.encode("utf-8", "backslashreplace"))

    try:
        server = PageServer((host.strip("[]"), port), page)
    except OSError as error:
        write_stderr(
            f"prelaunch: {host}:{port} cannot be listened on ({error.strerror}). Name another address with --listen."
        )
        return int(Exit.NO_CAPACITY)
    with server:
        write_stderr(f"prelaunch: {named.address} at http://{host}:{server.server_port}/metrics")
        server.serve_forever()
    return int(Exit.GO)


def _place(text: str) -> tuple[str, int]:
    found = FORM.fullmatch(text)
    if found is None or int(found[2]) > 65535:
        raise InputError("command line", f"{text!r:.80} is not of the form HOST:PORT.", "--listen")
    return found[1], int(found[2])


def _count(text: str) -> int:
    if not re.fullmatch("[0-9]{1,7}", text) or int(text) < 100:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a whole number of at least 100")
    return int(text)
