"""What `prelaunch explain` costs over a large kernel log, beside a plain search: `python tests/benchmarks/kernel_log.py`.

A log of 10^9 bytes is made (mixed lines of a machine that runs, a few Xids and SXids among them), then `grep -F` for one
string and `prelaunch explain` read it in turn, five times each, from the page cache. JSON on stdout, about 40 s.
`ratio` is that of the medians. grep writes into a file: into /dev/null it would end at its first match.
`peak_mb` is the largest that a process of either became.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUNS = 5
# Forms of what Linux, its drivers and systemd print on a machine that is well.
KERNEL = (
    "IPv6: ADDRCONF(NETDEV_CHANGE): veth{0:08x}: link becomes ready",
    "docker0: port {1}(veth{0:07x}) entered forwarding state",
    'audit: type=1400 audit(1712628000.{2:03d}:{1}): apparmor="ALLOWED" operation="open" profile="snap" pid={0} comm="python3"',
    "EXT4-fs (nvme{1}n1p1): mounted filesystem with ordered data mode. Quota mode: none.",
    "perf: interrupt took too long ({0} > {1}), lowering kernel.perf_event_max_sample_rate to {2}000",
    "TCP: request_sock_TCP: Possible SYN flooding on port 0.0.0.0:{0}. Sending cookies.",
    "[UFW BLOCK] IN=ens5 OUT= MAC=02:42:ac:11:{1:02x}:{2:03x} SRC=10.0.0.{1} DST=10.0.0.1 LEN=60 TTL=64 ID={0} PROTO=TCP",
    "lustre-client: watching mount point {0}, the last change was {1} s ago",
    "cgroup: fork rejected by pids controller in /system.slice/containerd-{0:x}.service",
    "pcieport 0000:{1:02x}:00.0: bridge window [mem 0x{0:08x}-0x{0:08x}]",
    "usb {1}-{2}: new high-speed USB device number {0} using xhci_hcd",
)
PROGRAMS = (
    "systemd[1]: Started Session {0} of User ubuntu.",
    "sshd[{0}]: Accepted publickey for ubuntu from 10.0.{1}.7 port {0} ssh2: ED25519 SHA256:mN0c{0:x}",
    'kubelet[{1}]: I0409 02:00:00.{0:06d} {1} kubelet.go:2345] "SyncLoop (PLEG): event for pod" pod="train/worker-{2}"',
    'containerd[{1}]: time="2025-04-09T02:00:00Z" level=info msg="shim disconnected" id={0:016x} namespace=k8s.io',
)
PLANTED = (
    "NVRM: Xid (PCI:0000:b9:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python3, Ch 00000008, intr 00000000. MMU Fault",
    "nvidia-nvswitch2: SXid (PCI:0000:86:00.0): 20034, Fatal, Link 41 LTSSM Fault Up",
    "EDAC MC1: 1 CE memory read error on CPU_SrcID#1_MC#1_Chan#0_DIMM#0",
)
BLOCK_LINES = 40_000


def write_log(path: Path, size_bytes: int, seed: int = 4) -> int:
    """A log of a fortnight, as rsyslog writes it, with a dozen faults among its lines. Returns its lines."""
    made = random.Random(seed)
    block = [_line(made, second) for second in range(BLOCK_LINES)]
    plain = "".join(block).encode()
    count = max(size_bytes // len(plain), 1)
    lines = 0
    with path.open("wb") as stream:
        for place in range(count):
            stream.write(plain)
            lines += BLOCK_LINES
            if place % (count // 12 + 1) == 0:
                stream.write(_planted(lines).encode())
                lines += 1
    return lines


def _line(made: random.Random, second: int) -> str:
    numbers = (made.randrange(1 << 24), made.randrange(200), made.randrange(900))
    form = made.choice(KERNEL) if made.random() < 0.7 else made.choice(PROGRAMS)
    said = form.format(*numbers)
    if form in KERNEL:
        said = f"kernel: [{second * 30.1:13.6f}] {said}"
    return f"{_stamp(second)} ip-10-7-8-9 {said}\n"


def _planted(before: int) -> str:
    said = PLANTED[before % len(PLANTED)]
    return f"{_stamp(BLOCK_LINES)} ip-10-7-8-9 kernel: [1204000.000000] {said}\n"


def _stamp(second: int) -> str:
    return time.strftime("%b %e %H:%M:%S", time.gmtime(1_744_000_000 + second * 30))


def measure(path: Path, runs: int) -> dict[str, object]:
    """Both in turn, after one round that is not counted."""
    grep = ("grep", "-F", "NVRM: Xid", str(path))
    explain = (sys.executable, "-m", "flows.cli.main", "explain", "--format", "json", str(path))
    seconds: dict[str, list[float]] = {"grep": [], "explain": []}
    answer = b""
    for turn in range(runs + 1):
        for name, argv in (("grep", grep), ("explain", explain)):
            begun = time.perf_counter()
            said = _output(argv)
            if turn:
                seconds[name].append(time.perf_counter() - begun)
            answer = said if name == "explain" else answer
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    document = json.loads(answer)
    return {
        **{f"{name}_s": round(value, 3) for name, value in medians.items()},
        "ratio": round(medians["explain"] / medians["grep"], 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024),
        "answer": document["answer"],
        "title": document["title"],
        "findings": [finding["message"] for finding in document["findings"]],
    }


def _output(argv: tuple[str, ...]) -> bytes:
    with tempfile.TemporaryFile() as out:
        subprocess.run(
            argv,
            stdout=out,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
            cwd=ROOT,
            check=False,
        )
        out.seek(0)
        return out.read()


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size-bytes", type=int, default=10**9)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--keep", type=Path, metavar="FILE", help="a log that is there, or is made and kept")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = asked.keep or Path(folder) / "kernel.log"
        if not path.exists():
            write_log(path, asked.size_bytes)
        size = path.stat().st_size
        print(json.dumps({"size_bytes": size, "runs": asked.runs, **measure(path, asked.runs)}, indent=2))
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
