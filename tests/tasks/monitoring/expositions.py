"""What a healthy watch and DCGM serve, and the samples of a page of metrics."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


def watch(now: float, gpus: int) -> str:
    """The watch of a healthy node, with what the rules need."""
    found = f"prelaunch_found_gpus {gpus}\n" if gpus else ""
    return (
        "# HELP prelaunch_declared_gpus GPUs.\n# TYPE prelaunch_declared_gpus gauge\n"
        f'prelaunch_declared_gpus{{instance_type="x"}} {gpus}\n'
        f"prelaunch_watch_last_round_timestamp_seconds {now - 5}\nprelaunch_watch_interval_seconds 60\n"
        'prelaunch_watch_required_observations 10\nprelaunch_watch_observations{outcome="measured"} 10\n'
        f"prelaunch_findings_omitted 0\n{found}"
    )


def dcgm(gpus: int = 8) -> str:
    """DCGM with our counters."""
    labels = [f'gpu="{gpu}",UUID="GPU-{gpu}"' for gpu in range(gpus)]
    return "".join(
        f"DCGM_FI_DEV_GPU_TEMP{{{one}}} 40\nDCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{one}}} 123456\n"
        f"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{one}}} 0\n"
        for one in labels
    )


def samples(text: str) -> tuple[Sample, ...]:
    """The samples of a page in Prometheus' text format, as its own client reads them."""
    return tuple(one for family in text_string_to_metric_families(text) for one in family.samples)
