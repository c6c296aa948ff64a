"""dcgm.policy: the violation policy that is set in the host engine, and what it reports.

The check never sets a policy, because `dcgmi policy --set` replaces a site's own. A policy that resets GPUs would reset them during
the job.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from checks.check import CheckError, Context, Measurement
from checks.model import Value
from checks.probes.dcgm import dcgmi
from checks.probes.dcgm.dcgmi import DcgmiCell, dcgm_check
from checks.process import tool
from checks.process.tool import ToolResult

GROUP = ("-g", "0")
ASK_S = 20.0
NONE = "None"
TITLE = "Policy Information"
LISTENING = "Listening for violations"
_FIELDS = ("Violation conditions", "Action on violation", "Validation after action")
_UNUSED = ("Isolation mode", "Validation failure action")
_VIOLATION = re.compile(
    r"^.*(?:has violated policy manager values\.|XID error \d+ detected\.)\s*$", re.MULTILINE
)


@dataclass(frozen=True)
class SetPolicy:
    """The policy in the host engine: "None" if none is set, "****" if the GPUs differ."""

    conditions: str
    action: str
    validation: str


@dcgm_check(
    "dcgm.policy",
    ("action", "validation", "violations"),
    timeout_s=90,
    cost="seconds",
    beside_job=True,
    events=("violations",),
)
def policy(context: Context) -> Measurement:
    """Reads the violation policy of all GPUs, and listens for `listen_s` seconds (an option) where it has conditions.

    `conditions`, `action` and `validation` in DCGM's words. `violations` holds what was reported meanwhile, "" for
    nothing. Without a condition there is nothing to listen to, and the evidence says so.
    """
    result = dcgmi.ask("policy", *GROUP, "--get", "-j", timeout_s=ASK_S)
    policy_set = result.parsed(parse)
    if result.code:
        raise CheckError(f"dcgmi policy failed: {result.account()[:600]}")
    heard = listen(context.options.get("listen_s", 2.0)) if policy_set.conditions != NONE else None
    metrics: dict[str, Value] = {
        **vars(policy_set),
        "violations": "; ".join(violations(heard.stdout)) if heard else "",
    }
    listened = heard.account() if heard else "no violation condition is set, so no violation was watched for"
    return Measurement(metrics, f"{result.account()}\n{listened}")


def parse(text: str) -> SetPolicy:
    """The policy in the JSON text of `dcgmi policy --get -j`. Raises CheckError."""
    body = dcgmi.table(text, TITLE)
    for name in _UNUSED:
        _value(body, name)  # these are not used here, but a document without them is not complete
    return SetPolicy(*(_value(body, name) for name in _FIELDS))


def _value(body: Mapping[str, DcgmiCell], name: str) -> str:
    cell = body.get(name, DcgmiCell())
    text = "; ".join(" ".join(piece.split()) for piece in (cell.value, *cell.rest) if piece.strip())
    if not text:
        raise CheckError(f"{name!r} is missing or empty")
    return text


def listen(seconds: float) -> ToolResult:
    """The output of `dcgmi policy --reg` until it is interrupted. Raises CheckError if it did not listen."""
    argv = ("timeout", "-s", "INT", "-k", "5", f"{seconds:g}", tool.find("dcgmi"), "policy", *GROUP, "--reg")
    result = tool.run(argv, seconds + 15.0)
    if result.code is None or result.cut or LISTENING not in result.stdout:
        raise CheckError(f"dcgmi could not listen for violations: {result.account()[:600]}")
    return result


def violations(text: str) -> list[str]:
    """The violations in that output."""
    return [" ".join(line.split()) for line in _VIOLATION.findall(text)]
