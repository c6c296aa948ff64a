"""Verifies that the machines of a job are the ones that passed, and that nothing was found on them since. A verdict is about
hardware, so the job begins with this.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from checks.bundle import Pass, load_pass
from checks.judge.open_findings.prior_findings import found_since, moment
from checks.process import machine_state
from checks.runner.node_context import open_before
from checks.value_types import DecodeError

SAME = ("host", "boot_id", "gpu_uuids", "driver")
# Another job of a warm pool may give a machine another name and another index: the token, which the check
# left on the machine itself, takes the place of the name. So does the engine's own name of the node, where there is one.
NAMES_IN_POOL = ("pool_token", "engine_node")


def confirm_here(pass_path: Path, node: str, gpus_per_node: int = 0) -> list[str]:
    """How this machine differs from the node of that name in the pass; empty if it is the same machine, and no fault was found on it
    since.

    An identity that is unknown, or a pass that cannot be read, counts as a difference.
    """
    from checks.probes.host.system import identity_of_node

    proven = _read(pass_path)
    if isinstance(proven, str):
        return [proven]
    then = next((node_of_pass.identity for node_of_pass in proven.nodes if node_of_pass.name == node), None)
    if then is None:
        return [f"{node} is not among the nodes that passed"]
    return [*differences(then, identity_of_node(), gpus_per_node), *found_here(proven, node)]


def claim(pass_path: Path, gpus_per_node: int = 0) -> tuple[str, list[str]]:
    """Which node of the pass this machine is, whatever its name is now; "" and the reason if it is none of them, or a fault was found
    on it since.
    """
    from checks.probes.host.system import identity_of_node

    proven = _read(pass_path)
    if isinstance(proven, str):
        return "", [proven]
    name, lines = among(proven, identity_of_node(), gpus_per_node)
    lines += found_here(proven, name)
    return ("" if lines else name), lines


def among(proven: Pass, identity: Mapping[str, str], gpus_per_node: int = 0) -> tuple[str, list[str]]:
    """The result is that of `claim` for a machine with the given identity."""
    key = next((name for name in NAMES_IN_POOL if identity.get(name)), "")
    if not key:
        return "", [
            "this machine has no pool token: it joined the pool after the check, or its disk was cleaned"
        ]
    then = next((passed for passed in proven.nodes if passed.identity.get(key) == identity[key]), None)
    if then is None:
        return "", [f"this machine's {key.replace('_', ' ')} is not one of those that passed"]
    lines = differences(then.identity, identity, gpus_per_node, (key, "boot_id", "gpu_uuids", "driver"))
    return ("", [f"as {then.name}: {line}" for line in lines]) if lines else (then.name, [])


def twice(claims: Mapping[str, str | None]) -> str:
    """Why these hosts (host -> node of the pass) are not all different machines of the pass; "" if they are."""
    claimed: dict[str, str] = {}
    for host, name in claims.items():
        if not name:
            return f"{host} cannot be matched to a machine that passed"
        if name in claimed:
            return f"{host} and {claimed[name]} both identify themselves as {name}"
        claimed[name] = host
    return ""


def differences(
    then: Mapping[str, str], identity: Mapping[str, str], gpus_per_node: int = 0, keys: tuple[str, ...] = SAME
) -> list[str]:
    """The differences, one line each."""
    lines = [
        f"{key} was {then.get(key, 'unknown')} and is now {identity.get(key, 'unknown')}"
        for key in keys
        if then.get(key) != identity.get(key)
    ]
    needed = (*keys[:2], *(("gpu_uuids", "driver") if gpus_per_node else ()))
    return lines or [f"{key} is not known" for key in needed if not then.get(key)]


def found_here(proven: Pass, node: str) -> list[str]:
    """What was found on this machine since it passed under this name, one line each."""
    lines, text = list[str](), open_before(machine_state.folder())
    for passed in (each for each in proven.nodes if each.name == node):
        lines += found_since(text, moment(passed.measured_at or proven.measured_at), passed.overridden)
    return lines


def _read(pass_path: Path) -> Pass | str:
    """The pass, or why it cannot be read."""
    try:
        return load_pass(pass_path.read_bytes())
    except OSError as error:
        return f"the pass cannot be read: {error.strerror}"
    except DecodeError as error:
        return f"the pass cannot be read: {error}"
