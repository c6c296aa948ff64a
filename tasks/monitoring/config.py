"""The configuration of Prometheus and Alertmanager, made of the files in deployments/monitoring with a site's addresses.

Ports: Prometheus' list of default port allocations, and what Amazon's installers for HyperPod use (node exporter 9100, EFA 9109,
DCGM 9400; older ones EFA 9100).

ConfigError      a value cannot stand in the files; the message says which
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

SHIPPED = Path(__file__).parents[2] / "deployments" / "monitoring"
ALERTMANAGER = "alertmanager.yml"
# The addresses of webhooks are secrets: whoever has one can write to it.
SECRET = (ALERTMANAGER,)
RULES = "rules/prelaunch.rules.yml"
PLACEHOLDER = re.compile(r"@[A-Z_]+@")
# Nothing that would end a quoted scalar of YAML.
URL = re.compile(r"https?://[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]{1,2000}")
REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-[0-9]{1,2}")


class ScrapeJob(StrEnum):
    """The name of a scrape job; rules and dashboards select by it."""

    WATCH = "prelaunch-watch"
    NODE = "node"
    DCGM = "dcgm"
    EFA = "efa"


PORTS: Mapping[ScrapeJob, int] = {
    ScrapeJob.WATCH: 9402,
    ScrapeJob.NODE: 9100,
    ScrapeJob.DCGM: 9400,
    ScrapeJob.EFA: 9109,
}


class ConfigError(Exception):
    """A setting cannot be used. The message says which, and why."""


@dataclass(frozen=True)
class MonitoringSettings:
    """A site's addresses. `on_call`, `owner` and `heartbeat` are webhooks; "" for `slurm` and `remote_write` leaves them out."""

    on_call: str
    owner: str
    heartbeat: str
    prometheus: str = "127.0.0.1:9090"
    alertmanager: str = "127.0.0.1:9093"
    exporter: str = "127.0.0.1:9403"
    slurm: str = ""
    remote_write: str = ""
    region: str = ""
    ports: Mapping[ScrapeJob, int] = field(default_factory=dict)


def rendered(settings: MonitoringSettings) -> dict[str, str]:
    """The files by their names below the folder of the configuration. Raises ConfigError."""
    for name in ("on_call", "owner", "heartbeat", "remote_write"):
        value = getattr(settings, name)
        if not URL.fullmatch(value) and not (name == "remote_write" and value == ""):
            raise ConfigError(f"{name} = {value!r:.80} is not a URL of http or https.")
    if settings.remote_write and not REGION.fullmatch(settings.region):
        raise ConfigError(
            f"region = {settings.region!r:.40} is not a region of AWS, with which requests to {settings.remote_write} are signed."
        )
    names = ["prometheus.yml"]
    if settings.slurm:
        names.append("scrape-slurm.yml")
    if settings.remote_write:
        names.append("remote-write.yml")
    prometheus = "".join((SHIPPED / name).read_text(encoding="utf-8") for name in names)
    values = _values(settings)
    return {
        "prometheus.yml": _filled(prometheus, values),
        ALERTMANAGER: _filled((SHIPPED / ALERTMANAGER).read_text(encoding="utf-8"), values),
        RULES: (SHIPPED / RULES).read_text(encoding="utf-8"),
    }


def _values(settings: MonitoringSettings) -> dict[str, str]:
    ports = {f"{job.name}_PORT": str(port) for job, port in {**PORTS, **settings.ports}.items()}
    texts = {name.upper(): value for name, value in vars(settings).items() if isinstance(value, str)}
    return {**ports, **texts}


def _filled(text: str, values: Mapping[str, str]) -> str:
    return PLACEHOLDER.sub(lambda match: values[match[0].strip("@")], text)
