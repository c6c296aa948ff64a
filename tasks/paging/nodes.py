"""Looks at the watch of every declared node, and notifies people of what is new since the last look.

It needs neither Prometheus nor Alertmanager: it is for sites that have only the notifiers of their gate file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from checks.documents import open_findings
from checks.documents.decode import decode, parse_json
from checks.documents.open_findings import OpenFinding
from checks.documents.report import dump_plain
from checks.model import ANSWER_WORDS, Answer, Cause
from checks.value_types import DecodeError, natural
from tasks.gate_file.model import Gate
from tasks.monitoring.endpoint import EndpointError, fetched
from tasks.monitoring.exporters import PORTS, Job
from tasks.monitoring.news import News, NodeLook, Told, calls_for_oncall, news
from tasks.monitoring.targets import Target
from tasks.notifiers.base import Audience, Item, Kind, Notification, Severity
from tasks.notifiers.deliver import DeliveryResult, deliver
from tasks.paging.content import finish_page
from tasks.store.base import Store, StoreError
from tasks.store.layout import told_key

PATH, JSON = "/findings", "application/json"
NODE_S = 10.0
AT_ONCE = 32
TOLD_BYTES = 64 << 20
MOST_NODES_IN_TITLE = 4


def look(targets: Sequence[Target], port: int | None = None) -> tuple[NodeLook, ...]:
    """What the watch of each node serves (at its usual port if `port` is None), all asked side by side and each within NODE_S."""
    port = port or PORTS[Job.WATCH]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return tuple(pool.map(lambda target: _look_at(target, port), targets))


def told_before(store: Store, cluster: str) -> tuple[Told, bytes | None]:
    """What people were told about this cluster, and the bytes that say so. Raises StoreError, also if they cannot be read: to begin
    anew would tell everything again.
    """
    data = store.get(told_key(cluster))
    if data is None:
        return Told({}), None
    try:
        return decode(Told, parse_json(data, TOLD_BYTES)), data
    except DecodeError as error:
        raise StoreError(
            f"{told_key(cluster)} cannot be read: {error}. Remove it to be told everything again."
        ) from error


def tell(gate: Gate, store: Store, looks: Sequence[NodeLook], now: float) -> tuple[News, DeliveryResult]:
    """Notify people of what is new, then record that they know. Raises StoreError.

    If this process dies between the two the notification is made again, with the same id, which opens no second incident. Of two
    processes that look at the same time one records.
    """
    told, data = told_before(store, gate.cluster.name)
    found, after = news(told, looks, now)
    done = (
        deliver(gate.notify, store, page_of(gate, found))
        if found.opened or found.silent
        else DeliveryResult()
    )
    if not done.failed or done.where:
        key, made = told_key(gate.cluster.name), dump_plain(after)
        if made != data:
            _ = store.put_if_absent(key, made) if data is None else store.replace_if(key, data, made)
    return found, done


def page_of(gate: Gate, found: News) -> Notification:
    """The notification about new findings and nodes that fell silent."""
    nodes = sorted({node for node, _ in (*found.opened, *found.silent)}, key=natural)
    oncall = calls_for_oncall(found)
    title = f"{gate.cluster.name}: {_first(found, nodes)} (between gates)"
    page = Notification(
        _id(gate.cluster.name, found), gate.cluster.name, title, "", "",
        gate=gate.name, kind=Kind.NODES, audience=Audience.ONCALL if oncall else Audience.OWNER,
        severity=Severity.ERROR if oncall else Severity.WARNING, culprits=tuple(nodes),
        items=(*(_item(node, one) for node, one in found.opened), *(_silence(*one) for one in found.silent)),
    )  # fmt: skip
    return finish_page(page, title)


def _first(found: News, nodes: Sequence[str]) -> str:
    if found.opened:
        node, one = min(found.opened, key=lambda pair: pair[1].key.cause is Cause.EVIDENCE)
        more = f" and {len(nodes) - 1} more nodes" if len(nodes) > 1 else ""
        return f"{_said(node, one)}{more}"
    named = ", ".join(nodes[:MOST_NODES_IN_TITLE]) + (
        f" and {len(nodes) - MOST_NODES_IN_TITLE} more" if len(nodes) > MOST_NODES_IN_TITLE else ""
    )
    return f"nobody knows how {named} {'is' if len(nodes) == 1 else 'are'}, because the watch there is silent"


def _said(node: str, one: OpenFinding) -> str:
    return f"{node} {one.message}" if one.is_predicate else f"{node}: {one.message}"


def _item(node: str, one: OpenFinding) -> Item:
    evidence = one.key.cause is Cause.EVIDENCE
    word = ANSWER_WORDS[Answer.CANNOT_TELL] if evidence else one.level.value
    return Item(word, one.key.cause.value, node, one.key.check, _said(node, one), one.remedy, (), "")


def _silence(node: str, why: str) -> Item:
    said = f"{node}: its watch is silent: {why}"
    remedy = "See whether the node is up, then its service prelaunch-watch."
    return Item(ANSWER_WORDS[Answer.CANNOT_TELL], Cause.EVIDENCE.value, node, "watch", said, remedy, (), "")


def _id(cluster: str, found: News) -> str:
    """The same news have the same id."""
    words = [f"{node} {one.key.name} {one.opened_at}" for node, one in found.opened]
    words += [f"{node} silent" for node, _ in found.silent]
    return f"nodes-{cluster}-{hashlib.sha256(chr(10).join(sorted(words)).encode()).hexdigest()[:12]}"


def _look_at(target: Target, port: int) -> NodeLook:
    try:
        text = fetched(target.address, port, NODE_S, PATH, JSON)
        return NodeLook(target.node, open_findings.load_page(text))
    except EndpointError as error:
        return NodeLook(target.node, None, str(error))
    except DecodeError as error:
        return NodeLook(target.node, None, f"its answer cannot be read: {error}")
