"""A job's record: annotations of its first ConfigMap, which says that the job exists, and how it ended.

It outlives the pods, and a gate that was killed. Whoever creates a ConfigMap of a name is the only one: names are unique.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from checks.documents.report import dump_plain
from tasks.launchers.base import JobStatus
from tasks.launchers.job_files import parse_state
from tasks.launchers.kubernetes.api import CONFIG_MAP, Api, Object
from tasks.launchers.kubernetes.pod import JOB_LABEL, MANAGED, MANAGER

SUBMITTED, NODES = "prelaunch.dev/submitted", "prelaunch.dev/nodes"
SUBMISSION = "prelaunch.dev/submission"
ENDING, FINAL = "prelaunch.dev/ending", "prelaunch.dev/final"
DETAIL_CHARACTERS = 2000


@dataclass(frozen=True)
class JobRecord:
    """`submitted` says that all objects of the job are there; `ours` that Prelaunch made them, for the job of this name.

    `ending` is what `final` will be once its pods are gone. `submission` is the token of the call that made the record.
    """

    ours: bool
    submitted: bool
    nodes: int
    ending: JobStatus | None
    final: JobStatus | None
    submission: str = ""

    @property
    def over(self) -> bool:
        """Whether the job has ended or is being ended."""
        return (self.ending or self.final) is not None


def read(api: Api, name: str) -> JobRecord | None:
    """The record of the job, None if there is none. Raises ApiRefused, EngineUnavailable."""
    config_map = api.get(CONFIG_MAP, name)
    return None if config_map is None else record_of(config_map, name)


def record_of(config_map: Object, name: str) -> JobRecord:
    """The record that a ConfigMap holds."""
    annotations = (config_map.get("metadata") or {}).get("annotations") or {}
    nodes = str(annotations.get(NODES) or "")
    return JobRecord(
        is_ours(config_map, name),
        annotations.get(SUBMITTED) == "true",
        int(nodes) if nodes.isdecimal() else 0,
        parse_state(str(annotations.get(ENDING) or "")),
        parse_state(str(annotations.get(FINAL) or "")),
        str(annotations.get(SUBMISSION) or ""),
    )


def is_ours(body: Object, name: str) -> bool:
    """Whether Prelaunch made the object, for the job of that name."""
    labels = (body.get("metadata") or {}).get("labels") or {}
    return labels.get(MANAGED) == MANAGER and labels.get(JOB_LABEL) == name


def write_submitted(api: Api, name: str) -> None:
    """Record that all objects are there. Raises ApiRefused, EngineUnavailable."""
    _annotate(api, name, {SUBMITTED: "true"})


def write_ending(api: Api, name: str, final: JobStatus) -> None:
    """Record that the job is being ended: from now on nobody submits it. Raises ApiRefused, EngineUnavailable."""
    _annotate(api, name, {ENDING: _text(final)})


def write_final(api: Api, name: str, final: JobStatus) -> None:
    """Record how the job ended. Raises ApiRefused, EngineUnavailable."""
    _annotate(api, name, {FINAL: _text(final)})


def _text(final: JobStatus) -> str:
    return dump_plain(replace(final, detail=final.detail[:DETAIL_CHARACTERS])).decode().strip()


def _annotate(api: Api, name: str, annotations: Mapping[str, str]) -> None:
    api.patch(CONFIG_MAP, name, {"metadata": {"annotations": dict(annotations)}})
