"""Log files on a node, in the forms of syslog daemons."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from checks.probes.kernel.log_source import read_file
from tests.checks.probes.kernel.test_log_source import reader
from tests.checks.probes.kernel.world import NOW, XID


@pytest.mark.parametrize(
    "form",
    [
        "<4>1 %Y-%m-%dT%H:%M:%S.123456+00:00 host kernel - - - {}",
        '<4>1 %Y-%m-%dT%H:%M:%SZ host kernel - - [origin@1 ip="10.0.0.9"] {}',
        "%Y-%m-%d %H:%M:%S+00:00 host kernel: {}",
        "%a %Y-%m-%d %H:%M:%S UTC host kernel: {}",
        "%s.000001 host kernel: {}",
    ],
)
def test_the_forms_of_syslog_daemons_are_read_on_a_node(tmp_path: Path, form: str) -> None:
    moment = datetime.fromtimestamp(NOW.epoch_s - 60, UTC)
    stamped = moment.strftime(form.replace("%s", str(int(NOW.epoch_s - 60))))
    path = tmp_path / "messages"
    path.write_text(f"{stamped.format(XID)}\n", encoding="utf-8")
    found = reader()

    read_file(path, found, vouched=True)

    assert [60.0] == [round(event.line.age_s or 0.0) for event in found.log("text").recent]
