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
    return without(HEALTHY, *patterns)


def without(series: Mapping[str, str], *patterns: str) -> Series:
    """The others."""
    return {key: values for key, values in series.items() if not any(re.search(one, key) for one in patterns)}


def ended(*patterns: str) -> Series:
    """The series that match end after four minutes, as those of a target that is no longer scraped."""
    return changed(*patterns, values="1x16 stale")


def changed(*patterns: str, values: str) -> Series:
    """With other values of the series that match."""
    hit = {key: values for key in HEALTHY if any(re.search(one, key) for one in patterns)}
    assert hit, patterns
    return {**HEALTHY, **hit}


def labels(text: str, **more: str) -> dict[str, str]:
    """The labels of a series, without the braces."""
    return {**dict(re.findall(r'(\w+)="([^"]*)"', text)), **more}


ON_CALL, OWNER = {"notify": "on-call"}, {"notify": "owner"}
C0, C1 = {"cluster": "c", "node": "n0"}, {"cluster": "c", "node": "n1"}
FINDING = 'check="kernel.xid",part="GPU 5",metric="act"'


def _down(series: str) -> Alert:
    return "PrelaunchTargetDown", labels(series, **ON_CALL)


def _missing(family: str, series: str) -> Alert:
    return "PrelaunchMetricMissing", labels(series, family=family, **OWNER)


# An exporter of each of four nodes of another cluster.
DOWN = tuple(f'job="efa",instance="b{node}:9109",cluster="big",node="b{node}"' for node in range(4))
# A round ends every minute, and each is seen in four scrapes.
ROUNDS = " ".join(["{}x3"] * 10)

SITUATIONS = (
    Situation("healthy", HEALTHY),
    Situation(
        "no target at all",
        {},
        tuple(
            ("PrelaunchJobMissing", {"job": job, **OWNER})
            for job in ("prelaunch-watch", "node", "prelaunch-exporter")
        ),
    ),
    Situation(
        "no DCGM where GPUs were declared",
        gone("DCGM_", 'job="dcgm"'),
        (("PrelaunchJobMissing", {"job": "dcgm", **OWNER}), ("PrelaunchGpusUnmonitored", {**C0, **ON_CALL})),
    ),
    Situation(
        "an exporter stopped",
        {**gone("DCGM_", "^up.*dcgm"), f"up{{{DCGM0}}}": "1x20 0x20"},
        (_down(DCGM0), ("PrelaunchGpusUnmonitored", {**C0, **ON_CALL})),
    ),
    Situation(
        "the watch stopped",
        {**gone(r"^prelaunch_.*n1:9402", "^up.*n1:9402"), f"up{{{WATCH1}}}": OFF},
        (_down(WATCH1),),
    ),
    Situation("Slurm's exporter stopped", changed("^up.*slurm", values=OFF), (_down(SLURM),)),
    Situation(
        "the EFA exporter stopped", {**gone("amazonefa", "^up.*efa"), f"up{{{EFA0}}}": OFF}, (_down(EFA0),)
    ),
    Situation(
        "a node is cut off",
        {**gone("n1:"), f"up{{{WATCH1}}}": OFF, f"up{{{NODE1}}}": OFF},
        (_down(WATCH1), _down(NODE1)),
    ),
    Situation(
        "all nodes of a cluster are down",
        {**HEALTHY, **dict.fromkeys((f"up{{{one}}}" for one in DOWN), OFF)},
        (
            ("PrelaunchClusterDown", {"cluster": "big", **ON_CALL}),
            *(_down(one) for one in DOWN),
        ),
    ),
    Situation(
        "three of four nodes are down: each is named",
        {
            **HEALTHY,
            **dict.fromkeys((f"up{{{one}}}" for one in DOWN[:-1]), OFF),
            f"up{{{DOWN[-1]}}}": ON,
            f"node_amazonefa_info{{{DOWN[-1]}}}": ON,
        },
        tuple(_down(one) for one in DOWN[:-1]),
    ),
    Situation(
        "every second scrape of a watch fails",
        changed("^up.*n1:9402", values=" ".join(["1 0"] * (STEPS // 2))),
        (("PrelaunchTargetFlapping", labels(WATCH1, **ON_CALL)),),
    ),
    Situation("a node was restarted", changed("^up.*n1:", values="1x16 0x4 1x20")),
    Situation(
        "a declared node never existed",
        {**HEALTHY, f'prelaunch_declared_node{{cluster="c",node="n9",{STORE}}}': ON},
        (("PrelaunchNodeUnwatched", {"cluster": "c", "node": "n9", **OWNER}),),
    ),
    Situation("a node is no target any more", gone("n1:9"), (("PrelaunchNodeUnwatched", {**C1, **OWNER}),)),
    Situation(
        "the file of targets was emptied",
        {
            **gone("n[01]:"),
            f"up{{{WATCH0}}}": "1x16 stale",
            f"up{{{WATCH1}}}": "1x16 stale",
            f"up{{{NODE0}}}": "1x16 stale",
        },
        (
            ("PrelaunchJobMissing", {"job": "prelaunch-watch", **OWNER}),
            ("PrelaunchJobMissing", {"job": "node", **OWNER}),
            ("PrelaunchTargetsGone", {"cluster": "c", **OWNER}),
            ("PrelaunchNodeUnwatched", {**C0, **OWNER}),
            ("PrelaunchNodeUnwatched", {**C1, **OWNER}),
        ),
    ),
    Situation(
        "GPU 1 fell off the bus", ended('^DCGM.*gpu="1"'), (("PrelaunchGpusUnmonitored", {**C0, **ON_CALL}),)
    ),
    Situation(
        "the host engine was restarted, and old values stay",
        changed("ENERGY", values=f"7x{STEPS}"),
        (("PrelaunchDcgmFrozen", {**C0, **OWNER}),),
    ),
    Situation(
        "the values of one of two GPUs are old ones",
        changed('ENERGY.*gpu="1"', values=f"7x{STEPS}"),
        (("PrelaunchDcgmFrozen", {**C0, **OWNER}),),
    ),
    Situation(
        "the watch of a GPU node was told cpu",
        {
            **gone("(declared|found)_gpus.*n0"),
            f'prelaunch_declared_gpus{{{WATCH0},exported_instance_type="cpu"}}': OFF,
        },
        (
            (
                "PrelaunchWatchWrongType",
                {**C0, "instance_type": "p5.48xlarge", "exported_instance_type": "cpu", **OWNER},
            ),
        ),
    ),
    Situation(
        "the gate file has SageMaker's name of a type",
        {
            key.replace('instance_type="p5', 'instance_type="ml.p5', 1): value
            for key, value in HEALTHY.items()
        },
    ),
    *(
        Situation(
            f"a node whose clock is {seconds} s off",
            changed("last_round.*n0", values=ROUNDS.format(*(15 * one + seconds for one in range(0, 40, 4)))),
            (("PrelaunchWatchStale", {**C0, **ON_CALL}),),
        )
        for seconds in (-180, -150, -120, -90, 60, 120, 180)
    ),
    Situation(
        "a node whose clock is a second off",
        changed("last_round.*n0", values=ROUNDS.format(*(15 * one + 1 for one in range(0, 40, 4)))),
    ),
    Situation(
        "the watch ends no round any more",
        changed("last_round.*n0", values=OLD),
        (("PrelaunchWatchStale", {**C0, **ON_CALL}),),
    ),
    Situation(
        "a watch whose clock is an hour ahead",
        changed("last_round.*n0", values=f"3600+15x{STEPS}"),
        (("PrelaunchWatchStale", {**C0, **ON_CALL}),),
    ),
    Situation(
        "a check could not measure",
        changed("measured.*n0", values=f"11x{STEPS}"),
        (("PrelaunchRoundIncomplete", {**C0, **OWNER}),),
    ),
    Situation(
        "no check could measure",
        gone(r"observations\{outcome=.measured.*n0"),
        (("PrelaunchRoundIncomplete", {**C0, **OWNER}),),
    ),
    Situation(
        "a GPU does not answer",
        changed("found_gpus", values=f"1x{STEPS}"),
        (("PrelaunchGpusMissing", {**C0, **ON_CALL}),),
    ),
    Situation(
        "a finding is open",
        {**HEALTHY, f'prelaunch_finding_open{{{FINDING},level="FAIL",cause="HARDWARE",{WATCH0}}}': ON},
        (("PrelaunchFindingOpen", {**labels(FINDING), "cause": "HARDWARE", **C0, **ON_CALL}),),
    ),
    Situation(
        "a finding is open, on two ways",
        {
            **HEALTHY,
            f'prelaunch_finding_open{{{FINDING},level="FAIL",cause="HARDWARE",{WATCH0}}}': ON,
            f'prelaunch_finding_open{{{FINDING},level="FAIL",cause="HARDWARE",{NODE0}}}': ON,
        },
        (("PrelaunchFindingOpen", {**labels(FINDING), "cause": "HARDWARE", **C0, **ON_CALL}),),
    ),
    Situation(
        "evidence is missing",
        {**HEALTHY, f'prelaunch_finding_open{{{FINDING},level="FAIL",cause="EVIDENCE",{WATCH0}}}': ON},
        (("PrelaunchFindingOpen", {**labels(FINDING), "cause": "EVIDENCE", **C0, **OWNER}),),
    ),
    Situation(
        "too many findings for one scrape",
        changed("findings_omitted.*n0", values=f"9800x{STEPS}"),
        (("PrelaunchSeriesOmitted", {**C0, **OWNER}),),
    ),
    Situation(
        "too many nodes for one scrape",
        changed("store_series_omitted", values=f"5x{STEPS}"),
        (("PrelaunchSeriesOmitted", labels(STORE, **OWNER)),),
    ),
    Situation(
        "packets are sent again and again",
        changed("retransmitted_packets", values=f"0+30000x{STEPS}"),
        (("PrelaunchEfaErrors", {**C0, "device": "rdmap0", "counter": "retransmitted_packets", **ON_CALL}),),
    ),
    Situation(
        "a peer does not answer an EFA device",
        changed("error_events", values=f"0+3000x{STEPS}"),
        (
            (
                "PrelaunchEfaErrors",
                {**C0, "device": "rdmap0", "counter": "error_events", **ON_CALL},
            ),
        ),
    ),
    Situation(
        "an Xid, after which the GPU was reset", changed('XID_ERRORS.*gpu="1"', values=f"0x4 31x{STEPS}")
    ),
    Situation(
        "a double-bit error, long ago",
        changed('ECC_DBE.*gpu="1"', values=f"0x10 1x{STEPS - 10}"),
        (("PrelaunchUncorrectableEcc", {**C0, "gpu": "1", "UUID": "GPU-1", **ON_CALL}),),
    ),
    Situation(
        "the textfile has no writer",
        changed("mtime.*n0", values=OLD),
        (("PrelaunchTextfileStale", {**C0, **ON_CALL}),),
    ),
    Situation(
        "the textfile of a node that is not scraped directly has no writer",
        without(changed("mtime.*n1", values=OLD), "watch_interval.*n1"),
        (("PrelaunchTextfileStale", {**C1, **ON_CALL}), _missing("prelaunch_watch_interval_seconds", WATCH1)),
    ),
    Situation("the textfile was deleted", ended("mtime.*n1"), (("PrelaunchTextfileGone", {**C1, **OWNER}),)),
    Situation(
        "a textfile is broken",
        changed("scrape_error.*n1", values=ON),
        (("PrelaunchTextfileBroken", {**C1, **OWNER}),),
    ),
    Situation(
        "the store cannot be read",
        {**gone("^prelaunch_(store|gate|declared_node)"), f"prelaunch_store_readable{{{STORE}}}": OFF},
        (("PrelaunchStoreUnreadable", labels(STORE, **OWNER)),),
    ),
    Situation(
        "the exporter of the store serves what it read long ago",
        changed("store_read_timestamp", values=OLD),
        (("PrelaunchStoreStale", labels(STORE, **OWNER)),),
    ),
    Situation(
        "no gate has run for eight days",
        changed("gate_end", values=f"{-8 * 86400}x{STEPS}"),
        (("PrelaunchGateOverdue", {"cluster": "c", **OWNER}),),
    ),
)
