"""The metric families of Prelaunch, of a node's watch and of the gates in a store, and their text in Prometheus' format 0.0.4. Pure.

Series of the watch have no label for the node: Prometheus adds the target's own labels (`node`, `cluster`), which come from the
declared nodes (`prelaunch site monitoring targets`). Series about a store name cluster and node, because one target holds many.

Source: Prometheus documentation, "Exposition formats": in label values a backslash, a double quote and a line feed are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LABEL_CHARACTERS = 120
CONTROL = dict.fromkeys((*range(32), 127, *range(128, 160)), " ")


class Source(str, Enum):
    """Who serves a family: the watch on a node, or the exporter of a store."""

    WATCH = "watch"
    STORE = "store"


@dataclass(frozen=True)
class Family:
    """A metric family; `labels` in the order in which they are written."""

    name: str
    source: Source
    help: str
    labels: tuple[str, ...] = ()

    @property
    def metric_type(self) -> str:
        """The type, which follows from the name (Prometheus documentation, "Metric and label naming")."""
        return "counter" if self.name.endswith("_total") else "gauge"


Sample = tuple[Family, tuple[str, ...], float]


def text_of(samples: Iterable[Sample]) -> str:
    """The text of one scrape."""
    series: dict[Family, dict[str, float]] = {}
    for family, labels, value in samples:
        label_text = ",".join(
            f'{name}="{_escaped(text)}"' for name, text in zip(family.labels, labels, strict=True)
        )
        series.setdefault(family, {})[f"{family.name}{{{label_text}}}" if label_text else family.name] = value
    return "".join(
        f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.metric_type}\n"
        + "".join(f"{name} {value!r}\n" for name, value in values.items())
        for family, values in series.items()
    )


def cut(text: str) -> str:
    """A label value: control characters are spaces, and it is cut, so that nothing of a machine's can break a line."""
    return text.translate(CONTROL).encode("utf-8", "replace").decode("utf-8")[:LABEL_CHARACTERS]


def _escaped(text: str) -> str:
    return cut(text).replace("\\", "\\\\").replace('"', '\\"')


def _watch(name: str, description: str, *labels: str) -> Family:
    return Family(name, Source.WATCH, description, labels)


def _store(name: str, description: str, *labels: str) -> Family:
    return Family(name, Source.STORE, description, labels)


BUILD_INFO = _watch("prelaunch_build_info", "1, with the version of Prelaunch.", "version")
DECLARED_GPUS = _watch("prelaunch_declared_gpus", "GPUs that the declared type has.", "instance_type")
FOUND_GPUS = _watch("prelaunch_found_gpus", "GPUs that answered in the last round.")
INTERVAL = _watch("prelaunch_watch_interval_seconds", "Seconds between the starts of two rounds.")
LAST_ROUND = _watch("prelaunch_watch_last_round_timestamp_seconds", "When the last round ended (Unix time).")
ROUND_DURATION = _watch("prelaunch_watch_round_duration_seconds", "How long the last round took.")
ROUNDS = _watch("prelaunch_watch_rounds_total", "Rounds that were complete, or ended at the deadline.", "end")
REQUIRED = _watch("prelaunch_watch_required_observations", "Observations that every round has to make.")
OBSERVATIONS = _watch("prelaunch_watch_observations", "Observations of the last round by outcome.", "outcome")
CHECK_DURATION = _watch("prelaunch_watch_check_duration_seconds", "How long each check took.", "check")
OPEN = _watch(
    "prelaunch_finding_open", "1 for each open finding; `part` is the part of the node, empty for the node itself.",
    "check", "part", "metric", "level", "cause"
)  # fmt: skip
OPEN_COUNT = _watch("prelaunch_findings_open", "All open findings by level and cause.", "level", "cause")
OMITTED = _watch("prelaunch_findings_omitted", "Open findings that prelaunch_finding_open leaves out.")
OPENED = _watch("prelaunch_findings_opened_total", "Findings opened since this file of findings was begun.")
CLOSED = _watch("prelaunch_findings_closed_total", "Findings closed, by what closed them.", "by")
XIDS = _watch("prelaunch_xids", "Xids in the day's kernel log by GPU and what they need.", "gpu", "need")
RECOVERY_ACTION = _watch("prelaunch_gpu_recovery_action", "What the driver demands; 0 is nothing.", "gpu")
REMAP_PENDING = _watch("prelaunch_gpu_row_remap_pending", "1 if a row of memory waits for a reset.", "gpu")
REMAP_FAILED = _watch("prelaunch_gpu_row_remap_failed", "1 if a row of memory could not be remapped.", "gpu")
NVLINK_RECOVERIES = _watch("prelaunch_gpu_nvlink_recoveries_total", "NVLinks that were trained again.", "gpu")
EFA_ERRORS = _watch("prelaunch_efa_errors_total", "Errors that an EFA device counted.", "device", "counter")

DECLARED_NODE = _store("prelaunch_declared_node", "1 for each node that a gate named.", "cluster", "node")
# No counter: removing old gates lowers it.
GATES = _store("prelaunch_store_gates", "Gates in the store by answer.", "cluster", "answer")
GATE_ANSWER = _store(
    "prelaunch_gate_answer", "1 for the answer of the last gate, else 0.", "cluster", "answer"
)
GATE_END = _store(
    "prelaunch_gate_end_timestamp_seconds", "When the last gate measured (Unix time).", "cluster"
)
STAGE_DURATION = _store(
    "prelaunch_gate_stage_duration_seconds", "How long each stage of the last gate took.", "cluster", "stage"
)
CONDEMNED = _store("prelaunch_nodes_condemned", "Nodes that the cluster's last gate condemned.", "cluster")
PROVEN = _store(
    "prelaunch_node_proven_timestamp_seconds",
    "When a GO last measured the node (Unix time).",
    "cluster",
    "node",
)
STORE_READ = _store("prelaunch_store_readable", "1 if the store could be read at this scrape, else 0.")
STORE_READ_TIME = _store("prelaunch_store_read_timestamp_seconds", "When the store was read (Unix time).")
STORE_OMITTED = _store(
    "prelaunch_store_series_omitted", "Series left out: too many, or of gates that cannot be read."
)

FAMILIES: tuple[Family, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Family))
