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

ITEM = Item(
    "FAIL",
    "HARDWARE",
    "ip-10-0-3-7",
    "dcgm.diag",
    "node ip-10-0-3-7 fails DCGM's diagnostic: GPU 5: memory: test failed",
    f"Replace the node. {PURPOSES['sagemaker']}",
    (
        "aws sagemaker update-training-job --training-job-name p5-1-check-1 --resource-config KeepAlivePeriodInSeconds=0",
    ),
    "Memory: Fail\nGPU 5: error in 0x7f",
)
REFUSED = Notification(
    "p5-1",
    "p5-cluster",
    "NO-GO p5-prod: node ip-10-0-3-7 fails DCGM's diagnostic: GPU 5: memory: test failed",
    "all of it in words",
    "s3://bucket/gates/p5-1/report.html",
    gate="p5-prod",
    culprits=("ip-10-0-3-7",),
    items=(ITEM,),
    facts=(("what it means", "At least one check failed. Training was not started."), ("coverage", "4 of 4 nodes")),
    costs=("Starting the training anyway would lose about 12 node-hours; waiting for a replacement costs 3 node-hours.",),
    links=(
        Link("run in Prefect", "http://127.0.0.1:4200/runs/flow-run/1"),
        Link("logs", "s3://bucket/gates/p5-1/logs"),
    ),
    measured_s=1_789_999_000.0,
)  # fmt: skip
GO = replace(
    REFUSED, title="GO p5-prod: 4 of 4 nodes", kind=PageKind.GO, items=(), costs=(), culprits=(),
    facts=(("what it means", "PASS: every required check ran and met the policy."), ("coverage", "4 of 4 nodes")),
)  # fmt: skip
CANNOT_TELL = replace(
    REFUSED,
    title="CANNOT TELL p5-prod: node-3 sent no report (its process exited 7)",
    kind=PageKind.CANNOT_TELL,
    facts=(
        (
            "what it means",
            "The gate cannot tell: evidence is missing. This does not mean that any machine is broken.",
        ),
        ("coverage", "3 of 4 nodes"),
    ),
    costs=(),
    audience=Audience.OWNER,
    culprits=(),
    items=(
        Item(
            "CANNOT TELL",
            "EVIDENCE",
            "node-3",
            "report",
            "node-3 sent no report (its process exited 7)",
            "Look at its log.",
            (),
            "",
        ),
    ),
)
ASKED = PendingQuestion("run-1", "gate-1-a", 1_790_000_000.0, False, "http://127.0.0.1:4200/runs/flow-run/1")
QUESTION = replace(
    REFUSED,
    title="ASK p5-prod: node-2: synchronised is false (system.clock). Answer within 30 minutes",
    kind=PageKind.QUESTION,
    facts=(
        ("what it means", "There are warnings, and the policy leaves the decision to a person."),
        ("coverage", "4 of 4 nodes"),
    ),
    audience=Audience.OWNER,
    question=ASKED,
    items=(
        Item(
            "WARN",
            "CONFIGURATION",
            "node-2",
            "system.clock",
            "node-2: synchronised is false (system.clock)",
            "Start chronyd.",
            (),
            "",
        ),
    ),
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
