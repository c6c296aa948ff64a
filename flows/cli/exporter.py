"""`prelaunch serve exporter STORE`: serves metrics about the gates in a store to Prometheus until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse

from checks.exit_codes import Exit
from flows.cli.output import report_failure, write_stderr
from flows.cli.shared_arguments import add_store, host_port
from tasks.reports.store_argument import open_named_store

LISTEN = "127.0.0.1:9403"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """STORE --listen HOST:PORT."""
    parser.description = (
        "Serves metrics about the gates in a store at /metrics: answers, times, declared and proven nodes. At / is the page of "
        "`prelaunch fleet list`, at /nodes/NAME that of `prelaunch fleet list --node NAME`. The store is read at every "
        "scrape; if it cannot be read there is one sample, prelaunch_store_readable 0. There is no password, so it listens on this "
        "machine only unless you say otherwise. It ends on SIGTERM (143) and SIGINT (130); 2: rejected; 5: it cannot listen."
    )
    add_store(parser)
    text = f"where it listens (default {LISTEN})"
    parser.add_argument("--listen", type=host_port, default=LISTEN, metavar="HOST:PORT", help=text)


def run(arguments: argparse.Namespace) -> int:
    """Serve; returns only if it could not."""
    host, _, port = arguments.listen.rpartition(":")
    source = open_named_store(arguments.store)
    from checks.watch.families import CONTENT_TYPE
    from checks.watch.server import METRICS, Page, PageServer
    from tasks.monitoring.fleet_pages import HTML, FleetPages
    from tasks.monitoring.store_collector import StoreCollector

    collector = StoreCollector(source.store, lambda line: write_stderr(f"prelaunch: {line}"))
    fleet = FleetPages(source.store)

    def page(path: str) -> Page | None:
        if path == METRICS:
            return CONTENT_TYPE, collector.text().encode()
        text = fleet(path)
        return None if text is None else (HTML, text.encode("utf-8", "backslashreplace"))

    try:
        server = PageServer((host.strip("[]"), int(port)), page)
    except OSError as error:
        message = f"{arguments.listen} cannot be listened on ({error.strerror}). Name another address with --listen."
        return report_failure("text", message, Exit.NO_CAPACITY)
    with server:
        write_stderr(f"prelaunch: {source.address} at http://{host}:{server.server_port}/metrics")
        server.serve_forever()
    return int(Exit.GO)
