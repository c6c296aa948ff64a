"""efa.loopback, efa.pingpong and efa.counters: what really travels, over fakes that listen and count."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from checks.exchange.authentication import Op
from checks.exchange.exchange import Responder, ask
from checks.model import Level, Observation
from checks.probes.efa import devices
from checks.probes.efa.counters import counters
from checks.probes.efa.libfabric import PROVIDER
from checks.probes.efa.loopback import loopback
from checks.probes.efa.pingpong import pingpong
from checks.process.free_ports import free_port
from checks.roster import Member, Roster
from tests.corpus.case import Case, Sort, context, observed
from tests.corpus.efa_cases import (
    ALONE,
    CONFIG,
    DEVICES4,
    FAULTY,
    FOUR,
    HEALTHY,
    QUICK,
    UNMEASURABLE,
    Observe,
)
from tests.exchanges import access
from tests.fakes.fabric import COUNTERS, endpoints, install_fabric, make_sysfs
from tests.fakes.tools import on_path

# ---------------------------------------------------------------- efa.loopback


def looped(
    modes: Mapping[str, str] | None = None,
    names: Sequence[str] = ALONE,
    counted: Mapping[str, int] | None = None,
    missing: str = "",
    each_s: float = 5.0,
) -> Observe:
    """efa.loopback on a fake fabric; `missing` names a program that is not there."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        tree = make_sysfs(tmp_path / "sys", names, counters=counted)
        by_domain = {f"{name}-rdm": mode for name, mode in (modes or {}).items()}
        (tmp_path / "bin").mkdir()
        install_fabric(tmp_path / "bin", endpoints(names), by_domain, tree)
        if missing:
            (tmp_path / "bin" / missing).unlink()
        with pytest.MonkeyPatch.context() as patch, on_path(tmp_path / "bin", alone=True):
            patch.setattr(devices, "INFINIBAND", tree)
            patch.delenv(PROVIDER, raising=False)
            made = context(loopback, tmp_path, FOUR, options={"each_s": each_s})
            return observed(loopback, replace(made, timeout_s=20.0))

    return observe


def _loop(sort: Sort, name: str, observe: Observe, **more: object) -> Case:
    return Case("efa.loopback", sort, name, observe, FOUR, **more)  # type: ignore[arg-type]


FIRST = DEVICES4[0]
LOOPBACK = [
    _loop(HEALTHY, "one device", looped()),
    _loop(HEALTHY, "four devices side by side", looped(names=DEVICES4)),
    _loop(FAULTY, "one device of two hangs", looped({FIRST: "hang"}, DEVICES4[:2], each_s=2.0),
        names=f"{FIRST}: fi_pingpong did not finish within"),
    _loop(FAULTY, "one device of two fails", looped({FIRST: "refuse"}, DEVICES4[:2]), names=f"{FIRST}: exit code 1"),
    _loop(FAULTY, "messages are lost", looped({FIRST: "acks"}), names=f"{FIRST} left 1 message unacknowledged"),
    _loop(FAULTY, "one device alone moves nothing", looped({FIRST: "rate 0.05"}), names=f"{FIRST} reaches 5e-05 GB/s"),
    _loop(FAULTY, "one device of four reaches a ninth", looped({FIRST: "rate 300"}, DEVICES4),
        names=f"{FIRST} reaches 0.3 GB/s in the ping-pong test, 11 % of the median of its node"),
    _loop(FAULTY, "one device of four reaches a third", looped({FIRST: "rate 900"}, DEVICES4), level=Level.WARN,
        names=f"{FIRST} reaches 0.9 GB/s"),
    _loop(FAULTY, "no device can be opened", looped({FIRST: "gone"}), names="No data available", **CONFIG),
    _loop(FAULTY, "every device hangs", looped({FIRST: "hang"}, each_s=1.5), names="security group", **CONFIG),
    _loop(FAULTY, "error 4126", looped({FIRST: "4126"}), names="4126", **CONFIG),
    _loop(UNMEASURABLE, "fi_info is not installed", looped(missing="fi_info")),
    _loop(UNMEASURABLE, "fi_pingpong is not installed", looped(missing="fi_pingpong")),
    _loop(UNMEASURABLE, "the table is cut", looped({FIRST: "cut"})),
    _loop(UNMEASURABLE, "the table of a datagram endpoint", looped({FIRST: "short"})),
    _loop(UNMEASURABLE, "the table is garbage", looped({FIRST: "garbage"})),
    _loop(UNMEASURABLE, "shared memory carried it", looped({FIRST: "shm"})),
    _loop(UNMEASURABLE, "the device does not count", looped(counted={})),
]  # fmt: skip

# ---------------------------------------------------------------- efa.pingpong


def ringed(
    modes: Mapping[str, str] | None = None,
    alone: bool = False,
    note: str = "",
    missing: str = "",
    each_s: float = 5.0,
    devices: int = 1,
) -> Observe:
    """efa.pingpong on two nodes of a fake fabric; `alone`: node-1 does not take part, `note`: it only says this."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        by_domain = {f"{name}-rdm": mode for name, mode in (modes or {}).items()}
        (tmp_path / "bin").mkdir()
        install_fabric(tmp_path / "bin", endpoints(DEVICES4[:2]), by_domain)
        if missing:
            (tmp_path / "bin" / missing).unlink()
        responders = [Responder(access(f"node-{index}"), "") for index in range(2)]
        members = tuple(
            Member(f"node-{index}", "127.0.0.1", listen(responder))
            for index, responder in enumerate(responders)
        )
        if note:
            ask(members[1], access("node-1"), Op.PUT, 2.0, key="efa.pingpong/ports/node-1", value=note)
        options = {**QUICK, "each_s": each_s, "wait_s": 1.0 if alone else 5.0, "devices": devices}
        base = replace(context(pingpong, tmp_path, FOUR, 2, options=options), timeout_s=20.0)
        found: dict[int, Observation] = {}

        def run(index: int) -> None:
            roster = Roster(members, 1, "lo")
            made = replace(
                base, node=f"node-{index}", node_rank=index, roster=roster, access=access(f"node-{index}")
            )
            found[index] = observed(pingpong, made, f"node-{index}")[0]

        with pytest.MonkeyPatch.context() as patch, on_path(tmp_path / "bin", alone=True):
            patch.delenv(PROVIDER, raising=False)
            threads = [threading.Thread(target=run, args=(index,)) for index in range(1 if alone else 2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        for responder in responders:
            responder.close()
        return tuple(found[index] for index in sorted(found))

    return observe


def listen(responder: Responder) -> int:
    """Have it listen on a free port of the loopback interface; the port."""
    port = free_port("127.0.0.1")
    responder.listen("127.0.0.1", port)
    return port


def _ring(sort: Sort, name: str, observe: Observe, **more: object) -> Case:
    return Case("efa.pingpong", sort, name, observe, FOUR, 2, **more)  # type: ignore[arg-type]


PINGPONG = [
    _ring(HEALTHY, "two nodes, two devices", ringed(devices=2)),
    _ring(FAULTY, "a pair hangs", ringed({FIRST: "hang"}, each_s=1.5),
        names=f"node-0 -> node-1 ({FIRST}-rdm): fi_pingpong did not finish within", **CONFIG),
    _ring(FAULTY, "a pair moves nothing", ringed({FIRST: "rate 0.05"}), names=f"({FIRST}-rdm) reaches 5e-05 GB/s", **CONFIG),
    _ring(FAULTY, "messages are lost", ringed({FIRST: "acks"}), names="acks_missing", **CONFIG),
    _ring(FAULTY, "one device fails and another's table is cut", ringed({FIRST: "refuse", DEVICES4[1]: "cut"}, devices=2),
        names="Cannot allocate memory", **CONFIG),
    _ring(UNMEASURABLE, "the neighbour offers no server", ringed(alone=True)),
    _ring(UNMEASURABLE, "the neighbour cannot serve", ringed(alone=True, note='{"error": "fi_getinfo -61"}')),
    _ring(UNMEASURABLE, "the neighbour says nonsense", ringed(alone=True, note='{"a": "b"}')),
    _ring(UNMEASURABLE, "fi_pingpong is not installed", ringed(missing="fi_pingpong")),
    _ring(UNMEASURABLE, "the table is cut", ringed({FIRST: "cut"})),
]  # fmt: skip

# ---------------------------------------------------------------- efa.counters


def counted(
    grown: Mapping[str, int],
    lost: Sequence[str] = (),
    late: Sequence[str] = (),
    looked: bool = True,
    start: Mapping[str, int] = COUNTERS,
    end: Mapping[str, int] | None = None,
) -> Observe:
    """efa.counters over a tree whose counters grow meanwhile; `lost` and `late` devices are there once only."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        names = [name for name in DEVICES4 if name not in late]
        after = [name for name in DEVICES4 if name not in lost]
        make_sysfs(tmp_path / "before", names, counters=start)
        last = {key: value + grown.get(key, 0) for key, value in start.items()} if end is None else end
        make_sysfs(tmp_path / "after", after, counters=last)
        made = context(counters, tmp_path, FOUR)
        with pytest.MonkeyPatch.context() as patch:
            before: dict[str, object] | None = None
            if looked and counters.before is not None:
                patch.setattr(devices, "INFINIBAND", tmp_path / "before")
                before = dict(counters.before(made))
            patch.setattr(devices, "INFINIBAND", tmp_path / "after")
            return observed(counters, replace(made, before=before))

    return observe


def _count(sort: Sort, name: str, observe: Observe, **more: object) -> Case:
    return Case("efa.counters", sort, name, observe, FOUR, **more)  # type: ignore[arg-type]


SENT = {"tx_bytes": 22_000_000, "rx_bytes": 22_000_000}
OLD = {key: value for key, value in COUNTERS.items() if "retrans" not in key}
COUNTED = [
    _count(HEALTHY, "traffic alone", counted(SENT)),
    _count(HEALTHY, "a few retransmissions", counted({**SENT, "retrans_pkts": 40})),
    _count(FAULTY, "drops", counted({**SENT, "rx_drops": 500}), names="rx_drops rdmap144s27 dropped 500 received packets"),
    _count(FAULTY, "a few drops", counted({**SENT, "rx_drops": 1}), level=Level.WARN,
        names="rx_drops rdmap144s27 dropped 1 received packet"),
    _count(FAULTY, "failed requests", counted({**SENT, "rdma_write_wr_err": 101}),
        names="error_events rdmap144s27 reported 101 errors while the checks ran"),
    _count(FAULTY, "a peer that does not answer", counted({**SENT, "unresponsive_remote_events": 150})),
    _count(FAULTY, "retransmissions", counted({**SENT, "retrans_pkts": 5000}), level=Level.WARN, **CONFIG),
    _count(FAULTY, "a device was lost", counted(SENT, lost=("rdmap32s27",)), names="rdmap32s27: gone"),
    _count(UNMEASURABLE, "no first look", counted(SENT, looked=False)),
    _count(UNMEASURABLE, "a counter went backwards", counted({**SENT, "rx_drops": -2})),
    _count(UNMEASURABLE, "no device at the end", counted(SENT, lost=DEVICES4)),
    _count(UNMEASURABLE, "a device came late", counted(SENT, late=("rdmap32s27",))),
    _count(UNMEASURABLE, "nothing was sent", counted({})),
    _count(UNMEASURABLE, "no counters at all", counted({}, start={})),
    _count(UNMEASURABLE, "the counters vanished", counted({}, end={})),
    _count(UNMEASURABLE, "a driver that does not count it all", counted(SENT, start=OLD)),
]  # fmt: skip

CASES = [*LOOPBACK, *PINGPONG, *COUNTED]
