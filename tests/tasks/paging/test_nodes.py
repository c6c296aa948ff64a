"""People are notified of what is new on the nodes between gates: once, whatever dies in between, whatever answers at the port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, cast

import pytest

from checks.documents.open_findings import FindingKey, OpenFinding, OpenFindings, WatchPage
from checks.documents.report import dump_plain
from checks.model import Action, Cause, Level
from checks.process.free_ports import free_port
from checks.watch.server import FINDINGS, PageServer
from tasks.gate_file.model import Gate
from tasks.gate_file.people import Notify
from tasks.monitoring.news import SILENT_AFTER, NodeLook, Told, news
from tasks.monitoring.targets import Target
from tasks.notifiers.base import Audience, Kind, Severity
from tasks.notifiers.deliver import DeliveryResult, deliver
from tasks.paging import nodes
from tasks.paging.nodes import look, page_of, tell
from tasks.store.base import StoreError
from tasks.store.folder import FolderStore
from tasks.store.layout import MONITORING, PAGES, told_key
from tests.tasks.monitoring import expositions

NOW = 1_800_000_000.0
GATE = cast(Gate, SimpleNamespace(name="prod", cluster=SimpleNamespace(name="bravo"), notify=Notify()))


def an_open(part: str = "GPU 5", cause: Cause = Cause.HARDWARE) -> OpenFinding:
    key = FindingKey("kernel.xid", part, "act", cause)
    return OpenFinding(
        key,
        Level.FAIL,
        Action.REPLACE,
        f"has lost {part}",
        "Replace it.",
        True,
        "watch",
        NOW - 60,
        NOW - 60,
        0.0,
        "b",
    )


def seen(*found: OpenFinding, node: str = "n1") -> NodeLook:
    return NodeLook(node, WatchPage(OpenFindings(open=found), NOW - 1, 60.0))


def pages(store: FolderStore) -> list[str]:
    return [cast(bytes, store.get(key)).decode() for key in store.list(PAGES)]


def test_a_new_failure_is_told_once_and_names_the_part(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    for _ in range(3):
        tell(GATE, store, [seen(an_open())], NOW)

    [told] = pages(store)
    assert "bravo: n1 has lost GPU 5 (between gates)" in told
    assert "Replace it." in told


def test_nothing_is_told_of_healthy_nodes(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    found, done = tell(GATE, store, [seen(), seen(node="n2")], NOW)

    assert not found
    assert () == done.told
    assert [] == pages(store)


def test_a_death_between_telling_and_recording_tells_it_again_under_the_same_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notifiers open no second incident for one id; a lost page would be worse than a repeated one."""
    store, sent = FolderStore(tmp_path), []
    real = deliver

    def dying(*given: Any) -> Any:
        sent.append(given[2].gate_id)
        done = real(*given)
        if len(sent) == 1:
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(nodes, "deliver", dying)
    with pytest.raises(KeyboardInterrupt):
        tell(GATE, store, [seen(an_open())], NOW)
    tell(GATE, store, [seen(an_open())], NOW)
    tell(GATE, store, [seen(an_open())], NOW)

    assert 2 == len(sent)
    assert 1 == len(set(sent))


def test_what_could_not_be_delivered_is_told_at_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderStore(tmp_path)
    monkeypatch.setattr(nodes, "deliver", lambda *given: DeliveryResult("", (), ("slack: refused",)))
    tell(GATE, store, [seen(an_open())], NOW)
    monkeypatch.undo()
    tell(GATE, store, [seen(an_open())], NOW)

    assert 1 == len(pages(store))


def test_a_record_that_cannot_be_read_is_said_and_kept(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.put(told_key("bravo"), b"{")
    with pytest.raises(StoreError, match=MONITORING):
        tell(GATE, store, [seen(an_open())], NOW)

    assert b"{" == store.get(told_key("bravo"))


@pytest.mark.parametrize(("cause", "audience", "severity"), [
    (Cause.HARDWARE, Audience.ONCALL, Severity.ERROR), (Cause.EVIDENCE, Audience.OWNER, Severity.WARNING),
    (Cause.CONFIGURATION, Audience.OWNER, Severity.WARNING),
])  # fmt: skip
def test_who_is_called(cause: Cause, audience: Audience, severity: Severity) -> None:
    found, _ = news(Told({}), [seen(an_open(cause=cause))], NOW)
    page = page_of(GATE, found)

    assert (Kind.NODES, audience, severity, ("n1",)) == (
        page.kind,
        page.audience,
        page.severity,
        page.culprits,
    )


def test_many_silent_nodes_are_one_notification(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    names = [f"n{number}" for number in range(1, 21)]
    for _ in range(SILENT_AFTER + 2):
        tell(GATE, store, [NodeLook(name, None, "connection refused") for name in names], NOW)

    [told] = pages(store)
    assert "nobody knows how n1, n2, n3, n4 and 16 more are" in told
    assert told.index("n2:") < told.index("n10:") or "n10: its watch is silent" in told


@contextmanager
def watch(page: bytes) -> Iterator[int]:
    with PageServer(("127.0.0.1", 0), {FINDINGS: ("application/json", page)}.get) as server:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_port
        server.shutdown()


def target(address: str = "127.0.0.1") -> Target:
    return Target(address, "bravo", "n1")


def test_a_real_watch_is_read() -> None:
    page = WatchPage(OpenFindings(open=(an_open(),)), NOW, 60.0)
    with watch(dump_plain(page)) as port:
        [found] = look([target()], port)

    assert NodeLook("n1", page) == found


@pytest.mark.parametrize(
    "answer",
    [
        expositions.page("<html>hello</html>", "text/html"),
        expositions.page("{}", "application/json"),
        expositions.page("[]", "application/json"),
        expositions.page(
            '{"findings": {}, "last_round_at": 1, "interval_s": 60, "more": 1}', "application/json"
        ),
        expositions.page("{", "application/json"),
    ],
)
def test_what_is_no_watch_is_no_healthy_node(answer: bytes) -> None:
    with expositions.serving(answer) as port:
        [found] = look([target()], port)

    assert found.page is None
    assert found.why


def test_a_node_that_is_not_there_is_said() -> None:
    [found] = look([target()], free_port("127.0.0.1"))

    assert found.page is None and "Connection refused" in found.why
