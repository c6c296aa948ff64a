"""What tests of Slack's messages stand on: a workspace, a store in a folder, and pages as the gate makes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tasks.gate_file.people import SlackTable
from tasks.notifiers.base import (
    Audience,
    Item,
    Link,
    Notification,
    NotifierAccess,
    PageKind,
    PendingQuestion,
    Status,
)
from tasks.notifiers.slack.notifier import SlackNotifier
from tasks.render.remedy_commands import PURPOSES
from tasks.store.folder import FolderStore
from tests.fakes.slack.server import SlackServer

COMMAND = "aws sagemaker update-training-job --training-job-name p5-1-check-1 --resource-config KeepAlivePeriodInSeconds=0"
BROKEN = "node ip-10-0-3-7 fails DCGM's diagnostic: GPU 5: memory: test failed"
ADVICE = f"Replace the node. {PURPOSES['sagemaker']}"
OUTPUT = "Memory: Fail\nGPU 5: error in 0x7f"
ITEM = Item("FAIL HARDWARE", "HARDWARE", "ip-10-0-3-7", "dcgm.diag", BROKEN, ADVICE, (COMMAND,), OUTPUT, True)
RUN = "http://127.0.0.1:4200/runs/flow-run/1"


def facts(meaning: str, nodes: int = 4) -> tuple[tuple[str, str], ...]:
    """What a page says of its verdict, of how many nodes, and where its gate file is."""
    return (
        ("what it means", meaning),
        ("coverage", f"{nodes} of 4 nodes"),
        ("gate file", "/fsx/p5.toml on login-1"),
    )


REFUSED = Notification(
    "p5-1",
    "p5-cluster",
    f"NO-GO p5-prod: {BROKEN}",
    "all of it in words",
    "s3://bucket/gates/p5-1/report.html",
    gate="p5-prod",
    culprits=("ip-10-0-3-7",),
    items=(ITEM,),
    facts=facts("1 of 4 nodes failed a check; the fault is in the hardware of ip-10-0-3-7. Training was not started."),
    links=(Link("run in Prefect", RUN), Link("logs", "s3://bucket/gates/p5-1/logs")),
    measured_s=1_789_999_000.0,
)  # fmt: skip
GO = replace(
    REFUSED, title="GO p5-prod: 4 of 4 nodes", topic=PageKind.GO, items=(), culprits=(),
    facts=facts("PASS: every required check ran and met the policy."),
)  # fmt: skip
READ_LOG = "See whether the node is up, read its log (in logs/ beside the report), then run the gate again."
LOST = "node-3 sent no report (its process exited 7)"
CANNOT_TELL = replace(
    REFUSED,
    title=f"CANNOT TELL p5-prod: {LOST}",
    topic=PageKind.CANNOT_TELL,
    facts=facts(
        "The gate cannot tell: evidence is missing. This does not mean that any machine is broken.", 3
    ),
    audience=Audience.OWNER,
    culprits=(),
    items=(Item("CANNOT TELL", "EVIDENCE", "node-3", "report", LOST, READ_LOG, (), "", True),),
)
ASKED = PendingQuestion("run-1", "gate-1-a", 1_790_000_000.0, False, RUN)
DOUBT = "node-2 has a clock that is not synchronised"
ODD = Item("WARN CONFIGURATION", "CONFIGURATION", "node-2", "system.clock", DOUBT, "Start it.", (), "", True)
QUESTION = replace(
    REFUSED,
    title=f"ASK p5-prod: {DOUBT}. Answer by 14:13 UTC",
    topic=PageKind.QUESTION,
    facts=facts("There are warnings, and the policy leaves the decision to a person."),
    audience=Audience.OWNER,
    question=ASKED,
    costs=(
        "Starting the training anyway may lose 12 node-hours in its first 24 h; a replacement of a node takes 1 to 3 h.",
    ),
    items=(ODD,),
)
STATUS = Status("p5-1", "p5-cluster", "p5-prod", "checks", "4 of 4 nodes report", 14, 27, 80.0)


@dataclass
class NotifierSetup:
    """A notifier at a workspace, whose records are in `store`."""

    slack: SlackServer
    channel: str
    options: dict[str, Any]
    store: FolderStore

    @property
    def notifier(self) -> SlackNotifier:
        """A new one each time, as each page makes its own: what it knows is in the store."""
        return SlackNotifier(SlackTable(api_url=self.slack.url, **self.options), self.means)

    @property
    def means(self) -> NotifierAccess:
        """The store and the token."""
        return NotifierAccess(self.store, lambda reference: self.slack.token)


def notifier_setup(slack: SlackServer, folder: Path, **options: Any) -> NotifierSetup:
    """A notifier for #gates, whose store is this folder."""
    channel = slack.channel("gates")
    return NotifierSetup(slack, channel, {"channel": "#gates", **options}, FolderStore(folder))
