"""Are these the machines that were proven? A verdict is about hardware, so the job begins by asking."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from checks.bundle import load_pass
from checks.decode import DecodeError

SAME = ("host", "boot_id", "gpu_uuids", "driver")


def confirm_here(pass_path: Path, node: str, gpus_per_node: int = 0) -> list[str]:
    """How this machine differs from the node of that name in the pass; empty when it is the same one.

    An identity that was never known, or a pass that cannot be read, differs: it proves nothing.
    """
    from checks.system import identity_of_node

    try:
        proven = load_pass(pass_path.read_bytes())
    except OSError as error:
        return [f"the pass cannot be read: {error.strerror}"]
    except DecodeError as error:
        return [f"the pass cannot be read: {error}"]
    then = next((known.identity for known in proven.nodes if known.name == node), None)
    if then is None:
        return [f"{node} is not among the nodes that passed"]
    return differences(then, identity_of_node(), gpus_per_node)


def differences(then: Mapping[str, str], found: Mapping[str, str], gpus_per_node: int = 0) -> list[str]:
    """What differs, one line each."""
    lines = [
        f"{key} was {then.get(key, 'unknown')}, it is {found.get(key, 'unknown')}"
        for key in SAME
        if then.get(key) != found.get(key)
    ]
    needed = ("host", "boot_id", *(("gpu_uuids", "driver") if gpus_per_node else ()))
    return lines or [f"{key} is not known" for key in needed if not then.get(key)]
