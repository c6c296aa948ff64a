"""What a notification is, and the contract of every notifier.

NotifyError         the notification could not be sent; the next notifier is tried, and the verdict stays as it is
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from tasks.store.base import Store

# How a message begins whose machines may still cost money.
PAID = "MACHINES MAY STILL BE BILLED"
# The fact that says what an answer means for the machines.
MEANING = "what it means"
SAME = "the same as no answer"


class NotifyError(Exception):
    """The notification could not be sent. The message says why, and the remedy; never a secret."""


class PageKind(StrEnum):
    """What a notification is about."""

    GO = "go"
    REFUSED = "refused"
    CANNOT_TELL = "cannot tell"
    QUESTION = "question"
    OVERRIDDEN = "overridden"
    OBSERVED = "observed"
    TRAINING_FAILED = "training failed"
    CANCELLED = "cancelled"
    NO_CAPACITY = "no capacity"
    REJECTED = "rejected"
    MACHINES = "machines still billed"
    CRASHED = "run crashed"
    LATE = "run late"
    REPAIR = "repair"
    TEST = "test"


class Audience(StrEnum):
    """Who has to act: the on-call for the hardware, or the owner of the gate."""

    ONCALL = "oncall"
    OWNER = "owner"


class Severity(StrEnum):
    """PagerDuty's own four: https://developer.pagerduty.com/docs/send-alert-event."""

    CRITICAL = "critical"
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True)
class Link:
    """Where a person finds more. `url` is http(s), or a path if there is nothing else."""

    text: str
    url: str


@dataclass(frozen=True)
class Item:
    """Findings that say one thing of `where` (names): a heading such as "FAIL HARDWARE", the whole sentence, and what to type.

    `is_titled`: the title of the page says the sentence.
    """

    heading: str
    cause: str
    where: str
    check: str
    sentence: str
    remedy: str
    commands: tuple[str, ...]
    evidence: str
    is_titled: bool = False

    def __str__(self) -> str:
        """Such as "FAIL HARDWARE: node-1, rank 3 computes wrong sums"."""
        return f"{self.heading}: {self.sentence}"


@dataclass(frozen=True)
class PendingQuestion:
    """A question that waits: `deadline` in Unix seconds; `override` is true if the verdict is a FAIL; `url` is the run's page.

    `by_slack`: whether the gate file names somebody who may answer in Slack. `repair` is what is to be allowed, such as "reboot n2",
    where the question is not whether the training starts.
    """

    flow_run_id: str
    key: str
    deadline: float
    override: bool
    url: str
    by_slack: bool = True
    repair: str = ""

    @property
    def prompt(self) -> str:
        """What is asked."""
        if self.repair:
            return f"Allow this: {self.repair}?"
        return f"Start the training {'against this verdict' if self.override else 'despite these warnings'}?"

    @property
    def default(self) -> str:
        """What follows from no answer."""
        return (
            "nothing more is done to the node"
            if self.repair
            else "the training is not started, and the gate ends"
        )

    @property
    def choices(self) -> tuple[tuple[str, str], ...]:
        """The answers, and what follows from each."""
        if self.repair:
            return ("Leave the machine as it is", SAME), (
                "Allow it",
                "it is done once, then the node is tested",
            )
        launch = "OVERRIDE: launch anyway" if self.override else "Launch anyway"
        start = (launch, "the training starts now on these nodes, and your name and reason are recorded")
        return ("Do not launch", SAME), start, ("Check again", "all checks run once more, and decide anew")


@dataclass(frozen=True)
class AnswerLine:
    """Who decided what, and why: `by`, then `text`. `slack_user` is the id of a user whom Slack proved, "" for others.

    `by` is empty where `text` is the whole sentence. As text it is one line. `key` is that of the question.
    """

    text: str
    by: str = ""
    slack_user: str = ""
    key: str = ""

    def __str__(self) -> str:
        return f"{self.by} {self.text}" if self.by else self.text


@dataclass(frozen=True)
class Notification:
    """A message to people. `title` is one line, `text` is the whole message in plain words; nothing here is a secret.

    `gate` is the gate file's name, `url` the report ("" for none). `culprits` are the nodes (or "cluster") that are to
    blame, () if nobody is. `facts` are pairs for people (coverage, placement ...); `costs` lines. `said` lists the notifiers that
    failed before. `answered` says who decided what, and why (None if nobody was asked).
    `measured_s` is when its report was measured, in Unix seconds (0 without a report).
    `about` are the nodes, or the check, of which evidence is missing, or the node whose log says why the training failed: nobody is
    blamed, and another fault has others. `trained` is whether a training was seen to run. `returned` are nodes that are
    proven, by the engine's names: those of a GO, or one that a remediation gave back.
    """

    gate_id: str
    cluster: str
    title: str
    text: str
    url: str
    gate: str = ""
    topic: PageKind = PageKind.REFUSED
    audience: Audience = Audience.ONCALL
    severity: Severity = Severity.ERROR
    culprits: tuple[str, ...] = ()
    items: tuple[Item, ...] = ()
    more_items: int = 0
    facts: tuple[tuple[str, str], ...] = ()
    costs: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    question: PendingQuestion | None = None
    failed: tuple[str, ...] = ()
    answer: AnswerLine | None = None
    measured_s: float = 0.0
    about: tuple[str, ...] = ()
    trained: bool = False
    returned: tuple[str, ...] = ()


@dataclass(frozen=True)
class Status:
    """The progress of a run: `done` of `total` observations (0 of 0: not known), seconds since it began.

    `answered` is the last answer to a question of this run, as in a page; a question that is open hides the progress.
    """

    gate_id: str
    cluster: str
    gate: str
    stage: str
    detail: str
    done: int
    total: int
    elapsed_s: float
    links: tuple[Link, ...] = ()
    answer: AnswerLine | None = None


@dataclass(frozen=True)
class NotifierAccess:
    """What a notifier may use: the gate's store, and `secret`, which resolves a reference of the gate file ("env:NAME",
    "block:secret/NAME"; raises NotifyError that names the reference, never the value).
    """

    store: Store
    secret: Callable[[str], str]


class Notifier:
    """A service that delivers messages. A call blocks for 20 s at most, works from any thread, and raises NotifyError, StoreError."""

    name = ""

    def send(self, page: Notification) -> str:
        """Notify people; returns where the message went, for people. The same notification again has no second effect."""
        raise NotImplementedError

    def settle(self, page: Notification) -> str:
        """Record an end without notifying anybody: update a message, resolve what a GO resolves.

        Returns what was done, "" for nothing.
        """
        return ""

    def show(self, status: Status) -> None:
        """Update the run's message, if there is one."""
