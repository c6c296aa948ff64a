"""Telling people: order and fallback, what is kept of it, and that nothing of it reaches further."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tasks.gate.context import GateContext
from tasks.notifiers import deliver as delivering
from tasks.notifiers.base import Audience, Notification, PageKind
from tasks.notifiers.deliver import DeliveryResult, still_paid
from tasks.notifiers.pagerduty import PagerDutyNotifier
from tasks.store.base import StoreFull
from tests.fakes.mail import Webhook
from tests.fakes.pagerduty import PagerDuty, pagerduty_server
from tests.fakes.serving import serving
from tests.tasks.notifiers.means import page, setting_of

# Apprise imports every plug-in that it has; one of them brings a module that Python will drop.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


class Town:
    """PagerDuty, a webhook, and gates that call them."""

    def __init__(self, pagerduty: PagerDuty, hook: Webhook, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.pagerduty, self.hook, self.folder, self.patch = pagerduty, hook, folder, patch
        self.key, self.owners = pagerduty.service(), pagerduty.service()
        patch.setenv("PD", self.key)
        patch.setenv("PD_OWNER", self.owners)
        patch.setenv("HOOK", f"json://127.0.0.1:{hook.server_port}/oncall")
        patch.setenv("HOOK_OWNER", f"json://127.0.0.1:{hook.server_port}/owner")

    def context(self, order: str = '["pagerduty", "apprise"]', owner: str = '["apprise"]') -> GateContext:
        """A gate that tells in this order."""
        return setting_of(
            self.folder,
            f"""
[notify]
order = {order}
owner = {owner}
[notify.pagerduty]
routing_key = "env:PD"
owner_routing_key = "env:PD_OWNER"
url = "{self.pagerduty.url}"
[notify.apprise]
urls = ["env:HOOK"]
owner_urls = ["env:HOOK_OWNER"]
""",
        )

    def told(self, kind: str = "refused", gate_id: str = "g-1") -> dict[str, Any]:
        """What the store keeps of it."""
        path = self.folder / "store" / "gates" / gate_id / "told" / f"{kind}.json"
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def kept(self, name: str = "g-1") -> str:
        """The page in the store."""
        return (self.folder / "store" / "pages" / f"{name}.txt").read_text()


def deliver(context: GateContext, said: Notification, *also: Audience) -> DeliveryResult:
    """Deliver a page as this gate does."""
    return delivering.deliver(context.gate.notify, context.store, said, *also)


def settle(context: GateContext, said: Notification) -> DeliveryResult:
    """Settle a page as this gate does."""
    return delivering.settle(context.gate.notify, context.store, said)


@pytest.fixture
def town(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Town]:
    """Everything new."""
    with pagerduty_server() as pagerduty, serving(Webhook()) as hook:
        yield Town(pagerduty, hook, tmp_path, monkeypatch)


def test_the_first_way_that_works_is_the_call(town: Town, capfd: pytest.CaptureFixture[str]) -> None:
    """The others are not called; the page is kept all the same, and stderr is left alone."""
    told = deliver(town.context(), page())

    where = "incident prelaunch/p5/node-1"
    assert DeliveryResult(where, (f"pagerduty: {where}",)) == told
    assert (1, []) == (len(town.pagerduty.open(town.key)), town.hook.posted)
    assert town.kept().startswith("NO-GO p5-prod: node-1, GPU 5")
    assert "NOTIFICATION" not in capfd.readouterr().err


def test_a_way_that_fails_is_reported_by_the_next(town: Town) -> None:
    """In its page, in the store's page and record; the verdict's owner can mend it."""
    town.patch.delenv("PD")
    told = deliver(town.context(), page())
    said = "pagerduty: the environment variable PD is not set. Set it where the gate runs."

    assert ("env:HOOK (json)", (said,)) == (told.where, told.failed)
    assert f"Delivery failed: {said}" in town.hook.posted[0][1]["message"]
    assert f"Delivery failed: {said}" in town.kept()
    assert ([said], ["apprise: env:HOOK (json)"]) == (town.told()["failed"], town.told()["told"])


def test_when_all_fail_the_log_has_it(town: Town, capfd: pytest.CaptureFixture[str]) -> None:
    """On stderr and in the store."""
    town.patch.delenv("PD")
    town.hook.status = 500
    told = deliver(town.context(), page())

    assert "NOTIFICATION NO-GO p5-prod" in capfd.readouterr().err
    assert (2, str(town.folder / "store" / "pages" / "g-1.txt")) == (len(told.failed), told.where)


def test_the_log_is_shown_where_it_is_named(town: Town, capfd: pytest.CaptureFixture[str]) -> None:
    """Also when a way before it worked."""
    deliver(town.context(order='["pagerduty", "log"]'), page())

    assert "NOTIFICATION NO-GO p5-prod" in capfd.readouterr().err


def test_each_side_is_called_in_its_own_order(town: Town) -> None:
    """An override calls both; the owner's failure is not the on-call's."""
    told = deliver(town.context(), page(PageKind.OVERRIDDEN, culprits=("node-1",)), Audience.OWNER)

    assert ["/owner"] == [path for path, _ in town.hook.posted]
    assert ("pagerduty: incident prelaunch/p5/overridden/g-1", "apprise: env:HOOK_OWNER (json)") == told.told


def test_a_go_calls_nobody_and_resolves(town: Town) -> None:
    """What was open is resolved, and that is kept."""
    context = town.context()
    deliver(context, page())
    settle(context, page(PageKind.GO, gate_id="g-2"))

    assert ([], []) == (town.pagerduty.open(town.key), town.hook.posted)
    assert ["pagerduty: 1 incident resolved"] == town.told("go", "g-2")["told"]


@pytest.mark.parametrize("verb", ["send", "settle"])
def test_a_way_that_hangs_or_is_broken_is_left_behind(town: Town, verb: str) -> None:
    """After a while that a gate can afford; the next way has its turn, and nothing is raised."""
    released = threading.Event()
    town.patch.setattr(delivering, "LIMIT_S", 1.0)
    context = town.context(order='["pagerduty"]')
    for fault, said in (
        (lambda self, page: released.wait() and "", "no answer within 1 s"),
        (Mock(side_effect=KeyError("no such thing")), "KeyError: 'no such thing'"),
    ):
        town.patch.setattr(PagerDutyNotifier, verb, fault)
        told = deliver(context, page()) if verb == "send" else settle(context, page(PageKind.GO))
        assert said in told.failed[0]
        assert (verb == "send") == told.where.endswith("pages/g-1.txt")
    released.set()


def test_a_defect_of_our_own_is_a_failure_like_another(town: Town) -> None:
    """It is said and kept, and nothing is raised."""
    town.patch.setattr(delivering, "notifiers_for", Mock(side_effect=KeyError("no such thing")))
    told = deliver(town.context(), page())

    assert ("KeyError: 'no such thing'",) == told.failed
    assert list(told.failed) == town.told()["failed"]


def test_a_store_that_is_full_does_not_silence_the_call(town: Town) -> None:
    """And it is said that the page is not kept."""
    context = town.context()
    town.patch.setattr(context.store, "put", Mock(side_effect=StoreFull("no space is left")))
    told = deliver(context, page())

    assert 1 == len(town.pagerduty.open(town.key))
    assert ("log: the notification could not be stored: no space is left",) == told.failed


def test_no_record_repeats_a_secret(town: Town) -> None:
    """PagerDuty's refusal names the routing key; a variable's name need not look like a secret's."""
    wrong = "0f" * 16
    town.patch.setenv("PD", wrong)
    told = deliver(town.context(), page())

    assert "[removed]" in told.failed[0]
    assert wrong not in str(told) + town.kept() + str(town.told()) + str(town.hook.posted)


def test_machines_that_are_paid_for_are_the_owners_business(town: Town) -> None:
    """With what to do about them."""
    context = town.context()
    left = "job g-1-check-1 could not be ended: throttled"
    still_paid(context.gate, context.file, context.store, "g-1", (left,))
    ((path, said),) = town.hook.posted

    assert ("/owner", f"MACHINES MAY STILL BE BILLED test: {left}") == (path, said["title"])
    assert "Check in the engine's console" in town.kept("g-1-machines")
