"""The files through which SageMaker passes settings to a training container, and those in which it expects results.

Source: "How Amazon SageMaker provides training information", AWS documentation: /opt/ml/input/config/*.json,
/opt/ml/input/data/<channel>, /opt/ml/output/data, /opt/ml/output/failure (its first 1024 characters are shown).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from checks.model import NODE_NAME
from checks.value_types import natural

ROOT = "/opt/ml"
FAILURE_CHARACTERS = 1024


class ResourceError(Exception):
    """resourceconfig.json is there and cannot be used. The message says why."""


@dataclass(frozen=True)
class Resources:
    """The hosts of the job in one order on all of them, this one's name, and the interface between them."""

    current: str
    hosts: tuple[str, ...]
    interface: str


def parse_resources(text: str) -> Resources:
    """resourceconfig.json. Keys that are not known here are ignored: AWS adds some. Raises ResourceError."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ResourceError(f"it is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ResourceError("it is no JSON object")
    hosts, current = value.get("hosts"), value.get("current_host")
    if not isinstance(hosts, list) or not hosts or not all(_is_name(host) for host in hosts):
        raise ResourceError("its hosts are no list of host names")
    if len(set(hosts)) != len(hosts) or current not in hosts:
        raise ResourceError(f"its current_host {current!r:.80} is not once among its hosts")
    return Resources(
        str(current), tuple(sorted(hosts, key=natural)), str(value.get("network_interface_name") or "")
    )


def channel(root: Path) -> Path:
    """The input channel that a launcher of ours fills."""
    return root / "input" / "data" / "prelaunch"


def channel_bundles(root: Path) -> list[Path]:
    """Every bundle.json directly in an input channel."""
    return sorted((root / "input" / "data").glob("*/bundle.json"))


def _is_name(value: object) -> bool:
    return isinstance(value, str) and len(value) <= 253 and re.fullmatch(NODE_NAME, value) is not None
