"""gpu.start_and_end: how many GPUs answer, and which recovery the driver asks for, at the start of the run and at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from checks.check import CheckError, Context, Measurement, lists_gpus
from checks.model import Value
from checks.model_details import Contents
from checks.probes.gpu import nvml
from checks.probes.gpu.inventory_child import ALIVE, is_lost
from checks.probes.gpu.record import Gpu

READ = ("uuid", "recovery_action", *ALIVE)


def first_look(context: Context) -> Mapping[str, object]:
    """Every GPU that answers, and the driver's demand."""
    with nvml.session() as module:
        return {"gpus": [_gpu_state(gpu) for gpu in nvml.gpu_records(module, READ)]}


@nvml.nvml_check(
    "gpu.start_and_end",
    ("missing", "when", "exchanged", "action_at_start", "action_at_end"),
    before=first_look,
    events=("exchanged",),
    holds=lambda basis: (*lists_gpus(basis), Contents("when", labels=("start", "end"), along=("missing",))),
)
def start_and_end(context: Context) -> Measurement:
    """Compares the GPUs that answer at the end of the run with those that answered at its start.

    `missing`, declared minus answering, at each of `when`: start, end. `exchanged` counts UUIDs that only one of the two
    looks shows. `action_at_start` and `action_at_end` are NVML_GPU_RECOVERY_ACTION_* for each of `gpus`: 0 is nothing,
    None where it was not read, as before driver 565.
    """
    earlier = context.before.get("gpus") if context.before else None
    if not isinstance(earlier, list) or not all(isinstance(record, dict) for record in earlier):
        message = "the GPUs could not be read at the start of the run, so there is nothing to compare with"
        raise CheckError(message)
    with nvml.session() as module:
        gpus = nvml.gpu_records(module, READ)
    return compared(earlier, [_gpu_state(gpu) for gpu in gpus], context.declared.gpus_per_node)


def compared(
    earlier: Sequence[Mapping[str, object]], later: Sequence[Mapping[str, object]], declared: int
) -> Measurement:
    """Both measurements compared, GPU by GPU (pure)."""
    counts = [sum(record.get("alive") is True for record in records) for records in (earlier, later)]
    uuids = [{record["uuid"] for record in records if record.get("uuid")} for records in (earlier, later)]
    size = max(len(earlier), len(later), declared)
    labels = [str(record.get("label")) for record in (later if len(later) >= len(earlier) else earlier)]
    labels += [f"GPU {index}" for index in range(len(labels), size)]
    metrics: dict[str, Value] = {
        "missing": tuple(declared - count for count in counts),
        "when": ("start", "end"),
        "exchanged": len(uuids[0] ^ uuids[1]),
        "action_at_start": _actions(earlier, size),
        "action_at_end": _actions(later, size),
        "gpus": tuple(labels),
    }
    lines = (
        f"{when} {record.get('label')}: {record.get('said') or record.get('uuid')}"
        for when, records in (("start", earlier), ("end", later))
        for record in records
    )
    return Measurement(metrics, "\n".join(lines))


def _gpu_state(gpu: Gpu) -> dict[str, object]:
    alive = not is_lost(gpu) and any(name in gpu.values for name in ALIVE)
    unread = ", ".join(f"{name}: {reason}" for name, reason in gpu.unread.items())
    action = gpu.number("recovery_action")
    return {"label": gpu.label, "uuid": gpu.text("uuid"), "alive": alive, "action": action, "said": unread}


def _actions(records: Sequence[Mapping[str, object]], size: int) -> tuple[int | None, ...]:
    actions = [record.get("action") for record in records] + [None] * (size - len(records))
    return tuple(action if type(action) is int else None for action in actions)
