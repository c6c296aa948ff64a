"""The configuration is made of the shipped files, with a site's addresses."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from tasks.monitoring.config import PLACEHOLDER, ConfigError, MonitoringSettings, ScrapeJob, rendered

HOOK = "http://127.0.0.1:1/"
SETTINGS = MonitoringSettings(HOOK + "on-call", HOOK + "owner", HOOK + "heartbeat")
WHOLE = replace(SETTINGS, slurm="c:8080", remote_write="https://x/w", region="us-gov-west-1")


def test_no_placeholder_is_left_and_every_file_is_yaml() -> None:
    """With and without the parts that a site may not have."""
    for settings in (SETTINGS, WHOLE):
        for name, text in rendered(settings).items():
            assert yaml.safe_load(text), name
            assert [] == PLACEHOLDER.findall(text), name


def test_optional_parts_are_left_out() -> None:
    """Slurm's exporter, and the remote write with the queue of the published HyperPod guide."""
    small, big = (yaml.safe_load(rendered(one)["prometheus.yml"]) for one in (SETTINGS, WHOLE))

    assert "remote_write" not in small
    assert "slurm" not in {job["job_name"] for job in small["scrape_configs"]}
    assert [{"targets": ["c:8080"]}] == big["scrape_configs"][-1]["static_configs"]
    assert {
        "url": "https://x/w",
        "queue_config": {"max_samples_per_send": 1000, "max_shards": 200, "capacity": 2500},
        "sigv4": {"region": "us-gov-west-1"},
    } == big["remote_write"][0]


def test_ports_are_those_of_the_table_unless_another_is_named() -> None:
    """Each job adds its own to the declared nodes."""

    def ports(settings: MonitoringSettings) -> dict[str, str]:
        found = yaml.safe_load(rendered(settings)["prometheus.yml"])["scrape_configs"]
        jobs = {job["job_name"]: job["relabel_configs"] for job in found if "relabel_configs" in job}
        return {name: rules[-1]["replacement"].removeprefix("$1:") for name, rules in jobs.items()}

    assert {"prelaunch-watch": "9402", "node": "9100", "dcgm": "9400", "efa": "9109"} == ports(SETTINGS)
    assert "9100" == ports(replace(SETTINGS, ports={ScrapeJob.EFA: 9100}))["efa"]


@pytest.mark.parametrize(
    "change",
    [
        {"on_call": "pagerduty"},
        {"owner": 'http://x/"}\nroute: {'},
        {"heartbeat": ""},
        {"remote_write": "https://x/w"},
        {"remote_write": "file:///etc", "region": "us-west-2"},
        {"remote_write": "https://x/w", "region": 'a"b'},
    ],
)
def test_values_that_cannot_stand_there_are_refused(change: dict[str, str]) -> None:
    """Each is named."""
    named = "region" if change.get("remote_write") == "https://x/w" else next(iter(change))
    with pytest.raises(ConfigError, match=f"^{named} = "):
        rendered(replace(SETTINGS, **change))  # type: ignore[arg-type]
