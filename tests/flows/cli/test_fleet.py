"""`prelaunch fleet list` and `repair machines`: the answer, the formats, the page, one node, and what cannot be read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from flows.cli import fleet
from flows.cli import machines as command
from tasks.machines.base import Machine, Rung, ServiceState
from tasks.remediation.records import Records
from tasks.reports.store_argument import open_named_store
from tasks.store.folder import FolderStore
from tasks.store.layout import act_key, html_key, nodes_key
from tasks.store.open import open_store
from tests.fakes.machines import PlayedMachines, serving
from tests.flows.cli.conftest import Run
from tests.sample_reports import healthy, with_metric, wrong_sums
from tests.tasks.kept_gates import FIRST_S, gate_id, keep
from tests.tasks.reports.machines.test_rows import act

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
    assert "NOT COMPLETE: 1 record could not be read" in out.splitlines()[0]
    assert f"nodes/{gate_id(0)}.json" in err


def test_a_folder_without_gates_is_rejected(tmp_path: Path, run: Run) -> None:
    """A name that is misspelt is not a fleet without a fault."""
    for words in ((), ("--node", "node-1")):
        code, _, err = run("fleet", "list", tmp_path / "none", *words)
        assert 2 == code and "there are no gate results" in err


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


def test_fleet_gives_the_reason_of_a_condemnation_after_its_finding_closed(
    store: FolderStore, run: Run
) -> None:
    """A later gate measured the check without it: the finding is open no more, and its X still has a reason."""
    keep(store, 3, replace(healthy(3, 2), measured_at="2025-11-24T08:00:00Z"))
    out = run("fleet", "list", store.root, "--node", "node-1", *LONG).out
    (line,) = [line for line in out.splitlines() if line.startswith("  X ")]

    assert "Open findings" not in out and "++X+" in out
    assert ": FAIL node-1, rank 3 computes wrong sums" in line


def test_fleet_of_one_node_shows_gates_findings_and_acts(
    store: FolderStore, tmp_path: Path, run: Run
) -> None:
    """Its gates, its findings, its acts and its page; as JSON with every number."""
    Records(store, "c").create(replace(act(Rung.FENCE, at=1000.0), node="node-1", cluster="c"))

    words = ("fleet", "list", store.root, "--node", "node-1", *LONG)
    code, out, _ = run(*words, "--html", tmp_path / "n.html")
    assert 1 == code
    assert out.startswith("node-1 of c: condemned; proven ")
    assert "Open findings:\n  FAIL HARDWARE collective.all_reduce: node-1, rank 3 computes wrong sums" in out
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
    assert f"cluster other alone; name its store for all clusters: {store.root}" in err
    code, out, _ = run("fleet", "list", file, "--cluster", "c", *LONG)
    assert 1 == code and "2 of 3 nodes proven" in out
    code, out, err = run("fleet", "list", file, "--node", "node-1", *LONG)
    assert (0, 1) == (code, out.count("node-1 of ")) and "name its store" in err
    code, _, err = run("fleet", "list", file, "--node", "node-2")
    message = "no gate of this cluster knows a node 'node-2', and another cluster has it. Name the store."
    assert 2 == code and message in err
    code, out, _ = run("fleet", "list", store.root, "--node", "node-1", *LONG)
    assert (1, 2) == (code, out.count("node-1 of "))


def test_the_scheduler_of_a_gate_file_is_asked(
    store: FolderStore, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its word is beside ours, and a contradiction is marked; one that does not answer is said."""
    file = gate_file(tmp_path, store, "c")
    played = PlayedMachines({name: Machine(name, ServiceState.SERVING) for name in ("node-0", "node-1")})
    assert None is fleet.engine_of(open_named_store(file))
    monkeypatch.setattr("flows.cli.fleet.engine_of", lambda argument: ("c", played))

    code, out, _ = run("fleet", "list", file, *LONG)
    assert 1 == code
    assert "1 differs from the scheduler" in out.splitlines()[0]
    assert "serving; DIFFERS: serves jobs, but is condemned" in out and "does not know the node" in out


def test_a_digest_is_sent_through_the_notifiers_of_a_gate_file(
    store: FolderStore, tmp_path: Path, run: Run
) -> None:
    """The exit code is the fleet's; a store alone has no notifiers."""
    code, _, err = run("fleet", "list", gate_file(tmp_path, store, "c"), "--notify", *LONG)
    assert 1 == code and "prelaunch: told: " in err
    assert any("fleet-c-" in key for key in store.list("pages"))
    code, _, err = run("fleet", "list", store.root, "--notify")
    assert 2 == code and "it needs a gate file as STORE" in err


def test_a_cluster_without_a_gate_does_not_use_up_the_digest_of_the_week(
    store: FolderStore, tmp_path: Path, run: Run
) -> None:
    """Nothing is sent, and it is said."""
    code, _, err = run("fleet", "list", gate_file(tmp_path, store, "new"), "--notify", *LONG)
    assert 3 == code and "nothing was sent: no gate of this cluster has named a node yet" in err
    assert not any("fleet-new-" in key for key in store.list("pages"))


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> PlayedMachines:
    """n1 and n2, which serve."""
    machines = serving("n1", "n2")
    monkeypatch.setattr(command, "machines_of", lambda gate: machines)
    return machines


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A gate file with a store of its own."""
    return Path(gate_file(tmp_path, FolderStore(tmp_path / "store"), "c"))


def keep_acts(folder: Path, *rungs: Rung) -> None:
    """Records of acts on n2."""
    for index, rung in enumerate(rungs):
        Records(open_store(str(folder / "store")), "c").create(act(rung, at=1000.0 + index))


def test_engine_and_records_are_one_table(gate: Path, played: PlayedMachines, run: Run) -> None:
    """A node that the engine serves and that we fenced is marked."""
    keep_acts(gate.parent, Rung.FENCE)

    code, out, _ = run("repair", "machines", gate, "--format", "json")
    rows = {row["node"]: row for row in json.loads(out)["machines"]}
    assert (0, "untouched", None) == (code, rows["n1"]["ours"], rows["n1"]["disagreement"])
    known = tuple(rows["n2"][key] for key in ("ours", "disagreement", "last_act"))
    assert ("fenced", "serves", "fence 1") == known
    code, out, _ = run("repair", "machines", gate)
    assert 0 == code and "serves, but is fenced by us" in out


def test_a_silent_engine_is_said_and_the_records_are_printed(
    gate: Path, played: PlayedMachines, run: Run
) -> None:
    """With exit code 3."""
    keep_acts(gate.parent, Rung.FENCE)
    played.silent = True

    code, out, err = run("repair", "machines", gate)
    assert 3 == code and "fenced (fence 1 done)" in out
    assert "the engine did not answer" in err
    code, out, _ = run("repair", "machines", gate, "--format", "json")
    (machine,) = json.loads(out)["machines"]
    assert (3, False) == (code, json.loads(out)["answered"])
    assert ("n2", None) == (machine["node"], machine["engine"])


@pytest.mark.usefixtures("played")
def test_an_unreadable_record_is_said_and_the_engine_is_printed(gate: Path, run: Run) -> None:
    """With exit code 3, and no node that looks untouched."""
    open_store(str(gate.parent / "store")).put(act_key("c", "n2", "x"), b"{")

    code, out, err = run("repair", "machines", gate)
    assert 3 == code and "untouched" not in out
    assert "cannot be read" in err


def test_machines_command_lists_the_acts_of_one_node(gate: Path, played: PlayedMachines, run: Run) -> None:
    """And no other node's."""
    keep_acts(gate.parent, Rung.FENCE, Rung.RECHECK, Rung.RETURN)

    code, text, _ = run("repair", "machines", gate, "--node", "n2")
    acts = [line[21:].partition(" at ")[0] for line in text.splitlines() if " at 1970" in line]
    assert (0, ["fence 1: done", "recheck 1: done", "return 1: done"]) == (code, acts)
    assert "n1" not in text
    code, out, _ = run("repair", "machines", gate, "--node", "n2", "--format", "json")
    assert (0, 3) == (code, len(json.loads(out)["records"]))


def test_a_gate_file_that_names_no_engine_is_told_so(gate: Path, run: Run) -> None:
    """The nodes of its cluster may be many, and none of them is listed."""
    code, out, err = run("repair", "machines", gate)
    assert (0, "No machine is known.\n") == (code, out) and "`prelaunch fleet list`" in err


@pytest.mark.parametrize("verb", ["machines", "run"])
def test_a_store_in_the_place_of_a_gate_file_is_said_to_be_a_folder(
    tmp_path: Path, verb: str, run: Run
) -> None:
    """With what is needed."""
    code, _, err = run("repair", verb, tmp_path)
    assert 2 == code and "is a folder. This needs a gate file" in err


@pytest.mark.parametrize("words", [["--node", "n9"], ["--node", "../n2"], ["--node", "n2\n"]])
@pytest.mark.usefixtures("played")
def test_a_node_that_is_none_is_rejected(gate: Path, words: list[str], run: Run) -> None:
    """With exit code 2."""
    assert (2, "") == run("repair", "machines", gate, *words)[:2]
