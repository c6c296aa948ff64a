"""The arguments with which every engine's containers start the agent. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tasks.launchers.base import JobSpec, Work


def agent_arguments(
    job: JobSpec, common: tuple[str, ...] = (), confirm: tuple[str, ...] = (), ask: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Verb and options, up to the command. `common` are for checks and gates, `confirm` and `ask` follow these two options."""
    observe = ("--observe",) if job.observe else ()
    asks = ("--ask-s", f"{job.ask_s:g}", *ask) if job.ask_s else ()
    match job.work:
        case Work.COMMAND:
            return ("exec",)
        case Work.CHECK:
            return ("check", *common)
        case Work.CONFIRM:
            return ("gate", *common, "--confirm", *confirm, *observe)
        case Work.GATE:
            return ("gate", *common, *observe, *asks)


def filled(command: Iterable[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """The command with these placeholders replaced; a value is not read again."""
    names = "|".join(map(re.escape, values))
    return tuple(re.sub(names, lambda match: values[match[0]], argument) for argument in command)
