"""Who is notified about a gate, and who may approve: the tables [notify] and [approval] of a gate file (pydantic).

A gate file never contains a secret: a key that needs one names where it is, "env:NAME" (an environment variable of the
process that runs the gate) or "block:secret/NAME" (a Secret block of the Prefect server).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

NotifierName = Literal["slack", "pagerduty", "apprise", "log"]
Reference = Annotated[
    str, Field(pattern=r"^(env:[A-Za-z_][A-Za-z0-9_]*|block:secret/[a-z0-9][a-z0-9-]*)$", max_length=200)
]
NoReference = Annotated[
    str, Field(pattern=r"^(|env:[A-Za-z_][A-Za-z0-9_]*|block:secret/[a-z0-9][a-z0-9-]*)$", max_length=200)
]
UserId = Annotated[str, Field(pattern=r"^[UW][A-Z0-9]{2,30}$")]
Mentioned = Annotated[str, Field(pattern=r"^[UWS][A-Z0-9]{2,30}$")]
Channel = Annotated[str, Field(pattern=r"^(#[^\s#]{1,80}|[CGD][A-Z0-9]{2,30})$")]
NoChannel = Annotated[str, Field(pattern=r"^(|#[^\s#]{1,80}|[CGD][A-Z0-9]{2,30})$")]
# Loopback alone may be asked without TLS.
Url = Annotated[
    str,
    Field(pattern=r"^(https://[^\s@]+|http://(127\.0\.0\.1|localhost)(:\d+)?(/[^\s@]*)?)$", max_length=500),
]


class NotifyTable(BaseModel):
    """A table: frozen, nothing coerced, nothing unknown, and nothing of it repeated in an error."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, hide_input_in_errors=True
    )


class SlackTable(NotifyTable):
    """One message a gate run in `channel`; what is the gate's owner's business goes to `owner_channel` ("": the same).

    `mention` and `owner_mention` are ids of users (U...) and user groups (S...) that a page calls.
    """

    channel: Channel
    owner_channel: NoChannel = ""
    token: Reference = "env:SLACK_BOT_TOKEN"  # noqa: S105 - where it is, not what it is
    mention: tuple[Mentioned, ...] = ()
    owner_mention: tuple[Mentioned, ...] = ()
    api_url: Url = "https://slack.com/api/"


class PagerDutyTable(NotifyTable):
    """Events API v2: the routing key of the hardware on-call's service, and that of the gate's owner ("": none)."""

    routing_key: Reference = "env:PAGERDUTY_ROUTING_KEY"
    owner_routing_key: NoReference = ""
    url: Url = "https://events.pagerduty.com/v2/enqueue"


class AppriseTable(NotifyTable):
    """Every service that Apprise supports (mail, Teams, SNS, webhooks): each reference holds one or more of its URLs."""

    urls: Annotated[tuple[Reference, ...], Field(min_length=1)] = ("env:PRELAUNCH_APPRISE_URLS",)
    owner_urls: tuple[Reference, ...] = ()


class Notify(NotifyTable):
    """Which notifiers are used, in this order; if one fails, the next one is tried.

    `order` reaches the on-call for the hardware. `owner` reaches the owner of the gate, who is notified of what no machine
    is to blame for (the gate could not tell, a job failed, a run died). The log and the store are always the last notifier.
    """

    order: Annotated[tuple[NotifierName, ...], Field(min_length=1)] = ("log",)
    owner: tuple[NotifierName, ...] = ()
    slack: SlackTable | None = None
    pagerduty: PagerDutyTable | None = None
    apprise: AppriseTable | None = None

    @model_validator(mode="after")
    def reachable(self) -> Notify:
        """Every notifier that is named has its table, and there is an owner."""
        wrong = [
            f"{'order' if name in self.order else 'owner'} names {name}, but there is no table [notify.{name}]"
            for name in self.notifiers
            if name != "log" and getattr(self, name) is None
        ]
        if {*self.order, *self.owner} != {"log"} and not self.owner:
            reason = "The hardware on-call is not notified of missing evidence"
            wrong.append(f'name the owner of the gate: owner = ["slack"], for example. {reason}')
        if "pagerduty" in self.owner and not (self.pagerduty and self.pagerduty.owner_routing_key):
            wrong.append("owner names pagerduty, so [notify.pagerduty] owner_routing_key is required")
        if "apprise" in self.owner and not (self.apprise and self.apprise.owner_urls):
            wrong.append("owner names apprise, so [notify.apprise] owner_urls is required")
        if wrong:
            raise ValueError("; ".join(wrong))
        return self

    @property
    def notifiers(self) -> tuple[NotifierName, ...]:
        """Every notifier that is used for anything, each once."""
        return tuple(dict.fromkeys((*self.order, *self.owner)))


class Approval(NotifyTable):
    """Who may answer for a verdict: ids of Slack users. Empty: nobody through Slack.

    `approvers` answer a WARN that the policy leaves to a person, `overriders` a FAIL as well. With on_fail = "ask" a FAIL
    is put to a person too; the default refuses. Prefect's own form knows no users, so its answers are recorded as unverified;
    it overrides a FAIL only where `form_may_override` says so.
    """

    approvers: tuple[UserId, ...] = ()
    overriders: tuple[UserId, ...] = ()
    on_fail: Literal["refuse", "ask"] = "refuse"
    form_may_override: bool = False
