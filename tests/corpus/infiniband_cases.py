"""ib.*: nodes with sound ports of InfiniBand and RoCE, with faulty ones, and with some that nobody can see."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from checks.model import Cause, Level, Observation
from checks.probes.infiniband import ports as ports_module
from checks.probes.infiniband.counters import counters
from checks.probes.infiniband.ports import ports
from tests.corpus.case import NDR, Case, Observe, Rows, Sort, cases_of, context, observed, observing
from tests.corpus.nccl_cases import efa, logged, other, transported, without
from tests.fakes.infiniband import COUNTERS, HW_COUNTERS, Adapter, adapters, make_sysfs

HEALTHY, FAULTY, UNMEASURABLE = Sort
WARN, CONFIGURATION = Level.WARN, Cause.CONFIGURATION


@observing
def seen(tmp_path: Path, *nodes: Sequence[Adapter]) -> Rows:
    """ib.ports on nodes with these adapters."""
    rows: list[Observation] = []
    for number, made in enumerate(nodes):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ports_module, "INFINIBAND", make_sysfs(tmp_path / f"sys{number}", made))
            rows += observed(ports, context(ports, tmp_path, NDR, len(nodes)), f"node-{number}")
    return rows


def with_first(first: Adapter) -> list[Adapter]:
    """Healthy adapters, but for the first."""
    return [first, *adapters()[1:]]


_port = cases_of("ib.ports", instance_type=NDR)
DOWN = Adapter("mlx5_0", state="1: DOWN", phys_state="3: Disabled")
MANAGEMENT = Adapter(
    "mlx5_8", rate="25 Gb/sec (1X EDR)", link_layer="Ethernet", board="MT_0000000547", firmware="26.36.1010"
)
UNUSED = replace(MANAGEMENT, state=DOWN.state, phys_state=DOWN.phys_state)
PORTS = [
    _port(HEALTHY, "eight ports", seen(adapters())),
    _port(HEALTHY, "two nodes", seen(adapters(), adapters())),
    _port(HEALTHY, "more than two digits", seen([replace(one, name=f"mlx5_{8 + n}") for n, one in enumerate(adapters())])),
    _port(HEALTHY, "a port of management beside them", seen([*adapters(), MANAGEMENT])),
    _port(HEALTHY, "a port of management that is down", seen([*adapters(), UNUSED])),
    _port(HEALTHY, "RoCE", seen([replace(one, link_layer="Ethernet", mtu="9000") for one in adapters()])),
    _port(HEALTHY, "without interfaces", seen([replace(one, mtu="") for one in adapters()])),
    _port(FAULTY, "a port is down", seen(with_first(DOWN)), names="mlx5_0:1 is not active (state 1)"),
    _port(FAULTY, "its physical link is down", seen(with_first(DOWN)), names="mlx5_0:1 has no physical link (state 3)"),
    _port(FAULTY, "no subnet manager", seen(with_first(Adapter("mlx5_0", state="2: INIT"))),
        names="mlx5_0:1 is not active (state 2)"),
    _port(FAULTY, "half the rate", seen(with_first(Adapter("mlx5_0", rate="200 Gb/sec (2X NDR)"))),
        names="mlx5_0:1: rate is 200 Gbit/s, but the instance type has 400"),
    _port(FAULTY, "a down port beside one of management", seen([*with_first(DOWN), MANAGEMENT]), names="mlx5_0:1 is not"),
    _port(FAULTY, "an adapter is missing", seen(adapters(7)), names="ports_missing lacks 1 port of InfiniBand or RoCE"),
    _port(FAULTY, "one node has another firmware", seen(adapters(), with_first(Adapter("mlx5_0", firmware="28.36.0010"))),
        level=WARN, cause=CONFIGURATION, names="28.36.0010"),
    _port(FAULTY, "one node has another MTU", seen(adapters(), [replace(one, mtu="4092") for one in adapters()]), level=WARN,
        cause=CONFIGURATION, names="MTU"),
    _port(FAULTY, "one node is set to RoCE", seen(adapters(), [replace(one, link_layer="Ethernet") for one in adapters()]),
        cause=CONFIGURATION, names="link layer"),
    _port(FAULTY, "faster than declared", seen([replace(one, rate="800 Gb/sec (4X XDR)") for one in adapters()]), level=WARN,
        cause=CONFIGURATION, names="mlx5_0:1: rate is 800 Gbit/s"),
    _port(UNMEASURABLE, "no device at all", seen([])),
    _port(UNMEASURABLE, "EFA alone", seen([Adapter("rdmap0s6", vendor="0x1d0f")])),
    _port(UNMEASURABLE, "a state that cannot be read", seen(with_first(Adapter("mlx5_0", state="")))),
    _port(UNMEASURABLE, "a physical state that cannot be read", seen(with_first(Adapter("mlx5_0", phys_state="")))),
    _port(UNMEASURABLE, "a rate that cannot be read", seen(with_first(Adapter("mlx5_0", rate="")))),
    _port(UNMEASURABLE, "a rate of another form", seen(with_first(Adapter("mlx5_0", rate="fast")))),
]  # fmt: skip

# ---------------------------------------------------------------- ib.counters

SENT = {"port_xmit_data": 5_000_000, "port_rcv_data": 5_000_000}


def counted(
    grown: Mapping[str, int] | None = None,
    *,
    start: Mapping[str, int | str | None] | None = None,
    end: Mapping[str, int | str | None] | None = None,
    lost: Sequence[str] = (),
    looked: bool = True,
) -> Observe:
    """ib.counters, where the counters of mlx5_3 grow by this; `end` replaces values at the end, `lost` adapters are gone then."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        first = {**COUNTERS, **HW_COUNTERS, **(start or {})}
        more = {**SENT, **(grown or {})}
        last = {key: was + more.get(key, 0) if isinstance(was, int) else was for key, was in first.items()}
        last |= end or {}
        well = {key: was + SENT.get(key, 0) for key, was in {**COUNTERS, **HW_COUNTERS}.items()}
        before = [replace(one, counters=first if one.name == "mlx5_3" else {}) for one in adapters()]
        after = [replace(one, counters=last if one.name == "mlx5_3" else well) for one in adapters()]
        made = context(counters, tmp_path, NDR)
        with pytest.MonkeyPatch.context() as patch:
            look: dict[str, object] | None = None
            if looked and counters.before is not None:
                patch.setattr(ports_module, "INFINIBAND", make_sysfs(tmp_path / "before", before))
                look = dict(counters.before(made))
            root = make_sysfs(tmp_path / "after", [one for one in after if one.name not in lost])
            patch.setattr(ports_module, "INFINIBAND", root)
            return observed(counters, replace(made, before=look))

    return observe


_count = cases_of("ib.counters", instance_type=NDR)
WHOLE = {
    "symbol_error": 101, "link_error_recovery": 11, "link_downed": 1, "port_rcv_errors": 101, "local_ack_timeout_err": 101,
}  # fmt: skip
FEW = {
    "symbol_error": 1, "link_error_recovery": 1, "port_rcv_errors": 1, "port_rcv_remote_physical_errors": 1,
    "local_link_integrity_errors": 1, "excessive_buffer_overrun_errors": 1, "port_xmit_discards": 1001, "local_ack_timeout_err": 1,
    "out_of_sequence": 1001,
}  # fmt: skip
CAUSES = dict.fromkeys(
    ("excessive_buffer_overrun_errors", "port_xmit_discards", "local_ack_timeout_err", "out_of_sequence"),
    CONFIGURATION,
)
STOPPED = {"symbol_error": 65535, "link_downed": 255, "local_link_integrity_errors": 15}
EVERY = (*FEW, "link_downed")
COUNTED = [
    _count(HEALTHY, "traffic alone", counted()),
    _count(HEALTHY, "some congestion", counted({"port_xmit_discards": 40, "out_of_sequence": 40, "port_xmit_wait": 10_000})),
    *(
        _count(FAULTY, f"{name} grew", counted({name: grown}), cause=CAUSES.get(name, Cause.HARDWARE), names="mlx5_3:1")
        for name, grown in WHOLE.items()
    ),
    *(
        _count(FAULTY, f"{name} grew a little", counted({name: grown}), level=WARN, cause=CAUSES.get(name, Cause.HARDWARE),
            names="mlx5_3:1")
        for name, grown in FEW.items()
    ),
    _count(FAULTY, "a counter reached its highest value", counted(start={"symbol_error": 65000}, end={"symbol_error": 65535}),
        names="mlx5_3:1 had 535 symbol errors"),
    _count(FAULTY, "an adapter was lost", counted(lost=("mlx5_3",)), names="mlx5_3:1: gone"),
    *(_count(UNMEASURABLE, f"{name} is missing", counted(start={name: None})) for name in EVERY),
    *(_count(UNMEASURABLE, f"{name} went backwards", counted(start={name: 9}, end={name: 2})) for name in EVERY[:2]),
    *(_count(UNMEASURABLE, f"{name} vanished", counted(end={name: None})) for name in EVERY[:2]),
    *(_count(UNMEASURABLE, f"{name} stood at its highest value", counted(start={name: most})) for name, most in STOPPED.items()),
    _count(UNMEASURABLE, "a driver without counters", counted(start={"symbol_error": "N/A (no PMA)"})),
    _count(UNMEASURABLE, "no first look", counted(looked=False)),
    _count(UNMEASURABLE, "nothing was sent", counted({"port_xmit_data": 0})),
    _count(UNMEASURABLE, "no port at the end", counted(lost=[one.name for one in adapters()])),
]  # fmt: skip

# ---------------------------------------------------------------- nccl.transport over ports


def over_ports(text: str, ports: int = 8, network: str = "IB", way: str = "IB") -> str:
    """The log of EFA as NCCL writes it over InfiniBand (src/transport/net_ib.cc): how it names ports, network and channels."""
    named = " ".join(f"[{number}]mlx5_{number}:1/IB" for number in range(ports))
    used = f"NET/{network} : Using {named} [RO]; OOB eth0:10.1.8.3<0>"
    text = without(r"NET/OFI (?:Init|Using)")(text)
    text = re.sub(r"NET/OFI Selected provider is efa.*", used, text)
    text = text.replace("Using network AWS Libfabric", f"Using network {way}")
    return text.replace("NET/AWS Libfabric/", f"NET/{way}/")


def of_ports() -> Iterator[Case]:
    """What the log proves on a machine with InfiniBand."""

    def case(sort: Sort, name: str, text: Callable[[], str], names: str = "", **of: object) -> Case:
        return transported(sort, f"infiniband_{name}", logged(text, NDR, 2), names, NDR, **of)

    yield case(Sort.HEALTHY, "of_nccl", efa(over_ports))
    yield case(Sort.HEALTHY, "of_hpcx", efa(lambda text: over_ports(text, network="IBext_v9", way="IBext_v9")))  # fmt: skip
    yield case(Sort.HEALTHY, "roce", efa(lambda text: over_ports(text).replace("/IB ", "/RoCE ")))
    yield case(Sort.FAULTY, "socket_fallback", other("log_socket.txt"), "carries 4 channels")
    yield case(Sort.FAULTY, "libfabric_over_tcp", other("log_tcp_provider.txt"), "carries 4 channels")
    yield case(Sort.FAULTY, "seven_ports", efa(lambda text: over_ports(text, 7)), "does not use 1 network")
    plain = efa(lambda text: over_ports(text).replace("/GDRDMA", ""))
    yield case(Sort.FAULTY, "no_gpudirect", plain, "GPUDirect switched off")
    yield case(Sort.UNMEASURABLE, "provider_untold", efa(without("Selected provider")))


CASES = [*PORTS, *COUNTED, *of_ports()]
