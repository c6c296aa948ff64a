"""A job and what is planned for it, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from checks import bundle as bundles
from checks.bundle import Pass, PassedNode
from checks.documents.decode import decode
from tasks.launchers.base import JobSpec, Plan, Work
from tasks.launchers.kubernetes.objects import make_plan
from tasks.launchers.kubernetes.options import KubernetesOptions
from tests.tasks.launchers.slurm.test_batch_script import JOB as slurm_job

IMAGE = "registry.example/prelaunch:1"
NODES = tuple(PassedNode(f"node-{i}", i, {"engine_node": f"worker-{7 - i}"}) for i in range(2))
PASSED = Pass(1, "g", "0" * 64, "", NODES)
JOB = replace(slurm_job, files={"bundle.json": b"{}"})
CONFIRM = replace(JOB, work=Work.CONFIRM, files={**JOB.files, "pass.json": bundles.dump(PASSED)})


def options(**changes: Any) -> KubernetesOptions:
    """The smallest options, with these changes, as a gate file gives them."""
    return decode(KubernetesOptions, {"image": IMAGE, **changes}, "options")


def plan(job: JobSpec = JOB, template: Mapping[str, Any] | None = None, **changes: Any) -> Plan:
    """What would be made."""
    return make_plan(job, options(**changes), template or {})


def pods(made: Plan) -> list[Any]:
    """The templates of the pods of all Jobs."""
    return [call.body["spec"]["template"] for call in made.calls if call.body["kind"] == "Job"]  # type: ignore[index]


def variables(pod: Any) -> dict[str, Any]:
    """The container's variables by name: the value, or where it comes from."""
    rows = pod["spec"]["containers"][0]["env"]
    assert len({row["name"] for row in rows}) == len(rows)
    return {row["name"]: row.get("value", row.get("valueFrom")) for row in rows}
