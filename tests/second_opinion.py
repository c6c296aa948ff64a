"""Reports in the format of brunopistone/sagemaker-training-jobs-cluster-health-check, written here, and ways to spoil them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

RECORDINGS = Path(__file__).parent / "recordings"
HEALTHY = RECORDINGS / "second_opinion" / "p5_two_nodes.json"
# A report is JSON of any depth: a test takes it apart by its keys.
Document = dict[str, Any]


def healthy() -> Document:
    """Two healthy p5.48xlarge."""
    return recorded(HEALTHY.name)


def recorded(name: str) -> Document:
    """One of the recordings."""
    found = json.loads((RECORDINGS / "second_opinion" / name).read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def spoilt(change: Callable[[Document], object], of: Document | None = None) -> Document:
    """A healthy report (or `of`) with the change made to it."""
    made = copy.deepcopy(of or healthy())
    change(made)
    return made


def at(document: Document, path: str) -> Document:
    """The table at a dotted path."""
    for key in path.split("."):
        document = document[key]
    return document


def put(path: str, value: object) -> Callable[[Document], object]:
    """A change: the value at a dotted path."""
    table, _, key = path.rpartition(".")
    return lambda document: (at(document, table) if table else document).update({key: value})


def without(path: str) -> Callable[[Document], object]:
    """A change: what stands at a dotted path is gone."""
    table, _, key = path.rpartition(".")
    return lambda document: (at(document, table) if table else document).pop(key)


def table_of(*rows: str) -> str:
    """The healthy table of dcgmi diag -r 3 with its Targeted Power row as given: "Pass - All", or several rows."""
    whole = at(healthy(), "nodes.node_0.dcgm.diagnostics.extended")["raw_output"]
    first, *more = rows
    lines = [f"| Targeted Power            | {first:<47}|", *(f"|{'':27}| {row:<47}|" for row in more)]
    former = next(line for line in str(whole).splitlines() if "Targeted Power" in line)
    return str(whole).replace(former, "\n".join(lines))


def diagnosed(node: int, raw: str, **more: object) -> Callable[[Document], object]:
    """A change: what `dcgmi diag -r 3` printed on a node, with the tool's own flags beside it."""
    path = f"nodes.node_{node}.dcgm.diagnostics.extended"
    return lambda document: at(document, path).update({"raw_output": raw, "stdout": raw, **more})


def four_nodes() -> Document:
    """Four p5, of which the tool's one server of fi_pingpong measured the first two."""
    made = healthy()
    made["cluster_info"]["cluster_topology"]["total_nodes"] = 4
    for rank in (2, 3):
        node = copy.deepcopy(made["nodes"]["node_1"])
        node["node_info"].update(host_rank=rank, rank=8 * rank)
        node["node_info"].update(hostname=f"ip-10-0-1-{rank}", current_host=f"algo-{rank + 1}")
        failed = {"success": False, "raw_output": "fi_eq_sread: Connection refused"}
        node["network"]["efa_communication_test"].update(failed)
        made["nodes"][f"node_{rank}"] = node
    for node in made["nodes"].values():
        at(node, "nccl.communication_tests.distributed_all_reduce")["processes_tested"] = 32
        node["node_info"]["world_size"] = 32
    return made


def raw_outputs(value: object, path: str = "") -> list[str]:
    """The dotted paths of every raw_output."""
    if not isinstance(value, dict):
        return []
    own = [f"{path}.raw_output".lstrip(".")] if "raw_output" in value else []
    inner = (raw_outputs(item, f"{path}.{key}".lstrip(".")) for key, item in value.items())
    return own + [each for found in inner for each in found]
