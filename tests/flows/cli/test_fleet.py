"""`prelaunch fleet list`: the answer, the formats, the page, one node, and what cannot be read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.machines.base import Mark, Rung
from tasks.remediation.records import Records
from tasks.store.folder import FolderStore
from tasks.store.layout import act_key, html_key, nodes_key
from tests.fakes.machines import PlayedMachines, serving
from tests.flows.cli.conftest import Run
from tests.sample_reports import healthy, with_metric, wrong_sums
from tests.tasks.kept_gates import FIRST_S, gate_id, keep
from tests.tasks.reports.fleet.test_engine_view import act

ATTACK = "<script>alert(1)</script>\x1b[31m"
GATES = Path(__file__).parents[3] / "deployments" / "gates"
LONG = ("--fresh", "1500")


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands run two months after the gates."""
    monkeypatch.setattr("flows.cli.fleet.time.time", lambda: FIRST_S + 60 * 86400.0)


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    """Three gates of three nodes; node-1 is condemned by the last."""
    made = FolderStore(tmp_path / "store")
    for number in range(3):
        report = healthy(3, 2)
        report = wrong_sums(report, "node-1/rank-3") if number == 2 else report
        keep(made, number, replace(report, measured_at=f"2025-11-{21 + number}T08:00:00Z"))
    return made


def gate_file(folder: Path, store: FolderStore, cluster: str) -> str:
    """The shipped local gate file, with this store and this name of its cluster."""
    text = (GATES / "local.toml").read_text().replace("../", f"{GATES.parent}/")
    text = text.replace('path = ".prelaunch"', f'path = "{store.root}"')
    file = folder / "gate.toml"
    file.write_text(text.replace('name = "local"', f'name = "{cluster}"'))
    return str(file)


def test_the_answer_comes_first_and_a_page_is_written(store: FolderStore, tmp_path: Path, run: Run) -> None:
    """Exit code 1: a node is condemned. The page has the same line, and asks for nothing."""
    page = tmp_path / "fleet.html"
    assert 1 == run("fleet", "list", store.root, *LONG, "--html", page).code
    assert "last report" not in page.read_text(), "no gate kept its page"
    store.put(html_key(gate_id(2)), b"<!doctype html>")

    code, out, err = run("fleet", "list", store.root, *LONG, "--html", page)
    assert (1, "") == (code, err)
    assert out.startswith("2 of 3 nodes proven within 62 days; 1 condemned\n")
    assert ["node-1", "node-0", "node-2"] == [line.split()[0] for line in out.splitlines()[3:6]]
    assert "++X" in out and "FAIL collective.all_reduce" in out
    text = page.read_text()
    assert "2 of 3 nodes proven" in text and text.index("node-1") < text.index("node-0")
    assert "http" not in text.replace("http-equiv", "")
    assert (store.root / "gates" / gate_id(2)).as_uri() in text


def test_a_gate_that_cannot_be_read_is_in_the_first_line(store: FolderStore, run: Run) -> None:
    """And on stderr by name."""
    store.put(nodes_key(gate_id(0)), b"{")

    _, out, err = run("fleet", "list", store.root, *LONG)
    assert "may be incomplete, because 1 record could not be read" in out.splitlines()[0]
    assert f"nodes/{gate_id(0)}.json" in err


def test_hostile_names_are_text(tmp_path: Path, run: Run) -> None:
    """In a terminal and on both pages."""
    made = FolderStore(tmp_path / "store")
    report = healthy(2, 2)
    nodes = tuple(replace(n, identity={**n.identity, "driver": ATTACK}) for n in report.nodes)
    keep(made, 0, replace(report, nodes=nodes), cluster="c")
    keep(made, 1, with_metric(report, "system.clock", "node-0", "synchronised", False), cluster=ATTACK)
    out = run("fleet", "list", made.root, "--html", tmp_path / "f.html").out
    out += run("fleet", "list", made.root, "--node", "node-0", "--html", tmp_path / "n.html").out
    pages = (tmp_path / "f.html").read_text() + (tmp_path / "n.html").read_text()

    assert "alert(1)" in out and "alert(1)" in pages
    assert "<script>alert" not in pages and "\x1b" not in out + pages


def test_fleet_gives_the_reason_of_a_condemnation_after_its_end(store: FolderStore, run: Run) -> None:
    """A later gate measured the check without it: the finding is open no more, and its X still has a reason."""
    keep(store, 3, replace(healthy(3, 2), measured_at="2025-11-24T08:00:00Z"))
    out = run("fleet", "list", store.root, "--node", "node-1", *LONG).out
    (line,) = [line for line in out.splitlines() if line.startswith("  X ")]

    assert "Open findings" not in out and "++X+" in out
    assert ": FAIL node-1, rank 3 computes wrong sums" in line


def test_fleet_of_a_node_shows_gates_findings_and_acts(store: FolderStore, tmp_path: Path, run: Run) -> None:
    """Its gates, its findings, its acts and its page; as JSON with every number."""
    Records(store, "c").create(replace(act(Rung.FENCE, at=1000.0), node="node-1", cluster="c"))

    words = ("fleet", "list", store.root, "--node", "node-1", *LONG)
    code, out, _ = run(*words, "--html", tmp_path / "n.html")
    assert 1 == code
    assert out.startswith("node-1 of cluster c is condemned; proven ")
    assert "Open findings:\n  FAIL HARDWARE collective.all_reduce: node-1, rank 3 computes wrong sums" in out
    assert (
        1 == out.count("No trend can be told")
        and ": 11 gates since the node last changed are needed, and" in out
    )
    assert "Acts:\n" in out and "fence 1" in out
    mark = f"X 2025-11-23T08:00:00Z condemned as node-1 by {gate_id(2)}, quick"
    assert f"{mark}: FAIL node-1, rank 3 computes wrong" in out
    assert "computes wrong sums" in (tmp_path / "n.html").read_text()
    (machine,) = json.loads(run(*words, "--format", "json").out)["nodes"]
    assert ("fenced", 1) == (machine["ours"], len(machine["acts"]))
    assert (3, 3) == (machine["gates"], len(machine["marks"])) and machine["moves"]


def test_an_unknown_node_is_rejected(store: FolderStore, run: Run) -> None:
    """With the command that lists those that are known."""
    lists = f"`prelaunch fleet list {store.root}` lists them"
    for name, message in (("node-7", lists), ("node1", "Did you mean 'node-1'?"), ("no node", "")):
        code, _, err = run("fleet", "list", store.root, "--node", name)
        assert 2 == code and message in err


def test_a_gate_file_means_its_cluster(store: FolderStore, tmp_path: Path, run: Run) -> None:
    """And not the other clusters of its store, which a line says how to see."""
    keep(store, 3, replace(healthy(2, 2), measured_at="2025-11-25T08:00:00Z"), cluster="other")
    file = gate_file(tmp_path, store, "other")

    code, out, err = run("fleet", "list", file, *LONG)
    assert 0 == code and out.startswith("2 of 2 nodes proven")
    assert f"this shows cluster other only. For all clusters name the store: {store.root}" in err
    code, out, _ = run("fleet", "list", file, "--cluster", "c", *LONG)
    assert 1 == code and "2 of 3 nodes proven" in out
    code, out, err = run("fleet", "list", file, "--node", "node-1", *LONG)
    assert (0, 1) == (code, out.count("node-1 of ")) and "name the store" in err
    code, _, err = run("fleet", "list", file, "--node", "node-2")
    message = "no gate of this cluster knows a node 'node-2', and another cluster has it. Name the store."
    assert 2 == code and message in err
    code, out, _ = run("fleet", "list", store.root, "--node", "node-1", *LONG)
    assert (1, 2) == (code, out.count("node-1 of "))


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> PlayedMachines:
    """The engine serves node-0, node-1 and n9, which no gate has tested."""
    machines = serving("node-0", "node-1", "n9")
    monkeypatch.setattr("flows.cli.fleet.engine_of", lambda source: ("c", machines))
    return machines


def test_a_node_that_the_engine_serves_and_that_we_fenced_is_marked(
    store: FolderStore, tmp_path: Path, played: PlayedMachines, run: Run
) -> None:
    """So is one that is missing. Those that no gate has tested are named."""
    Records(store, "c").create(act(Rung.FENCE, node="node-0"))
    Records(store, "c").create(act(Rung.FENCE, node="node-2"))
    file = gate_file(tmp_path, store, "c")

    shown = json.loads(run("fleet", "list", file, *LONG, "--format", "json").out)
    nodes = {node["name"]: (node["ours"], node["differs"]) for node in shown["nodes"]}
    assert ("fenced", "serves") == nodes["node-0"]
    assert ("untouched", "condemned") == nodes["node-1"]
    assert ("fenced", "missing") == nodes["node-2"]
    assert [("n9", "serving")] == [(one["name"], one["engine"]["service"]) for one in shown["untested"]]
    out = run("fleet", "list", file, *LONG).out
    assert "No gate has tested 1 other node: n9" in out and "3 differ from the engine" in out.splitlines()[0]
    assert "serving (idle); DIFFERS: serves jobs, but is condemned" in out and "does not know the node" in out
    assert 3 == run("fleet", "list", file, "--node", "n9").code


def test_old_fences_count_behind_many_pages(
    store: FolderStore, tmp_path: Path, played: PlayedMachines, run: Run
) -> None:
    """A list shows the newest acts alone; where a node is follows from all of them, and `--node` shows all."""
    Records(store, "c").create(act(Rung.FENCE, node="node-0"))
    for number in range(2, 9):
        page = act(Rung.PAGE, at=1000.0 + number, node="node-0")
        Records(store, "c").create(replace(page, number=number, id=f"{page.id}{number}"))
    file = gate_file(tmp_path, store, "c")

    shown = json.loads(run("fleet", "list", file, *LONG, "--format", "json").out)["nodes"]
    (node,) = [node for node in shown if node["name"] == "node-0"]
    assert ("fenced", 5) == (node["ours"], len(node["acts"]))
    out = run("fleet", "list", file, "--node", "node-0").out
    assert "page 8: done" in out and "fence 1: done" in out and "node-1" not in out


def test_a_silent_engine_is_said_and_the_records_are_printed(
    store: FolderStore, tmp_path: Path, played: PlayedMachines, run: Run
) -> None:
    """It is not shown as an engine that knows no node."""
    Records(store, "c").create(act(Rung.FENCE, node="node-0"))
    played.silent = True

    code, out, err = run("fleet", "list", gate_file(tmp_path, store, "c"), "--node", "node-0")
    assert 3 == code and "fence 1: done" in out
    assert "the engine did not answer" in err and "does not know" not in out


def test_an_unreadable_record_is_said_and_the_engine_is_printed(
    store: FolderStore, tmp_path: Path, played: PlayedMachines, run: Run
) -> None:
    """No node looks untouched, and no mark of ours looks forged."""
    store.put(act_key("c", "node-0", "x"), b"{")
    played.fence("node-0", Mark(gate_id(0), "kernel.xid"))

    ended = run("fleet", "list", gate_file(tmp_path, store, "c"), *LONG, "--format", "json")
    nodes = {node["name"]: node for node in json.loads(ended.out)["nodes"]}
    assert ("unread", "out of service") == (nodes["node-0"]["ours"], nodes["node-0"]["engine"]["service"])
    assert nodes["node-0"]["differs"] in (None, "proven")
    assert "the acts of cluster c could not be read" in ended.err


def test_the_engine_of_another_cluster_is_not_asked(
    store: FolderStore, tmp_path: Path, played: PlayedMachines, run: Run
) -> None:
    """Its nodes are none of the cluster that was named."""
    keep(store, 3, replace(healthy(2, 2), measured_at="2025-11-25T08:00:00Z"), cluster="other")
    file = gate_file(tmp_path, store, "c")

    code, out, _ = run("fleet", "list", file, "--cluster", "other", *LONG)
    assert 0 == code and "engine" not in out
    assert "engine" in run("fleet", "list", file, "--cluster", "c", *LONG).out


def test_the_engine_s_nodes_are_listed_before_the_first_gate(
    tmp_path: Path, played: PlayedMachines, run: Run
) -> None:
    """A drill before it needs their names. A node that a silent engine may have is not called unknown."""
    file = gate_file(tmp_path, FolderStore(tmp_path / "new"), "c")

    code, out, _ = run("fleet", "list", file)
    assert 3 == code and "3 other nodes: n9, node-0, node-1" in out
    assert 3 == run("fleet", "list", file, "--node", "n9").code
    played.silent = True
    code, _, err = run("fleet", "list", file, "--node", "n9")
    assert 3 == code and "the engine did not answer" in err and "knows a node" not in err
    for name in ("../n2", "n2\n"):
        assert (2, "") == run("fleet", "list", file, "--node", name)[:2]


def test_a_store_in_the_place_of_a_gate_file_is_said_to_be_a_folder(tmp_path: Path, run: Run) -> None:
    """With what is needed."""
    for words in (("run", tmp_path), ("drill", "xid-74", tmp_path, "--node", "n1")):
        code, _, err = run("repair", *words)
        assert 2 == code and "is a folder. This needs a gate file" in err
