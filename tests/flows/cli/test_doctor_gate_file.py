"""What `prelaunch doctor` warns of in a gate file that could run."""

from __future__ import annotations

from pathlib import Path

from flows.cli.doctor import look_at_notifiers
from tests.flows.cli.test_doctor import setting
from tests.flows.cli.test_doctor_notifiers import NOTIFY


def test_an_owner_whom_nobody_notifies_is_a_warning(tmp_path: Path) -> None:
    """Where somebody is notified about hardware; who wants a log for both gets it."""
    pager = NOTIFY.format(reference="env:MY_KEY", url="http://127.0.0.1:9")
    log = '\n[notify]\norder = ["log"]\n'
    warned = [
        [line.subject for line in look_at_notifiers(setting(tmp_path, text), send_test=False)].count(
            "notifiers (owner)"
        )
        for text in (pager, log)
    ]

    assert [1, 0] == warned
