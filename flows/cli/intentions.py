"""Words that people type for what another verb does: a table, because no distance between words leads from `why` to `judge`."""

from __future__ import annotations

from collections.abc import Mapping

from checks.command_line import UsageError

_WHY = (
    "judge",
    "`prelaunch judge REPORT` says why a gate decided; `prelaunch explain FILE` reads a tool's output.",
)
_NOW = (
    "watch",
    "`prelaunch watch RUN` follows a run; `prelaunch store list STORE` lists the gates that ended.",
)
_PAST = (
    "store",
    "`prelaunch store list STORE` lists past verdicts; `prelaunch trend STORE` shows what gets worse.",
)
_BEFORE = (
    "plan",
    "`prelaunch plan FILE` checks a gate file and shows what it would do; `prelaunch doctor FILE` what is missing.",
)
_START = (
    "gate",
    "`prelaunch gate FILE` runs a gate here; `prelaunch trigger DEPLOYMENT` runs one on a Prefect server.",
)
_SHOW = (
    "render",
    "`prelaunch render REPORT` writes a report for people; `prelaunch store list STORE` finds it.",
)
_NODES = (
    "machines",
    "`prelaunch machines FILE` lists the machines of a cluster; `prelaunch fleet STORE` says which are proven.",
)
_MEND = ("remedy", "`prelaunch remedy FILE` repairs what a gate condemned.")
_END = (
    "watch",
    "Ctrl-C ends a gate that runs here; a run on a server is cancelled in Prefect. `prelaunch watch RUN` follows it.",
)
_NEW = (
    "init",
    "`prelaunch init FILE` writes a new gate file; `prelaunch examples FOLDER` copies the shipped ones.",
)
_APPROVE = (
    "slack",
    "a question is answered in Prefect's form or in Slack: docs/approval.md. `prelaunch slack` serves the buttons.",
)
_CLUSTER = (
    "cluster-config",
    "`prelaunch cluster-config` writes the configuration of a cluster of AWS ParallelCluster; `prelaunch slurm` looks at one.",
)

# what is typed -> the verb whose usage is shown, and what to type instead
INTENTIONS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("why", "diagnose", "analyze", "analyse", "debug", "decide", "verdict"), _WHY),
    **dict.fromkeys(("status", "follow", "tail", "logs", "log", "ps"), _NOW),
    **dict.fromkeys(("list", "ls", "runs", "gates", "past"), _PAST),
    **dict.fromkeys(("validate", "lint", "verify", "dry-run", "dryrun", "preview", "cost", "price"), _BEFORE),
    **dict.fromkeys(("run", "start", "launch", "submit", "go"), _START),
    **dict.fromkeys(("report", "show", "html", "open", "view"), _SHOW),
    **dict.fromkeys(("nodes", "cluster", "inventory"), _NODES),
    **dict.fromkeys(("repair", "fix", "heal", "drain", "reboot"), _MEND),
    **dict.fromkeys(("cancel", "stop", "abort", "kill"), _END),
    **dict.fromkeys(("new", "create", "setup", "configure", "config"), _NEW),
    **dict.fromkeys(("pcluster", "parallelcluster", "cluster-yaml"), _CLUSTER),
    **dict.fromkeys(("approve", "override", "answer"), _APPROVE),
}  # fmt: skip


def intended(word: str) -> str | None:
    """The verb that does what the word asks for; None where the table does not know it."""
    return INTENTIONS[word][0] if word in INTENTIONS else None


def missing_verb(word: str, usage: str) -> UsageError:
    """The error about a word of the table. `usage` is that of the verb that was meant."""
    verb, said = INTENTIONS[word]
    return UsageError(f"there is no `{word}`", usage, verb, hint=said)
