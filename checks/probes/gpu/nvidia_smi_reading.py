"""How `prelaunch explain` reads nvidia-smi's output: the XML of `nvidia-smi -q -x` becomes the checks' own metrics.

Values that mean something only under load (clocks, PCIe generation) and values that the document does not have (NVLink) are not
read. A clock-event reason that is a fault is a fault at rest as well, so it is reported if it is active.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace

from checks.explain.reading import CheckData, Complete, Garbled, OutputKind, Reading, ReadOptions
from checks.explain.unread_lines import lines_between
from checks.facts.builtin import builtin
from checks.facts.driver_fields import Field, FieldReader
from checks.facts.instances import is_of_model, lacks
from checks.model import MachinePart as Applies
from checks.model import Value
from checks.probes.gpu.fabric_health import FIELDS as FABRIC
from checks.probes.gpu.nvidia_smi import NOT_PRINTED, Document, parse
from checks.probes.gpu.record import Gpu, bare, columns, is_model, texts, values_as_text
from checks.probes.gpu.state import ECC, MODES, POWER, PROCESSES, REMAP, RETIRED, limit_ratio, retired
from checks.probes.gpu.under_load import FAULT_REASONS, THERMAL
from checks.value_types import version_of

BEGIN, END = "<nvidia_smi_log>", "</nvidia_smi_log>"
FAILED = (
    "No devices were found",
    "NVIDIA-SMI has failed",
    "Failed to initialize NVML",
    "Unable to determine the device handle",
)
LOST = re.compile(r"\[?(GPU is lost|GPU requires reset|Unknown Error)\]?")
# What a metric is made of, where it is not the field of its name.
MADE_OF = {
    "retired_pages": ("retired_single_bit", "retired_double_bit"),
    "limit_ratio": ("limit_w", "default_limit_w"),
    "gpus_found": ("uuid",),
    "duplicate_uuids": ("uuid",),
    "models": ("model",),
    "unlike_models": ("model",),
}
SIMPLE: Mapping[str, tuple[str, ...]] = {
    "gpu.memory": ("memory_used_mib",),
    "gpu.utilisation": ("utilisation_percent",),
    "gpu.processes": PROCESSES,
    "gpu.thermal": THERMAL[:-1],
    "gpu.modes": MODES,
    "gpu.ecc": ECC,
    "gpu.row_remap": REMAP,
    "gpu.recovery_action": ("recovery_action",),
    "gpu.fabric": FABRIC,
    "gpu.retired_pages": RETIRED,
    "gpu.power": POWER,
}
MADE_BY = {"gpu.retired_pages": retired, "gpu.power": limit_ratio}


def detect(text: str) -> bool:
    """Whether it is output of nvidia-smi: its XML, whole or cut, or its own words that it failed."""
    head = text[:4096]
    return "<nvidia_smi_log" in head or "nvsmi_device" in head or head.lstrip().startswith(FAILED)


def read(text: str, options: ReadOptions) -> Reading:
    """Every GPU's metrics. Raises Garbled, CheckError."""
    if text.lstrip().startswith(FAILED):
        raise Garbled(f"nvidia-smi failed: {text.strip().splitlines()[0]}")
    smi, end = _split(text)
    parsed = parse(smi)
    results = _all_results(parsed, options)
    unreported = tuple(gap for result in results for gap in _unreported(result, parsed))
    names = {(check, field.field) for check, field in unreported}
    results = [_without(item, {name for check, name in names if check == item.check}) for item in results]
    measured = tuple(result for result in results if set(result.metrics) - {"gpus"})
    models = Counter(gpu.text("model") or "a GPU of unknown model" for gpu in parsed.gpus)
    models_text = ", ".join(f"{count} x {model}" for model, count in models.items()) or "no GPU"
    nameless = (gpu.label for gpu in parsed.gpus if not gpu.text("uuid") and not _is_lost(gpu))
    unread = [f"{label} has no UUID, so it cannot be distinguished from another GPU" for label in nameless]
    unread += [
        Complete(f"{gpu.label}: instead of values nvidia-smi printed that the GPU is lost or needs a reset")
        for gpu in parsed.gpus
        if _is_lost(gpu) or any(_is_silent(gpu, names) for names in SIMPLE.values())
    ]
    return Reading(
        OutputKind.NVIDIA_SMI,
        f"nvidia-smi -q -x of driver {parsed.driver or 'unknown'}, {models_text}",
        measured,
        tuple(unread),
        driver=parsed.driver,
        unreported=unreported,
        understood=lines_between(text, _begin(text), end),
        brief="" if options.declared else f"{models_text} (number not judged)",
    )


def _begin(text: str) -> int:
    return min((text.find(mark) for mark in ("<?xml", "<!DOCTYPE", BEGIN) if mark in text), default=0)


def _split(text: str) -> tuple[str, int]:
    """The XML with blank lines instead of what stands before it, so that line numbers hold, and the position of its end."""
    begin = _begin(text)
    end = text.find(END)
    if end < 0:
        raise Garbled("the text is truncated: the last line, </nvidia_smi_log>, is missing")
    end += len(END)
    smi = text[begin:end]
    if begin:
        # An XML declaration must be the first thing, so the blank lines come after it is taken off.
        smi = re.sub(r"^<\?xml[^>]*\?>", "", smi)
    return "\n" * text.count("\n", 0, begin) + smi, end


def _all_results(smi: Document, options: ReadOptions) -> list[CheckData]:
    declared = options.declared
    instance = options.instance
    expected = declared.gpus_per_node if declared else smi.attached
    if not smi.gpus and not expected:
        raise Garbled("the text describes no GPU and none is declared, so there is nothing to judge")
    results = [_inventory(smi, expected, instance.gpu if instance else "")]
    for check, names in {**SIMPLE, **({"gpu.pcie": ("pcie_width",)} if declared else {})}.items():
        if check == "gpu.fabric" and declared and lacks(Applies.NVLINK, declared, instance):
            continue
        wanted = ("memory_total_mib", *names) if check == "gpu.memory" and declared else names
        if some := [gpu for gpu in smi.gpus if not _is_lost(gpu) and not _is_silent(gpu, wanted)]:
            more = MADE_BY[check](some) if check in MADE_BY else {}
            results.append(_result_of(check, some, wanted, {**columns(some, wanted), **more}))
    reasons = {name: tuple(gpu.number(f"reason_{name}") for gpu in smi.gpus) for name in FAULT_REASONS}
    active = {name: column for name, column in reasons.items() if any(column)}
    if active:
        labels: dict[str, Value] = {"gpus": tuple(gpu.label for gpu in smi.gpus)}
        results.append(
            _result_of("gpu.clocks", smi.gpus, tuple(active), {**active, **labels}, prefix="reason_")
        )
    return results


def _inventory(smi: Document, expected: int, model: str) -> CheckData:
    alive = [gpu for gpu in smi.gpus if not _is_lost(gpu)]
    uuids = [gpu.text("uuid") for gpu in alive if gpu.text("uuid")]
    lost = [gpu for gpu in smi.gpus if _is_lost(gpu)]
    metrics: dict[str, Value] = {
        "gpus_found": len(alive),
        "gpus_missing": (expected - len(alive),),
        "sources": (f"nvidia-smi{': ' * bool(lost)}{' and '.join(gpu.label for gpu in lost)}",),
        "duplicate_uuids": sum(times - 1 for times in Counter(uuids).values()),
        "models": texts(alive, "model"),
        "vbios": texts(alive, "vbios"),
        "driver": (smi.driver,) if smi.driver else (None,),
        "cuda": (smi.cuda,) if smi.cuda else (None,),
        "gpus": tuple(gpu.label for gpu in alive) or ("no GPU",),
    }
    if model:
        names = [gpu.text("model") for gpu in alive]
        metrics["unlike_models"] = tuple(int(not is_model(n, model)) if n else None for n in names) or (None,)
    lines = {name: _lines(smi.gpus, name) for name in metrics if name != "gpus"}
    lines |= {"driver": smi.lines.get("driver_version", ""), "cuda": smi.lines.get("cuda_version", "")}
    silent = [gpu.lines.get(n, "") for gpu in lost for n, text in gpu.unread.items() if LOST.fullmatch(text)]
    silent.append(smi.lines.get("attached_gpus", ""))
    lines["gpus_missing"] = "\n".join(dict.fromkeys(filter(None, silent)))
    evidence = "\n".join(f"{gpu.label}: {'; '.join(sorted(set(gpu.unread.values())))}" for gpu in lost)
    return CheckData("gpu.inventory", metrics, {name: line for name, line in lines.items() if line}, evidence)


def _is_lost(gpu: Gpu) -> bool:
    """Whether nothing can be read from it. One of which the driver says what it needs is there: gpu.recovery_action judges it."""
    return not gpu.number("recovery_action") and any(map(LOST.fullmatch, gpu.unread.values()))


def _is_silent(gpu: Gpu, names: Sequence[str]) -> bool:
    """Whether the driver says why it does not give these values. Then another finding is about the GPU."""
    return any(LOST.fullmatch(gpu.unread.get(name, "")) for name in _fields(names, ""))


def _result_of(
    check: str, gpus: Sequence[Gpu], names: Sequence[str], metrics: Mapping[str, Value], prefix: str = ""
) -> CheckData:
    """The part, without metrics that no GPU has and that the facts list as absent from its model."""
    remaining = {name: value for name, value in metrics.items() if not _absent(check, name, value, gpus)}
    lines = {name: _lines(gpus, prefix + name) for name in remaining if name != "gpus"}
    return CheckData(
        check,
        remaining,
        {name: line for name, line in lines.items() if line},
        values_as_text(gpus, _fields(names, prefix)),
    )


def _fields(names: Sequence[str], prefix: str) -> tuple[str, ...]:
    return tuple(field for name in names for field in MADE_OF.get(name, (prefix + name,)))


def _unreported(result: CheckData, smi: Document) -> Iterator[tuple[str, Field]]:
    """The metrics of the part that no GPU of the document has an element for, because its driver is too old."""
    later = builtin().drivers.unknown_to(version_of(smi.driver), result.check, FieldReader.NVIDIA_SMI)
    for name, field in later.items():
        if name in result.metrics and all(gpu.unread.get(name) == NOT_PRINTED for gpu in smi.gpus):
            yield result.check, field


def _without(result: CheckData, names: Set[str]) -> CheckData:
    remaining = {name: value for name, value in result.metrics.items() if name not in names}
    lines = {name: line for name, line in result.lines.items() if name in remaining}
    return replace(result, metrics=remaining, lines=lines)


def _absent(check: str, metric: str, value: Value, gpus: Sequence[Gpu]) -> bool:
    if not isinstance(value, tuple) or any(item is not None for item in value):
        return False
    models = [
        entry.model for entry in builtin().not_applicable if (entry.check, entry.metric) == (check, metric)
    ]
    names = [bare(gpu.text("model")) for gpu in gpus]
    return all(any(is_of_model(name, model) for model in models) for name in names)


def _lines(gpus: Sequence[Gpu], metric: str) -> str:
    cited = (gpu.lines.get(field, "") for gpu in gpus for field in MADE_OF.get(metric, (metric,)))
    return "\n".join(line for line in cited if line)
