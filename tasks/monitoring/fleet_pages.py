"""The pages that an exporter serves beside its metrics: the fleet at /, and a node at /nodes/NAME. They are made when they are asked
for; a store that cannot be read gives a page that says so, and never an older one.
"""

from __future__ import annotations

import threading
import time
from html import escape

from checks.runner.deadline import limited
from tasks.reports.fleet.page import fleet_page, node_page
from tasks.reports.fleet.reading import FRESH_S, page_link, read_fleet
from tasks.store.base import Store, StoreError
from tasks.store.call_timeout import PatientStore
from tasks.store.layout import html_key
from tasks.text.inert import one_line

NODES, HTML = "/nodes/", "text/html; charset=utf-8"
PAGE_S = 30.0


class FleetPages:
    """Makes one page at a time: others wait, so that a browser that is reloaded often does not read the store at once."""

    def __init__(self, store: Store, seconds: float = PAGE_S) -> None:
        self._store, self._seconds = PatientStore(store, seconds / 2), seconds
        self._making = threading.Lock()

    def __call__(self, path: str) -> str | None:
        """The page at the path; None if there is none."""
        node = path.removeprefix(NODES) if path.startswith(NODES) else ""
        if path != "/" and not node:
            return None
        if not self._making.acquire(timeout=self._seconds):
            return _failed("another page is being made")
        try:
            return limited(self._seconds, lambda: self._page(node))
        except TimeoutError:
            return _failed(f"it did not answer within {self._seconds:g} s")
        except StoreError as error:
            return _failed(str(error))
        finally:
            self._making.release()

    def _page(self, node: str) -> str | None:
        fleet = read_fleet(self._store, time.time(), FRESH_S, node=node)
        if node:
            return node_page(node, fleet) if fleet.nodes or fleet.replaced else None
        return fleet_page(fleet, lambda gate_id: page_link(self._store, html_key(gate_id)))


def _failed(reason: str) -> str:
    return f"<!doctype html><title>Cannot tell</title><p>CANNOT TELL: the store cannot be read: {escape(one_line(reason, 500))}</p>\n"
