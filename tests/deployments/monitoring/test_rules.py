"""The alert rules, by Prometheus' own promtool: each fires, each stays quiet, and none of their metrics can be missing unnoticed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from checks.watch.families import FAMILIES
from tasks.monitoring.config import RULES, SHIPPED, MonitoringSettings, rendered
from tests.deployments.monitoring.rule_cases import HEALTHY, SITUATIONS, Alert, Situation

pytestmark = pytest.mark.needs("promtool")
FILE = SHIPPED / RULES
PAGE = Path(__file__).parents[3] / "docs" / "watch.md"
DOCUMENT: dict[str, Any] = yaml.safe_load(FILE.read_text())
ALERTS: list[dict[str, Any]] = [rule for group in DOCUMENT["groups"] for rule in group["rules"]]
NAMES = sorted({rule["alert"] for rule in ALERTS})
HEARTBEAT, TARGET_DOWN = "PrelaunchHeartbeat", "PrelaunchTargetDown"
METRIC = re.compile(r"\b(?:prelaunch|DCGM|node|slurm)_[A-Za-z_]+\b")
# Families that are there only where there is something to say. Whether their exporter serves at all, other rules say.
CONDITIONAL = {
    "prelaunch_finding_open": "without open findings there is none; prelaunch_findings_omitted is always there",
    "prelaunch_efa_errors_total": "a node without EFA devices has none",
    "node_textfile_mtime_seconds": "a site may leave the textfile out; where it was there, PrelaunchTextfileGone fires",
}


def promtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """One run."""
    return subprocess.run(("promtool", *map(str, words)), capture_output=True, text=True, check=False)


def group(situation: Situation, at: str = "8m") -> dict[str, object]:
    """The test of a situation: every alert of the file fires as the situation says, or not at all."""
    wanted: dict[str, list[dict[str, str]]] = {name: [] for name in NAMES}
    for name, labels in (*situation.alerts, (HEARTBEAT, {"notify": "heartbeat"})):
        wanted[name].append(labels)
    return {
        "name": situation.name,
        "interval": "15s",
        "input_series": input_series(situation.series),
        "alert_rule_test": [
            {"eval_time": at, "alertname": name, "exp_alerts": [{"exp_labels": one} for one in labels]}
            for name, labels in wanted.items()
        ],
    }


def moved(text: str, number: int) -> str:
    """The same series or labels, of another cluster and its nodes."""
    return re.sub(r'(cluster="(?:c|big)|instance="[nb]\d)(?=[":])', rf"\g<1>-{number}", text)


def stands_alone(situation: Situation) -> bool:
    """Whether it is about what all clusters share: the store, Slurm, or whether a job has any target."""
    changed = [key for key, _ in HEALTHY.items() ^ situation.series.items()]
    absent = any(name == "PrelaunchJobMissing" for name, _ in situation.alerts)
    return absent or any("prelaunch-exporter" in key or "slurm" in key for key in changed)


def gathered(situations: Sequence[Situation]) -> list[Situation]:
    """All that is about one cluster as one situation of many clusters, since promtool makes a database of each; then the others."""
    series: dict[str, str] = {}
    alerts: list[Alert] = []
    for number, one in enumerate(situations):
        if not stands_alone(one):
            series |= {moved(key, number): values for key, values in one.series.items()}
            for name, labels in one.alerts:
                text = moved(",".join(f'{key}="{value}"' for key, value in labels.items()), number)
                alerts.append((name, dict(re.findall(r'(\w+)="([^"]*)"', text))))
    return [Situation("one cluster each", series, tuple(alerts)), *filter(stands_alone, situations)]


def bare(*names: str) -> str:
    """The rules, or those of these names, without annotations, which promtool compares word by word; one test below does."""
    chosen = [rule for rule in ALERTS if rule["alert"] in (names or NAMES)]
    rules = [{key: value for key, value in rule.items() if key != "annotations"} for rule in chosen]
    return yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]})


def tried(
    folder: Path, rules: str, tests: Sequence[Mapping[str, object]], every: str = "15s"
) -> subprocess.CompletedProcess[str]:
    """promtool's tests of these rules."""
    (folder / "rules.yml").write_text(rules)
    test = {"rule_files": ["rules.yml"], "evaluation_interval": every, "tests": list(tests)}
    (folder / "test.yml").write_text(yaml.safe_dump(test, width=500))
    return promtool("test", "rules", folder / "test.yml")


def input_series(series: Mapping[str, str]) -> list[dict[str, str]]:
    """The series in promtool's form."""
    return [{"series": name, "values": values} for name, values in series.items()]


def require_success(done: subprocess.CompletedProcess[str]) -> None:
    """promtool found nothing wrong."""
    assert 0 == done.returncode, done.stdout + done.stderr


def test_the_rules_are_valid() -> None:
    """As they are shipped, with their templates."""
    require_success(promtool("check", "rules", FILE))


def test_each_situation_raises_its_alerts_and_no_others(tmp_path: Path) -> None:
    """Faults, and a healthy cluster with a warning that is nobody's alarm."""
    require_success(tried(tmp_path, bare(), [group(situation) for situation in gathered(SITUATIONS)]))


def test_each_rule_fires_in_a_situation() -> None:
    """Quiet it is in the healthy one, which the test above proves for all of them."""
    fired = {name for situation in SITUATIONS for name, _ in situation.alerts}

    assert {*NAMES} == {*fired, HEARTBEAT}
    assert () == SITUATIONS[0].alerts and HEALTHY is SITUATIONS[0].series


def metrics() -> set[str]:
    """The metrics that the rules read, but for `up`, which Prometheus itself makes."""
    return {name for rule in ALERTS for name in METRIC.findall(rule["expr"])}


def exported() -> set[str]:
    """The metrics that somebody exports: ours are in the list of families, DCGM's among the counters that we ship."""
    counters = re.findall("^DCGM_[A-Z_0-9]+", (SHIPPED / "dcgm-counters.csv").read_text(), re.MULTILINE)
    return {family.name for family in FAMILIES} | set(counters)


def test_every_metric_of_a_rule_is_one_that_somebody_exports() -> None:
    """Those of the node exporter and of EFA's are other people's."""
    unknown = metrics() - exported()

    assert set() == {name for name in unknown if not name.startswith(("node_textfile_", "node_amazonefa_"))}


def without(family: str) -> Situation:
    """The healthy cluster, whose exporters do not have that family."""
    series = {key: values for key, values in HEALTHY.items() if not key.startswith(family + "{")}
    lost = [key for key in HEALTHY if key not in series]
    assert lost, f"{family} is in no healthy series"
    matches = [re.search(r'((?:job|instance)="[^"]*",instance="[^"]*")', key) for key in lost]
    targets = {match[1] for match in matches if match}
    ups = [key for key in HEALTHY if key.startswith("up{") and any(target in key for target in targets)]
    alerts: list[Alert] = []
    for key in ups:
        labels = dict(re.findall(r'(\w+)="([^"]*)"', key))
        alerts.append(("PrelaunchMetricMissing", {**labels, "family": family, "notify": "owner"}))
    if family == "DCGM_FI_DEV_GPU_TEMP":
        alerts.append(("PrelaunchGpusUnmonitored", {"cluster": "c", "node": "n0", "notify": "on-call"}))
    if family == "prelaunch_watch_observations":
        owners = [{"cluster": "c", "node": node, "notify": "owner"} for node in ("n0", "n1")]
        alerts += [("PrelaunchRoundIncomplete", labels) for labels in owners]
    return Situation(f"without {family}", series, tuple(alerts))


def test_a_metric_that_nobody_exports_is_an_alert_by_itself(tmp_path: Path) -> None:
    """For every metric of every rule: taken away from each target that has it, each of these targets is named, with the family."""
    required = sorted(metrics() - CONDITIONAL.keys())
    situations = gathered([without(family) for family in required])

    require_success(tried(tmp_path, bare(), [group(one, "2m") for one in situations]))
    assert CONDITIONAL.keys() <= metrics()


def test_two_scrapes_that_fail_are_an_alert_and_one_is_none(tmp_path: Path) -> None:
    """With the evaluations that are shipped; the first scrape fails at 5 min."""
    settings = MonitoringSettings(on_call="http://h", owner="http://h", heartbeat="http://h")
    interval = yaml.safe_load(rendered(settings)["prometheus.yml"])["global"]["evaluation_interval"]
    up = 'up{job="node",instance="n0:9100",cluster="c",node="n0"}'
    down = dict(re.findall(r'(\w+)="([^"]*)"', up)) | {"notify": "on-call"}

    def situation(values: str, expected: Mapping[int, bool]) -> dict[str, object]:
        rows = [
            {"eval_time": f"{at}s", "alertname": TARGET_DOWN, "exp_alerts": [{"exp_labels": down}] if fires else []}
            for at, fires in expected.items()
        ]  # fmt: skip
        return {"interval": "15s", "input_series": input_series({up: values}), "alert_rule_test": rows}

    tests = [
        situation("1x19 0 1x20", dict.fromkeys(range(300, 360, 3), False)),
        situation("1x19 0x20", {315: False, 318: True, 321: True}),
    ]

    assert interval == "3s"
    require_success(tried(tmp_path, bare(TARGET_DOWN), tests, interval))


def test_a_pause_of_prometheus_is_no_alert(tmp_path: Path) -> None:
    """It is stopped for three minutes, and evaluates at once what it had before: each rule waits for a scrape."""
    scraped, paused = 4, 12
    series = {
        name: f"{_first(values, scraped)} {_later(values, scraped, paused)}"
        for name, values in HEALTHY.items()
    }
    test = {
        "interval": "15s",
        "input_series": input_series(series),
        "alert_rule_test": [
            {"eval_time": at, "alertname": name, "exp_alerts": []}
            for at in ("4m", "8m")
            for name in NAMES
            if name != HEARTBEAT
        ],
    }

    require_success(tried(tmp_path, bare(), [test], "4m"))


def _parts(values: str) -> tuple[int, int]:
    """The first value and the step of "7x40" or "0+15x40"."""
    match = re.fullmatch(r"(-?[0-9]+)(?:[+]([0-9]+))?x[0-9]+", values)
    assert match, values
    return int(match[1]), int(match[2] or 0)


def _first(values: str, steps: int) -> str:
    begin, step = _parts(values)
    return f"{begin}+{step}x{steps}"


def _later(values: str, steps: int, gap: int) -> str:
    begin, step = _parts(values)
    return f"_x{gap} {begin + step * (steps + gap + 1)}+{step}x20"


def test_alerts_come_within_three_intervals() -> None:
    """A scrape begins within one and takes at most a third; an evaluation follows within a fifth; then the rule waits."""
    for_s = max(int(rule["for"][:-1]) for rule in ALERTS if rule.get("for", "").endswith("s"))

    assert 15 * (1 + 1 / 3 + 1 / 5) + for_s < 3 * 15


def test_alerts_that_wait_longer_are_these() -> None:
    """docs/watch.md names their times."""
    slow = {rule["alert"]: rule["for"] for rule in ALERTS if rule.get("for", "18s") != "18s"}

    assert {
        "PrelaunchMetricMissing": "1m",
        "PrelaunchTargetFlapping": "1m",
        "PrelaunchDcgmFrozen": "2m",
        "PrelaunchEfaErrors": "1m",
    } == slow


def test_the_page_reads_as_a_sentence(tmp_path: Path) -> None:
    """With what was found filled in."""
    [found] = [one for one in SITUATIONS if one.name == "a finding is open"]
    (_, labels), *_ = found.alerts
    sentence = {
        "summary": "kernel.xid failed on node n0, GPU 5 (HARDWARE).",
        "remedy": "prelaunch node findings prints the remedy. After it, a gate that measures the check again closes the finding.",
    }
    fired = {"exp_labels": labels, "exp_annotations": sentence}
    test = {
        "interval": "15s",
        "input_series": input_series(found.series),
        "alert_rule_test": [{"eval_time": "5m", "alertname": "PrelaunchFindingOpen", "exp_alerts": [fired]}],
    }

    require_success(tried(tmp_path, FILE.read_text(), [test]))


def test_every_alert_says_what_to_do_and_who_is_notified() -> None:
    """And docs/watch.md has a row for each."""
    page = PAGE.read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (Prelaunch\w+) \| ([^|]+) \|", page, re.MULTILINE))

    assert set(NAMES) == set(rows)
    assert [] == [rule for rule in ALERTS if rule["labels"]["notify"] not in rows[rule["alert"]]]
    assert {HEARTBEAT} == {rule["alert"] for rule in ALERTS if "remedy" not in rule["annotations"]}
