"""The dashboards: their form, and that each panel has data of a healthy cluster and shows a sick one otherwise."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tasks.monitoring.config import SHIPPED
from tests.deployments.monitoring.rule_cases import DCGM0, HEALTHY, N0, OFF, ON, STEPS, STORE, WATCH0, WATCH1
from tests.deployments.monitoring.test_rules import FILE, METRIC, exported, input_series, tried

FILES = sorted((SHIPPED / "dashboards").glob("prelaunch-*.json"))
BOARDS: dict[str, Any] = {file.stem: json.loads(file.read_text()) for file in FILES}
PANELS: dict[str, str] = {
    f"{name}: {panel['title']} {target['refId']}": target["expr"]
    for name, board in BOARDS.items()
    for panel in board["panels"]
    for target in panel["targets"]
}
GPU = f'gpu="GPU 0",{WATCH0}'
# What the dashboards show beside what the rules read.
SHOWN = {
    **HEALTHY,
    f'prelaunch_findings_open{{level="WARN",cause="CONFIGURATION",{WATCH1}}}': ON,
    f"prelaunch_gpu_recovery_action{{{GPU}}}": OFF,
    f"prelaunch_gpu_row_remap_pending{{{GPU}}}": OFF,
    f"prelaunch_gpu_row_remap_failed{{{GPU}}}": OFF,
    f"prelaunch_gpu_nvlink_recoveries_total{{{GPU}}}": OFF,
    f'prelaunch_xids{{gpu="GPU 0",need="act",{WATCH0}}}': OFF,
    f'prelaunch_watch_check_duration_seconds{{check="kernel.xid",{WATCH0}}}': f"0.1x{STEPS}",
    f"prelaunch_watch_round_duration_seconds{{{WATCH0}}}": f"1x{STEPS}",
    f'prelaunch_watch_rounds_total{{end="deadline",{WATCH0}}}': OFF,
    f'DCGM_FI_DEV_POWER_USAGE{{gpu="0",{DCGM0}}}': f"400x{STEPS}",
    f'prelaunch_gate_answer{{cluster="c",answer="go",{STORE}}}': ON,
    f'prelaunch_gate_answer{{cluster="c",answer="no_go",{STORE}}}': OFF,
    f'prelaunch_store_gates{{cluster="c",answer="go",{STORE}}}': f"7x{STEPS}",
    f'prelaunch_gate_stage_duration_seconds{{cluster="c",stage="measure",{STORE}}}': f"300x{STEPS}",
    f'prelaunch_nodes_condemned{{cluster="c",{STORE}}}': OFF,
    f'prelaunch_node_proven_timestamp_seconds{{cluster="c",node="n0",{STORE}}}': f"-3600x{STEPS}",
}
# One value for all that match, in this order: everything that can be wrong is.
WRONG = (
    (r"^DCGM.*gpu=.1", None),
    (r"^(DCGM_FI_DEV_GPU_TEMP|DCGM_FI_DEV_POWER)", f"95x{STEPS}"),
    (r"^DCGM_FI_DEV_ECC", f"3x{STEPS}"),
    (r"^(up|prelaunch).*n1:9402", None),
    (r"prelaunch_watch_last_round", OFF),
    (r"measured", f"9x{STEPS}"),
    (r"found_gpus", f"1x{STEPS}"),
    (r"^prelaunch_gpu_(recovery|row)", ON),
    (r"^prelaunch_(gpu_nvlink|xids|watch_rounds)", f"0+1x{STEPS}"),
    (r"efa_errors_total", f"0+9000x{STEPS}"),
    (r"_duration_seconds", f"44x{STEPS}"),
    (r"answer=.go", OFF),
    (r"answer=.no_go", ON),
    (r"condemned", f"2x{STEPS}"),
    (r"gate_end", f"{-9 * 86400}x{STEPS}"),
    (r"node_proven", f"{-90 * 86400}x{STEPS}"),
    (r"store_readable", OFF),
    (r"series_omitted", f"5x{STEPS}"),
)
SICK: dict[str, str] = {
    f'prelaunch_finding_open{{check="kernel.xid",part="GPU 0",metric="act",level="FAIL",cause="HARDWARE",{WATCH0}}}': ON,
    f'prelaunch_findings_open{{level="FAIL",cause="HARDWARE",{WATCH0}}}': ON,
    f'up{{job="prelaunch-watch",instance="n1:9402",{N0.replace("n0", "n1")}}}': OFF,
    f'prelaunch_declared_node{{cluster="c",node="n9",{STORE}}}': ON,
}


def sick() -> dict[str, str]:
    """The series of the cluster in which everything is wrong."""
    found = dict(SHOWN)
    for pattern, values in WRONG:
        hit = [key for key in found if re.search(pattern, key)]
        assert hit, pattern
        for key in hit:
            if values is None:
                del found[key]
            else:
                found[key] = values
    return {**found, **SICK}


# What was declared does not become less because it is gone.
DECLARED = {"prelaunch-fleet: Declared GPUs A"}


@pytest.mark.parametrize("name", BOARDS)
def test_a_dashboard_has_panels_of_its_own_that_do_not_overlap(name: str) -> None:
    """A data source that is chosen, no id given twice, and no variable that is not there."""
    board = BOARDS[name]
    ids = [panel["id"] for panel in board["panels"]]
    places = [panel["gridPos"] for panel in board["panels"]]

    assert board["uid"] == name and len(ids) == len(set(ids))
    assert all(0 <= one["x"] and one["x"] + one["w"] <= 24 for one in places)
    pairs = combinations(places, 2)
    beside = [(a, b) for a, b in pairs if a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"]]
    assert not [(a, b) for a, b in beside if a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"]]
    names = [variable["name"] for variable in board["templating"]["list"]]
    assert "datasource" == names[0]
    exprs = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert {word for expr in exprs for word in re.findall(r"\$\{?(\w+)", expr)} <= set(names)


def test_every_metric_of_a_panel_is_one_that_somebody_exports() -> None:
    """As for the rules."""
    assert set() == {name for expr in PANELS.values() for name in METRIC.findall(expr)} - exported()


def answers(folder: Path, series: dict[str, str]) -> dict[str, str]:
    """What Prometheus answers to each panel, as promtool prints it where nothing is expected; "" for no data."""
    exprs = {name: re.sub(r"\$(cluster|node)", ".*", expr) for name, expr in PANELS.items()}
    tests = {
        "interval": "15s",
        "input_series": input_series(series),
        "promql_expr_test": [{"expr": expr, "eval_time": "6m", "exp_samples": []} for expr in exprs.values()],
    }
    folder.mkdir()
    done = tried(folder, FILE.read_text(), [tests])
    said = done.stdout + done.stderr
    assert "parse error" not in said, said
    got = re.findall(r'expr: (".*"), time: 6m,\s+exp: nil\s+got: (.*)', said)
    by_expr = {json.loads(expr): found for expr, found in got}
    assert by_expr.keys() <= set(exprs.values()), said
    return {name: by_expr.get(expr, "") for name, expr in exprs.items()}


@pytest.mark.needs("promtool")
def test_each_panel_has_data_and_shows_a_sick_cluster_otherwise(tmp_path: Path) -> None:
    """So each expression is one of Prometheus', too."""
    healthy, ill = answers(tmp_path / "a", SHOWN), answers(tmp_path / "b", sick())

    # Without a fault there is nothing to show.
    assert {"prelaunch-fleet: Alerts that fire A"} == {name for name, said in healthy.items() if not said}
    assert DECLARED == {name for name, said in ill.items() if said == healthy[name]}
