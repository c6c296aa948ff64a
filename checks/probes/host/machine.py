"""Identifies the machine from files alone, so that nothing here can hang because of a broken GPU.

Paths are below an injected `root`. A value that cannot be read is "", which never confirms anything.
"""

from __future__ import annotations

import re
from pathlib import Path

from checks.probes.sysfs import text_of

NVIDIA = "proc/driver/nvidia"


def boot_id(root: Path) -> str:
    """The kernel's id of this boot: of the host, in a container too."""
    return text_of(root / "proc/sys/kernel/random/boot_id")


def machine_id(root: Path) -> str:
    """The id that systemd gave this installation; images and containers often have none."""
    return text_of(root / "etc/machine-id")


def product_uuid(root: Path) -> str:
    """The firmware's id of the machine (readable by root alone, absent in most micro-VMs); "" for a placeholder, which many boards
    have: few different digits, or small bytes (03000200-0400-0500-0006-000700080009). osquery's core/system.cpp has a list.
    """
    uuid = text_of(root / "sys/class/dmi/id/product_uuid").lower()
    digits = uuid.replace("-", "")
    return "" if len(set(digits)) <= 4 or set(digits[::2]) == {"0"} else uuid


def instance_id(root: Path) -> str:
    """The EC2 instance id, which Nitro gives as the board's asset tag; "" on any other machine.

    Source: Amazon EC2 User Guide, "Identify EC2 Linux instances" (board_asset_tag is readable by everybody).
    """
    tag = text_of(root / "sys/class/dmi/id/board_asset_tag")
    return tag if re.fullmatch(r"i-[0-9a-f]{8,17}", tag) else ""


def os_release(root: Path) -> str:
    """The distribution's own name for itself: "Debian GNU/Linux 12 (bookworm)"."""
    for path in ("etc/os-release", "usr/lib/os-release"):
        for line in text_of(root / path).splitlines():
            key, _, value = line.partition("=")
            if key == "PRETTY_NAME":
                return value.strip().strip("\"'")
    return ""


def cpu_model(root: Path) -> str:
    """The processor's name; on ARM, which gives none, "implementer 0x41 part 0xd40"."""
    fields: dict[str, str] = {}
    for line in text_of(root / "proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    if fields.get("model name"):
        return fields["model name"]
    implementer, cpu_part = fields.get("CPU implementer"), fields.get("CPU part")
    return f"implementer {implementer} part {cpu_part}" if implementer and cpu_part else ""


def driver_version(root: Path) -> str:
    """The loaded NVIDIA kernel module's version; "" if none is loaded."""
    text = text_of(root / NVIDIA / "version")
    match = re.search(r"NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s", f"{text}\n")
    return match[1] if match else ""


def gpu_uuids(root: Path) -> tuple[str, ...]:
    """The GPUs' UUIDs as the driver lists them, sorted; one that it has not initialised has none yet."""
    files = sorted((root / NVIDIA / "gpus").glob("*/information"))
    matches = (
        re.search(r"^GPU UUID:\s*(GPU-[0-9a-fA-F-]+)\s*$", text_of(file), re.MULTILINE) for file in files
    )
    return tuple(sorted(match[1] for match in matches if match))
