"""The automations of deployments/prefect.yaml on a server of a test, for a tag of its own and with shorter times."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import yaml

from tests.flows.gates import processes_below
from tests.world import ROOT, World
from tests.world_processes import Worker

Json = dict[str, Any]


def triggers(tag: str, within_s: float) -> list[Any]:
    """The triggers of the reap deployment, as `prefect deploy` reads them."""
    from prefect.cli.deploy._triggers import _initialize_deployment_triggers

    file = yaml.safe_load((ROOT / "deployments" / "prefect.yaml").read_text(encoding="utf-8"))
    (reap,) = [one for one in file["deployments"] if one["name"] == "reap"]
    for trigger in reap["triggers"]:
        trigger["name"] = f"{trigger['name']}-{tag}"
        trigger["match_related"][0]["prefect.resource.id"] = f"prefect.tag.{tag}"
        trigger["within"] = min(trigger["within"], within_s)
    return _initialize_deployment_triggers("reap", reap["triggers"])


def deploy(world: World, tag: str, within_s: float) -> str:
    """The gate in pool TAG, its reaper with the automations in pool TAG-reap. The gate's deployment."""
    reaps = world.pool(f"{tag}-reap")
    world.deploy("flows/reap.py:reap", f"{tag}-reap", pool=reaps, triggers=triggers(tag, within_s))
    return world.deploy("flows/gate.py:gate", tag, pool=world.pool(tag), tags=sorted({"prelaunch", tag}))


def kill_all_but_nodes(worker: Worker, folder: Path) -> list[int]:
    """The host of worker and flow dies, the cluster does not. The processes of the nodes."""
    nodes = processes_below(folder)
    worker.kill()
    for pid in set(worker.started()) - set(nodes):
        os.kill(pid, signal.SIGKILL)
    return nodes


def failed_actions(world: World, tag: str) -> list[Json]:
    """Automations whose action failed say so nowhere else."""
    found = world.events("prefect.automation.action.failed")
    return [event for event in found if tag in event["resource"].get("prefect.resource.name", "")]
