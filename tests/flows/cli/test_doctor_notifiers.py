"""`prelaunch doctor` about notifiers: their secrets have to be there, and a test notification has to arrive."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.cli.doctor import look_at_notifiers as looked
from tests.fakes.pagerduty import pagerduty_server
from tests.flows.cli.test_doctor import context, words

NOTIFY = """
[notify]
order = ["pagerduty", "log"]
owner = ["log"]
[notify.pagerduty]
routing_key = "{reference}"
url = "{url}"
"""


def test_a_secret_has_to_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the environment, or in a block of a server that is configured; nobody is notified."""
    monkeypatch.setenv("PREFECT_API_URL", "")
    monkeypatch.chdir(tmp_path)
    with pagerduty_server() as pagerduty:
        key = pagerduty.service()
        env = context(tmp_path, NOTIFY.format(reference="env:MY_KEY", url=pagerduty.url))
        log = list(looked(context(tmp_path, '\n[notify]\norder = ["log"]\n'), send_test=False))
        block = context(tmp_path, NOTIFY.format(reference="block:secret/mine", url=pagerduty.url))
        monkeypatch.delenv("MY_KEY", raising=False)
        absent = list(looked(env, send_test=False))
        monkeypatch.setenv("MY_KEY", key)
        there = list(looked(env, send_test=False))
        blocked = list(looked(block, send_test=False))

        assert [] == pagerduty.incidents[key]
    assert ["MISSING", "OK", "OK", "WARNING"] == words(absent) and "MY_KEY is not set" in absent[0].text
    assert (["OK", "OK", "OK", "WARNING"], ["OK", "OK"]) == (words(there), words(log))
    assert ["MISSING", "OK", "OK", "WARNING"] == words(blocked) and "Set PREFECT_API_URL" in blocked[0].remedy


def test_a_test_notification_is_sent_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says that it is a test; a service that refuses it is missing. The store keeps nothing of it."""
    with pagerduty_server() as pagerduty:
        key = pagerduty.service()
        made = context(tmp_path, NOTIFY.format(reference="env:MY_KEY", url=pagerduty.url))
        monkeypatch.setenv("MY_KEY", key)
        sent = list(looked(made, send_test=True))
        monkeypatch.setenv("MY_KEY", "0" * 32)
        refused = list(looked(made, send_test=True))
        (incident,) = pagerduty.incidents[key]

    assert ["OK", "OK", "OK", "WARNING"] == words(sent)
    assert incident.payload["summary"].startswith("TEST test: no action is needed")
    assert ("info", "resolved") == (incident.payload["severity"], incident.status)
    assert incident.dedup_key.startswith("prelaunch/") and "/test/doctor-" in incident.dedup_key
    assert ["MISSING", "OK", "OK", "WARNING"] == words(refused)
    assert not (tmp_path / "store").exists()
