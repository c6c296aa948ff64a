"""Matrices as the tools write them, constructed: every number is made here."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

Value = Callable[[int, int], float]


def rates(count: int, usual: float = 40.0, bad: Sequence[int] = (), share: float = 0.2) -> list[list[float]]:
    """Rates within 3 % of the usual one; those of the bad are a share of them, both ways."""
    source = random.Random(7)
    return [
        [
            usual * source.uniform(0.97, 1.03) * (share if (a in bad) != (b in bad) else 1)
            for b in range(count)
        ]
        for a in range(count)
    ]


def csv_square(names: Sequence[str], values: Sequence[Sequence[object]], corner: str = "GB/s") -> str:
    """A square with names; numbers with two decimals."""
    rows = [",".join([corner, *names])]
    for a, name in enumerate(names):
        cells = ["" if a == b else _text(value) for b, value in enumerate(values[a])]
        rows.append(",".join([name, *cells]))
    return "\n".join(rows) + "\n"


def csv_long(names: Sequence[str], values: Sequence[Sequence[object]]) -> str:
    """A test a line."""
    rows = [
        f"{a},{b},{_text(values[i][j])}" for i, a in enumerate(names) for j, b in enumerate(names) if i != j
    ]
    return "\n".join(["source,target,bandwidth_gbps", *rows]) + "\n"


def p2p(count: int, scale: Value = lambda a, b: 1.0) -> str:
    """p2pBandwidthLatencyTest of a host with so many GPUs; `scale` makes a pair's rates so much smaller."""
    lines = ["[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]"]
    lines += [
        f"Device: {i}, NVIDIA H100 80GB HBM3, pciBusID: {16 * i + 10:x}, pciDeviceID: 0, pciDomainID:0"
        for i in range(count)
    ]
    lines += [f"Device={a} CAN Access Peer Device={b}" for a in range(count) for b in range(count) if a != b]
    lines += [
        "",
        "***NOTE: In case a device doesn't have P2P access to other one, it falls back to normal memcopy procedure.",
    ]
    lines += ["P2P Connectivity Matrix", "     D\\D" + "".join(f"{i:6d}" for i in range(count))]
    lines += [f"{a:6d}\t" + "".join(f"{1:6d}" for _ in range(count)) for a in range(count)]
    source = random.Random(5)

    def block(corner: str, own: float, usual: float, lower: bool) -> list[str]:
        made = [f"   {corner}" + "".join(f"{i:6d} " for i in range(count))]
        for a in range(count):
            cells = []
            for b in range(count):
                far = scale(a, b)
                value = own if a == b else usual / far if lower else usual * far
                cells.append(f"{value * source.uniform(0.98, 1.02):6.02f} ")
            made.append(f"{a:6d} " + "".join(cells))
        return made

    for title, usual in (
        ("Unidirectional P2P=Disabled Bandwidth Matrix", 37.0),
        ("Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix", 380.0),
        ("Bidirectional P2P=Disabled Bandwidth Matrix", 46.0),
        ("Bidirectional P2P=Enabled Bandwidth Matrix", 760.0),
    ):
        lines += [f"{title} (GB/s)", *block("D\\D", 2500.0, usual, False)]
    for title, usual in (
        ("P2P=Disabled Latency Matrix", 17.0),
        ("P2P=Enabled Latency (P2P Writes) Matrix", 2.7),
    ):
        lines += [f"{title} (us)", *block("GPU", 2.0, usual, True), "", *block("CPU", 2.1, 6.5, True)]
    lines += ["", "NOTE: The CUDA Samples are not meant for performance measurements."]
    return "\n".join(lines) + "\n"


def _text(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
