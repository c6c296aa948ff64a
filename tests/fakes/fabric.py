"""A fake EFA node: fi_info replays a recording, fi_pingpong really listens and connects, /sys counts what it sends.

Each domain has a mode: "ok"; "shm" (nothing goes over the device); "acks" (one message is not acknowledged); "short" (the
table of a datagram endpoint); "cut", "garbage"; "hang"; "4126"; "gone" (fi_getinfo -61 on the server); "refuse" (exit 1);
"rate 300" (MB/sec with messages of 1 MiB).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.fakes.tools import Reply, install
from tests.programs import executable, python_line

TABLE = """bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec
64      10      =10      1.2k        0.02s      0.05    1211.35       0.00
256     10      =10      5k          0.00s     11.18      22.90       0.04
1k      10      =10      20k         0.00s     44.23      23.15       0.04
4k      10      =10      80k         0.00s    166.17      24.65       0.04
64k     10      =10      1.2m        0.00s    741.36      88.40       0.01
1m      10      =10      20m         0.01s   2669.83     392.75       0.00
"""
COUNTERS = {
    "tx_bytes": 7000000,
    "rx_bytes": 6000000,
    "rx_drops": 3,
    "rdma_read_wr_err": 0,
    "rdma_write_wr_err": 0,
    "unresponsive_remote_events": 2,
    "impaired_remote_conn_events": 0,
    "retrans_timeout_events": 0,
    "retrans_pkts": 11,
    "lifespan": 12,
}

_BODY = Path(__file__).with_name("fi_pingpong.template").read_text()


def install_fabric(
    folder: Path, fi_info: str, modes: Mapping[str, str] | None = None, sysfs: Path | None = None
) -> None:
    """Put fi_info (of libfabric 1.22) and fi_pingpong into the folder."""
    version = Reply("fi_info: 1.22.0\nlibfabric: 1.22.0\nlibfabric api: 1.22\n", asked="--version")
    install(folder, "fi_info", [version, Reply(fi_info, asked="-p efa")])
    told, dials = folder / ".fi_pingpong.json", {"modes": dict(modes or {}), "sysfs": str(sysfs or "/none")}
    told.write_text(json.dumps({**dials, "table": TABLE, "bytes": 22370560}))
    executable(folder / "fi_pingpong", _BODY.format(first_line=python_line("-S"), told=str(told)))


def make_sysfs(
    root: Path,
    devices: Sequence[str],
    states: Mapping[str, str] | None = None,
    counters: Mapping[str, int] | None = None,
) -> Path:
    """A tree as /sys/class/infiniband has it: the devices, port 1 active unless `states` says otherwise."""
    for name in devices:
        folder = root / name
        (folder / "device/driver/module").mkdir(parents=True, exist_ok=True)
        (folder / "device/vendor").write_text("0x1d0f\n")
        (folder / "device/driver/module/version").write_text("2.13.0g\n")
        (folder / "ports/1/hw_counters").mkdir(parents=True, exist_ok=True)
        (folder / "ports/1/state").write_text((states or {}).get(name, "4: ACTIVE") + "\n")
        for key, value in (COUNTERS if counters is None else counters).items():
            (folder / "ports/1/hw_counters" / key).write_text(f"{value}\n")
    return root


def endpoints(devices: Sequence[str], blocks: int = 2) -> str:
    """What fi_info -p efa prints for these devices: 1, 2 or 3 endpoints each, as the generations of libfabric do."""
    kinds = [("efa-direct", "rdm", "RDM"), ("efa", "rdm", "RDM"), ("efa", "dgrm", "DGRAM")]
    chosen = {1: kinds[1:2], 2: kinds[1:], 3: kinds}[blocks]
    return "".join(
        f"provider: efa\n    fabric: {fabric}\n    domain: {name}-{suffix}\n    version: 122.0\n"
        f"    type: FI_EP_{kind}\n    protocol: FI_PROTO_EFA\n"
        for name in devices
        for fabric, suffix, kind in chosen
    )
