"""Situations of a cluster as series, and the alerts that have to fire in each; no others may.

Two nodes were declared: n0 with two GPUs and an EFA device, n1 without. Values are in promtool's
notation, one every 15 s, from time 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from checks.watch.exposition import EFA_COUNTERS

Series = dict[str, str]
Alert = tuple[str, dict[str, str]]

STEPS = 40
ON, OFF = f"1x{STEPS}", f"0x{STEPS}"
# Grows as time does: what ended just now.
NOW = f"0+15x{STEPS}"
# As if it had ended at time 0 and never again.
OLD = f"0x{STEPS}"

N0 = 'cluster="c",node="n0",instance_type="p5.48xlarge"'
N1 = 'cluster="c",node="n1",instance_type="m5.large"'
WATCH0 = f'job="prelaunch-watch",instance="n0:9402",{N0}'
WATCH1 = f'job="prelaunch-watch",instance="n1:9402",{N1}'
NODE0 = f'job="node",instance="n0:9100",{N0}'
NODE1 = f'job="node",instance="n1:9100",{N1}'
DCGM0 = f'job="dcgm",instance="n0:9400",{N0}'
EFA0 = f'job="efa",instance="n0:9109",{N0}'
STORE = 'job="prelaunch-exporter",instance="gate:9403"'
SLURM = 'job="slurm",instance="head:9341"'
TEXTFILE = 'file="/var/lib/prometheus/node-exporter/prelaunch.prom"'


def _watch(labels: str, gpus: int) -> Series:
    found = {f"prelaunch_found_gpus{{{labels}}}": f"{gpus}x{STEPS}"} if gpus else {}
    told = f'{labels},exported_instance_type="{re.search("instance_type=.([^,]*).", labels)[1]}"'  # type: ignore[index]
    return {
        f"up{{{labels}}}": ON,
        f"prelaunch_watch_last_round_timestamp_seconds{{{labels}}}": NOW,
        f"prelaunch_watch_interval_seconds{{{labels}}}": f"60x{STEPS}",
        f"prelaunch_watch_required_observations{{{labels}}}": f"12x{STEPS}",
        f'prelaunch_watch_observations{{outcome="measured",{labels}}}': f"12x{STEPS}",
        f'prelaunch_watch_observations{{outcome="errored",{labels}}}': OFF,
        f"prelaunch_declared_gpus{{{told}}}": f"{gpus}x{STEPS}",
        f"prelaunch_findings_omitted{{{labels}}}": OFF,
        **found,
    }


def _node(labels: str) -> Series:
    return {
        f"up{{{labels}}}": ON,
        f"node_textfile_scrape_error{{{labels}}}": OFF,
        f"node_textfile_mtime_seconds{{{TEXTFILE},{labels}}}": NOW,
    }


def _dcgm(gpu: int) -> Series:
    labels = f'gpu="{gpu}",UUID="GPU-{gpu}",{DCGM0}'
    return {
        f"DCGM_FI_DEV_GPU_TEMP{{{labels}}}": f"40x{STEPS}",
        f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{labels}}}": f"1000+500x{STEPS}",
        f"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{labels}}}": OFF,
        f"DCGM_FI_DEV_GPU_UTIL{{{labels}}}": f"50x{STEPS}",
        f"DCGM_FI_DEV_XID_ERRORS{{{labels}}}": OFF,
    }


HEALTHY: Mapping[str, str] = {
    **_watch(WATCH0, 2),
    **_watch(WATCH1, 0),
    f'prelaunch_finding_open{{check="disk.free",part="",metric="",level="WARN",cause="CONFIGURATION",{WATCH1}}}': ON,
    **{
        f'prelaunch_efa_errors_total{{device="rdmap0",counter="{name}",{WATCH0}}}': f"0+{rate}x{STEPS}"
        for name, rate in zip(EFA_COUNTERS, (300, 300, 7500), strict=True)
    },
    **_node(NODE0),
    **_node(NODE1),
    f"up{{{DCGM0}}}": ON,
    **_dcgm(0),
    **_dcgm(1),
    f"up{{{EFA0}}}": ON,
    f'node_amazonefa_info{{device="rdmap0",{EFA0}}}': ON,
    f"up{{{STORE}}}": ON,
    f"prelaunch_store_readable{{{STORE}}}": ON,
    f"prelaunch_store_series_omitted{{{STORE}}}": OFF,
    f"prelaunch_store_read_timestamp_seconds{{{STORE}}}": NOW,
    f'prelaunch_gate_end_timestamp_seconds{{cluster="c",{STORE}}}': f"-86400x{STEPS}",
    f'prelaunch_declared_node{{cluster="c",node="n0",{STORE}}}': ON,
    f'prelaunch_declared_node{{cluster="c",node="n1",{STORE}}}': ON,
    # Machines of another launcher, which nobody watches and which never were targets.
    f'prelaunch_declared_node{{cluster="jobs",node="algo-1",{STORE}}}': ON,
    f"up{{{SLURM}}}": ON,
}


@dataclass(frozen=True)
class Situation:
    """Series after eight minutes, and the alerts that fire then, beside the heartbeat."""

    name: str
    series: Mapping[str, str]
    alerts: tuple[Alert, ...] = ()


def gone(*patterns: str) -> Series:
    """The healthy cluster without the series that match."""
    lost = {key for key in HEALTHY if any(re.search(one, key) for one in patterns)}
    return {key: values for key, values in HEALTHY.items() if key not in lost}


def changed(*patterns: str, values: str) -> Series:
    """With other values of the series that match."""
    hit = {key: values for key in HEALTHY if any(re.search(one, key) for one in patterns)}
    assert hit, patterns
    return {**HEALTHY, **hit}


def ended(*patterns: str) -> Series:
    """The series that match end after four minutes, as those of a target that is no longer scraped."""
    return changed(*patterns, values="1x16 stale")


def labels(text: str, **more: str) -> dict[str, str]:
    """The labels of a series, without the braces."""
    return {**dict(re.findall(r'(\w+)="([^"]*)"', text)), **more}


C0, C1 = {"cluster": "c", "node": "n0"}, {"cluster": "c", "node": "n1"}
FINDING = 'check="kernel.xid",part="GPU 5",metric="act"'
OPEN = f'prelaunch_finding_open{{{FINDING},level="FAIL",cause="%s",%s}}'
XID = {**labels(FINDING), **C0}


def _on_call(name: str, found: Mapping[str, str], **more: str) -> Alert:
    return f"Prelaunch{name}", {**found, **more, "notify": "on-call"}


def _owner(name: str, found: Mapping[str, str], **more: str) -> Alert:
    return f"Prelaunch{name}", {**found, **more, "notify": "owner"}


def _down(*series: str) -> tuple[Alert, ...]:
    return tuple(_on_call("TargetDown", labels(one)) for one in series)


def _lacks(*jobs: str) -> tuple[Alert, ...]:
    return tuple(_owner("JobMissing", {"job": job}) for job in jobs)


def _off(*series: str, values: str = OFF) -> Series:
    return {f"up{{{one}}}": values for one in series}


# An exporter of each of four nodes of another cluster.
DOWN = tuple(f'job="efa",instance="b{node}:9109",cluster="big",node="b{node}"' for node in range(4))
# A round ends every minute, and each is seen in four scrapes.
ROUNDS = " ".join(["{}x3"] * 10)


def _clock(seconds: int) -> Series:
    """The clock of n0 is so many seconds off."""
    return changed("last_round.*n0", values=ROUNDS.format(*(15 * one + seconds for one in range(0, 40, 4))))


GPUS_GONE = _on_call("GpusUnmonitored", C0)
STALE, INCOMPLETE = _on_call("WatchStale", C0), _owner("RoundIncomplete", C0)
FROZEN = _owner("DcgmFrozen", C0)
UNWATCHED0, UNWATCHED1 = _owner("NodeUnwatched", C0), _owner("NodeUnwatched", C1)
LACKS_INTERVAL = _owner("MetricMissing", labels(WATCH1), family="prelaunch_watch_interval_seconds")
WRONG_TYPE = _owner("WatchWrongType", C0, instance_type="p5.48xlarge", exported_instance_type="cpu")
TOLD_CPU = {f'prelaunch_declared_gpus{{{WATCH0},exported_instance_type="cpu"}}': OFF}
BIG = {**_off(*DOWN[:-1]), f"up{{{DOWN[-1]}}}": ON, f"node_amazonefa_info{{{DOWN[-1]}}}": ON}
SAGEMAKERS = {
    key.replace('instance_type="p5', 'instance_type="ml.p5', 1): value for key, value in HEALTHY.items()
}
DECLARED = {f'prelaunch_declared_node{{cluster="c",node="n9",{STORE}}}': ON}
HARDWARE = {OPEN % ("HARDWARE", WATCH0): ON}
AGED = changed("mtime.*n1", values=OLD)
TEXTFILE_1 = {key: value for key, value in AGED.items() if "watch_interval" not in key or "n1" not in key}
UNREADABLE = {f"prelaunch_store_readable{{{STORE}}}": OFF}

SITUATIONS = (
    Situation("healthy", HEALTHY),
    Situation("no target at all", {}, _lacks("prelaunch-watch", "node", "prelaunch-exporter")),
    Situation("no DCGM where GPUs were declared", gone("DCGM_", 'job="dcgm"'), (*_lacks("dcgm"), GPUS_GONE)),
    Situation(
        "an exporter stopped",
        {**gone("DCGM_"), **_off(DCGM0, values="1x20 0x20")},
        (*_down(DCGM0), GPUS_GONE),
    ),
    Situation("the watch stopped", {**gone(r"^prelaunch_.*n1:9402"), **_off(WATCH1)}, _down(WATCH1)),
    Situation("Slurm's exporter stopped", changed("^up.*slurm", values=OFF), _down(SLURM)),
    Situation("the EFA exporter stopped", {**gone("amazonefa"), **_off(EFA0)}, _down(EFA0)),
    Situation("a node is cut off", {**gone("n1:"), **_off(WATCH1, NODE1)}, _down(WATCH1, NODE1)),
    Situation(
        "all are down",
        {**HEALTHY, **_off(*DOWN)},
        (_on_call("ClusterDown", {"cluster": "big"}), *_down(*DOWN)),
    ),
    Situation("three of four nodes are down: each is named", {**HEALTHY, **BIG}, _down(*DOWN[:-1])),
    Situation(
        "every second scrape of a watch fails",
        changed("^up.*n1:9402", values=" ".join(["1 0"] * (STEPS // 2))),
        (_on_call("TargetFlapping", labels(WATCH1)),),
    ),
    Situation("a node was restarted", changed("^up.*n1:", values="1x16 0x4 1x20")),
    Situation(
        "a declared node never existed", {**HEALTHY, **DECLARED}, (_owner("NodeUnwatched", C0, node="n9"),)
    ),
    Situation("a node is no target any more", gone("n1:9"), (UNWATCHED1,)),
    Situation(
        "the file of targets was emptied",
        {**gone("n[01]:"), **_off(WATCH0, WATCH1, NODE0, values="1x16 stale")},
        (*_lacks("prelaunch-watch", "node"), _owner("TargetsGone", {"cluster": "c"}), UNWATCHED0, UNWATCHED1),
    ),
    Situation("GPU 1 fell off the bus", ended('^DCGM.*gpu="1"'), (GPUS_GONE,)),
    Situation("the host engine was restarted: old values", changed("ENERGY", values=f"7x{STEPS}"), (FROZEN,)),
    Situation("one of two GPUs has old values", changed('ENERGY.*gpu="1"', values=f"7x{STEPS}"), (FROZEN,)),
    Situation(
        "a GPU node's watch was told cpu", {**gone("(declared|found)_gpus.*n0"), **TOLD_CPU}, (WRONG_TYPE,)
    ),
    Situation("the gate file has SageMaker's name of a type", SAGEMAKERS),
    *(Situation(f"a clock is {s} s off", _clock(s), (STALE,)) for s in (-180, -150, -120, -90, 60, 120, 180)),
    Situation("a clock is a second off", _clock(1)),
    Situation("the watch ends no round any more", changed("last_round.*n0", values=OLD), (STALE,)),
    Situation("a clock is an hour ahead", changed("last_round.*n0", values=f"3600+15x{STEPS}"), (STALE,)),
    Situation("a check could not measure", changed("measured.*n0", values=f"11x{STEPS}"), (INCOMPLETE,)),
    Situation("no check could measure", gone(r"observations\{outcome=.measured.*n0"), (INCOMPLETE,)),
    Situation(
        "a GPU does not answer", changed("found_gpus", values=f"1x{STEPS}"), (_on_call("GpusMissing", C0),)
    ),
    Situation(
        "a finding is open", {**HEALTHY, **HARDWARE}, (_on_call("FindingOpen", XID, cause="HARDWARE"),)
    ),
    Situation(
        "a finding is open, on two ways",
        {**HEALTHY, **HARDWARE, OPEN % ("HARDWARE", NODE0): ON},
        (_on_call("FindingOpen", XID, cause="HARDWARE"),),
    ),
    Situation(
        "evidence is missing",
        {**HEALTHY, OPEN % ("EVIDENCE", WATCH0): ON},
        (_owner("FindingOpen", XID, cause="EVIDENCE"),),
    ),
    Situation(
        "too many findings for one scrape",
        changed("findings_omitted.*n0", values=f"9800x{STEPS}"),
        (_owner("SeriesOmitted", C0),),
    ),
    Situation(
        "too many nodes for one scrape",
        changed("store_series_omitted", values=f"5x{STEPS}"),
        (_owner("SeriesOmitted", labels(STORE)),),
    ),
    Situation(
        "packets are sent again and again",
        changed("retransmitted_packets", values=f"0+30000x{STEPS}"),
        (_on_call("EfaErrors", C0, device="rdmap0", counter="retransmitted_packets"),),
    ),
    Situation(
        "a peer does not answer an EFA device",
        changed("error_events", values=f"0+3000x{STEPS}"),
        (_on_call("EfaErrors", C0, device="rdmap0", counter="error_events"),),
    ),
    Situation("an Xid, and the GPU was reset", changed('XID_ERRORS.*gpu="1"', values=f"0x4 31x{STEPS}")),
    Situation(
        "a double-bit error, long ago",
        changed('ECC_DBE.*gpu="1"', values=f"0x10 1x{STEPS - 10}"),
        (_on_call("UncorrectableEcc", C0, gpu="1", UUID="GPU-1"),),
    ),
    Situation(
        "the textfile has no writer", changed("mtime.*n0", values=OLD), (_on_call("TextfileStale", C0),)
    ),
    Situation("nor that of an unscraped node", TEXTFILE_1, (_on_call("TextfileStale", C1), LACKS_INTERVAL)),
    Situation("the textfile was deleted", ended("mtime.*n1"), (_owner("TextfileGone", C1),)),
    Situation(
        "a textfile is broken", changed("scrape_error.*n1", values=ON), (_owner("TextfileBroken", C1),)
    ),
    Situation(
        "the store cannot be read",
        {**gone("^prelaunch_(store|gate|declared_node)"), **UNREADABLE},
        (_owner("StoreUnreadable", labels(STORE)),),
    ),
    Situation(
        "the exporter of the store serves what it read long ago",
        changed("store_read_timestamp", values=OLD),
        (_owner("StoreStale", labels(STORE)),),
    ),
    Situation(
        "no gate has run for eight days",
        changed("gate_end", values=f"{-8 * 86400}x{STEPS}"),
        (_owner("GateOverdue", {"cluster": "c"}),),
    ),
)
