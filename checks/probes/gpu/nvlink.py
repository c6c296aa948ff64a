"""gpu.nvlink: which links are up, and which errors they counted while the gate ran.

Error counters count since the driver was loaded, so only differences mean something: the first measurement is at the start
of the run, the second after the ranks. Each generation counts differently: NVLink 5 has counters of packets (fields
206-215), Hopper data-link fields (161-163), earlier ones nvmlDeviceGetNvLinkErrorCounter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checks.check import CheckError, Context, Measurement
from checks.model import MachinePart, Value
from checks.probes import growth
from checks.probes.gpu import nvml
from checks.probes.gpu.fields import NotPlausible, field_value, first_of
from checks.probes.gpu.record import Gpu, padded, usable_value
from checks.process.machine_state import boot_s

INVALID_ARGUMENT, NOT_SUPPORTED = 2, 3
# NVLink 5: malformed packets, buffer overruns, receive errors, local link integrity; all link recovery events.
PACKET_FIELDS = (206, 207, 208, 211)
RECOVERY_EVENTS = 215
# Of Hopper and Blackwell: a pynvml older than they are says 12, and six links of each would be lost.
MOST_LINKS = 18
REPLAY, RECOVERY, CRC = 161, 162, 163
KINDS = ("link_errors", "link_recoveries", "link_replays")
EVENTS = ("link_errors_per_s", "link_recoveries", "link_replays")
METRICS = ("links_active", *EVENTS)


@dataclass(frozen=True)
class GpuLinks:
    """One GPU's links: which are up, and what each of these counted, by `counter`. `active` is None if it is not known."""

    gpu: Gpu
    active: tuple[int, ...] | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    note: str = ""

    @property
    def key(self) -> str:
        """What the GPU is called in both looks."""
        return self.gpu.text("uuid") or self.gpu.pci


def first_look(context: Context) -> Mapping[str, object]:
    """The counters of every GPU, and when they were read."""
    with nvml.session() as module:
        gpus = read_links(module)
    return {"at_s": boot_s(), "gpus": {links.key: links.counters for links in gpus if links.key}}


@nvml.nvml_check(
    "gpu.nvlink",
    METRICS,
    timeout_s=30,
    part=MachinePart.NVLINK,
    before=first_look,
    beside_job=True,
    events=EVENTS,
)
def nvlink(context: Context) -> Measurement:
    """Counts the NVLinks that are up, and the errors that they had while the gate ran.

    Arrays in GPU order: links, errors of packets or checksums a second, recoveries and replays as differences. A
    counter that went backwards was reset: None.
    """
    with nvml.session() as module:
        gpus = read_links(module)
    earlier = growth.first_look(context.before, "gpus")
    begun = (context.before or {}).get("at_s")
    seconds = boot_s() - begun if isinstance(begun, float) else 0.0
    if seconds <= 0:
        raise CheckError("the link error counters from the start of the run are not of this boot")
    unlisted = padded([links.gpu for links in gpus], context.declared.gpus_per_node)[len(gpus) :]
    return compared([*gpus, *(GpuLinks(gpu) for gpu in unlisted)], earlier, seconds)


def compared(gpus: Sequence[GpuLinks], earlier: Mapping[str, object], seconds: float) -> Measurement:
    """The measurement: both looks, `seconds` apart."""
    looks = [growth.Growth(earlier.get(links.key), links.counters) for links in gpus]
    both = list(zip(gpus, looks, strict=True))
    grown = {name: tuple(_total(name, links, change) for links, change in both) for name in KINDS}
    metrics: dict[str, Value] = {
        "links_active": tuple(None if links.active is None else len(links.active) for links in gpus),
        "link_errors_per_s": tuple(
            None if n is None else round(n / seconds, 6) for n in grown["link_errors"]
        ),
        "link_recoveries": grown["link_recoveries"],
        "link_replays": grown["link_replays"],
        "gpus": tuple(links.gpu.label for links in gpus),
    }
    lines = (f"{links.gpu.label}: {_account(links, change)}" for links, change in both)
    return Measurement(metrics, f"over {seconds:.1f} s\n" + "\n".join(lines))


def counter(name: str, link: int) -> str:
    """What a link's counter is called in both looks."""
    return f"{name} of link {link}"


def read_links(module: Any) -> tuple[GpuLinks, ...]:
    """Every GPU's links. Raises NvmlError if NVML lists no GPU."""
    return tuple(_links(module, gpu) for gpu in nvml.gpu_records(module, ("uuid",)))


def _links(module: Any, gpu: Gpu) -> GpuLinks:
    try:
        handle = module.nvmlDeviceGetHandleByIndex(gpu.index)
        most = max(MOST_LINKS, module.NVML_NVLINK_MAX_LINKS)
        active = tuple(link for link in range(most) if _is_up(module, handle, link))
    except module.NVMLError as error:
        return GpuLinks(gpu, note=nvml.message_of(error))
    counters: dict[str, int] = {}
    reason: dict[str, None] = {}
    for name, link in ((name, link) for name in KINDS for link in active):
        try:
            counters[counter(name, link)] = _count(module, handle, link, name)
        except (module.NVMLError, NotPlausible) as error:
            reason[f"{name}: {error}"] = None
    return GpuLinks(gpu, active, counters, "; ".join(reason))


def _is_up(module: Any, handle: Any, link: int) -> bool:
    try:
        return bool(module.nvmlDeviceGetNvLinkState(handle, link) == module.NVML_FEATURE_ENABLED)
    except module.NVMLError as error:
        if nvml.code_of(error) in (INVALID_ARGUMENT, NOT_SUPPORTED):
            return False  # there is no such link
        raise


def _count(module: Any, handle: Any, link: int, name: str) -> int:
    def value_of(ident: int) -> Any:
        return field_value(module, handle, ident, link)

    def old(*counters: int) -> int:
        return sum(module.nvmlDeviceGetNvLinkErrorCounter(handle, link, counter) for counter in counters)

    crc = (module.NVML_NVLINK_ERROR_DL_CRC_FLIT, module.NVML_NVLINK_ERROR_DL_CRC_DATA)
    ways = {
        "link_errors": (lambda: sum(map(value_of, PACKET_FIELDS)), lambda: value_of(CRC), lambda: old(*crc)),
        "link_recoveries": (
            lambda: value_of(RECOVERY_EVENTS),
            lambda: value_of(RECOVERY),
            lambda: old(module.NVML_NVLINK_ERROR_DL_RECOVERY),
        ),
        "link_replays": (lambda: value_of(REPLAY), lambda: old(module.NVML_NVLINK_ERROR_DL_REPLAY)),
    }[name]
    value = usable_value(first_of(module, *ways))
    if not isinstance(value, int) or value < 0:
        raise NotPlausible(f"link {link} has no valid counter value")
    return value


def _total(name: str, links: GpuLinks, change: growth.Growth) -> float | None:
    return change.total([counter(name, link) for link in links.active or ()])


def _account(links: GpuLinks, change: growth.Growth) -> str:
    if links.active is None:
        return links.note or "declared, but NVML does not list it"
    up = " ".join(map(str, links.active)) or "none"
    return f"links {up} up; {change.changes()}{links.note and f' ({links.note})'}"
