"""Whether a threshold can separate a healthy part from a broken one: not above what the part can do, and not so low that
nothing could miss it (pure).

Public thresholds fail both ways: 300, 800 and 900 GB/s of bus bandwidth at 128 MiB between two nodes whose network ends
at 94, 750 and 750; 2.333 GB/s of memory bandwidth for an H200, 0.5 GB/s of all_reduce for any p5.
"""

from __future__ import annotations

# Healthy parts were seen at 0.37 of their roofline and above (a T4 held to 70 W; DCGM's own limits lie at 0.51 to 0.66),
# and at a quarter of PCIe where GPUs share an uplink. DCGM's slips lie at 0.09 (A100-40) and 0.0005 (H200).
LEAST_OF_ROOFLINE = 0.2


def fault_in(threshold: float, roofline: float, part: str) -> str:
    """Why a lower bound on a rate is none for this part, "" if it is one. Both in the same unit."""
    if threshold > roofline:
        return f"{threshold:g} is above what a {part} can do ({roofline:g})"
    if threshold < LEAST_OF_ROOFLINE * roofline:
        return f"{threshold:g} is a floor that no {part} could miss (it can do {roofline:g})"
    return ""
