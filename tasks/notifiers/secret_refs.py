"""Resolves a gate file's references to secrets: "env:NAME", or "block:secret/NAME" for a Secret block of the Prefect server.

A secret that was resolved is known to tasks.text.redact from then on.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from checks.runner.deadline import NotInTime, limited
from tasks.notifiers.base import NotifyError
from tasks.text.redact import remember_secret

BLOCK_S = 10.0


def secret(reference: str) -> str:
    """The secret. Raises NotifyError, which names the reference and never the value. Works from any thread, a loop's as well."""
    form, _, name = reference.partition(":")
    if form == "env":
        value = os.environ.get(name, "").strip()
        if not value:
            raise NotifyError(f"the environment variable {name} is not set. Set it where the gate runs.")
    elif form == "block":
        value = _block(name.removeprefix("secret/")).strip()
    else:
        raise NotifyError(f"{form!r} is not a kind of secret reference. Write env:NAME or block:secret/NAME.")
    remember_secret(value)
    return value


def _block(name: str) -> str:
    """Read the block in a thread of its own, because the caller's may run a loop; the context says which server and which run."""
    try:
        value = limited(BLOCK_S, lambda: asyncio.run(_loaded(name)))
    except NotInTime:
        reason = f"no answer within {BLOCK_S:g} s"
    except Exception as error:  # noqa: BLE001 - whatever the server says, it is this reference that is not to be had
        # Prefect 3.8.8 makes a ValueError of the server's 404. Its text may repeat what a block holds.
        reason = type(error.__cause__ or error).__name__
    else:
        if isinstance(value, str) and value.strip():
            return value
        reason = "it contains no text"
    message = f"the block secret/{name} cannot be read ({reason}). Create it in Prefect's UI: Blocks, Secret, a text."
    raise NotifyError(message)


async def _loaded(name: str) -> object:
    from prefect.blocks.system import Secret

    block: Any = await Secret.aload(name)
    return block.value.get_secret_value()  # get() would turn a text of digits into a number
