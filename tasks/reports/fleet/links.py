"""Links from a page of the fleet to the reports of gates."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from tasks.store.base import Store
from tasks.store.layout import fleet_key, html_key
from tasks.text.inert import browsable


def report_links(
    store: Store, in_store: bool = False, kept: Collection[str] | None = None
) -> Callable[[str], str]:
    """Of a gate's id, the address of its report, "" if it is not among the `kept` keys (None: nobody looked). A page that lies in the
    store itself (`in_store`) leads there from its own folder.
    """

    def link(gate_id: str) -> str:
        if kept is not None and html_key(gate_id) not in kept:
            return ""
        place = store.place(html_key(gate_id))
        if "://" in place:
            return browsable(place)
        return f"../{html_key(gate_id)}" if in_store else Path(place).as_uri()

    return link


def fleet_link(store: Store, cluster: str) -> str:
    """From the page of a gate to that of its fleet: beside it in a folder, in the console of a bucket. "" if the cluster has none."""
    if not cluster:
        return ""
    place = store.place(fleet_key(cluster))
    return browsable(place) if "://" in place else f"../../{fleet_key(cluster)}"
