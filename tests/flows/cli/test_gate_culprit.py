"""A gate over hosts with networks of their own, one of which is slow: the verdict, the page and the heat map name it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.fakes.pagerduty import pagerduty_server
from tests.flows.cli.test_gate import ROOT, start
from tests.survival.faulty_network import needs_root, network, shape

NODES, SLOW = 4, 2
GATE = """
name = "culprit"
[cluster]
name = "culprit"
launcher = "local"
[cluster.declared]
instance_type = "cpu"
nodes = {nodes}
gpus_per_node = 0
ranks_per_node = 1
[cluster.options]
network = "namespaces"
prepared = "{network}"
[checks]
profile = "quick"
[policy]
file = "{policy}"
[training]
command = ["{{python}}", "-c", "raise SystemExit('nobody may start this')"]
distributed = "none"
max_runtime_minutes = 1
[notify]
order = ["pagerduty"]
owner = ["log"]
[notify.pagerduty]
routing_key = "env:CULPRIT_ROUTING_KEY"
url = "{pagerduty}"
[store]
path = "{store}"
"""


def first_of_the_heat_map(html: str, title: str) -> str:
    """The part whose row and column stand first in the map of this title, marked as bad."""
    text = " ".join(re.sub(r"<[^>]+>", " ", html.partition(f">{title}<")[2]).split())
    found = re.search(r"From \\ to ✕ bad (node-\d+) ", text)
    return found.group(1) if found else ""


@needs_root
@pytest.mark.root
@pytest.mark.timeout(300)
# What it is made of is in `make test`: tests/survival/test_network.py names the slow link and one host of several in such a network,
# tests/survival/test_culprit.py the shaped host; tests/tasks/render/views/test_heatmap.py has the map's order, and
# tests/flows/test_gate_told.py the incident.
@pytest.mark.long
def test_a_shaped_host_is_named_by_verdict_page_and_heat_map(tmp_path: Path) -> None:
    """100 Mbit/s on one of four hosts, under the shipped policy: refused, and everybody is told which."""
    path, name = tmp_path / "gate.toml", f"node-{SLOW}"
    with network(NODES) as made, pagerduty_server() as pagerduty:
        shape(made, SLOW)
        key, policy = pagerduty.service(), ROOT / "deployments" / "policies" / "local.toml"
        text = GATE.format(
            nodes=NODES, network=made, policy=policy, pagerduty=pagerduty.url, store=tmp_path / "store"
        )
        path.write_text(text)
        ran = start(path, CULPRIT_ROUTING_KEY=key)
        printed, errors = ran.communicate()
        paged = pagerduty.open(key)

    assert printed, errors[-2000:]
    told = json.loads(printed)
    assert "error" not in told, told
    findings = told["verdict"]["findings"]
    hardware = {f["subject"] for f in findings if (f["level"], f["cause"]) == ("FAIL", "HARDWARE")}
    by_pairs = [f for f in findings if f["check"] == "collective.pairs"]

    assert (1, "refused") == (ran.returncode, told["decision"]), errors[-2000:]
    assert {name} == hardware, [(f["subject"], f["check"], f["message"], f["evidence"]) for f in findings]
    assert [name] == [f["subject"] for f in by_pairs], by_pairs
    assert "to and from it" in by_pairs[0]["message"]
    assert [name] == re.findall(r"node-\d", str(paged[0].payload["summary"]))[:1]
    assert "nobody may start this" not in errors
    assert first_of_the_heat_map(Path(told["html"]).read_text(), "Bandwidth between nodes") == name
