"""What a gate publishes: pages and tables as artifacts, and a trend; none of it decides anything."""

from __future__ import annotations

import asyncio
import logging
import re
from html import unescape
from pathlib import Path

import pytest

from tasks import publish
from tasks.gate.outcome import Decision, JudgedReport
from tasks.orchestration import artifacts
from tasks.render.context import VerdictContext
from tasks.render.remedy_commands import RemedyContext
from tasks.store import node_rows
from tasks.store.folder import FolderStore
from tasks.store.history import known_nodes, listed
from tasks.store.layout import NODES
from tasks.store.node_rows import Standing
from tests.fakes.mlflow import mlflow_server
from tests.flows.driving import gate_it
from tests.flows.fake_engine import Engine
from tests.flows.pools import fake_gate
from tests.sample_reports import healthy, verdict_of, wrong_sums

pytestmark = pytest.mark.usefixtures("without_prefect", "engine")


def test_a_node_s_name_is_no_markup_in_prefect_s_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefect's UI reads every description as Markdown: no picture, link or HTML begins there."""
    name = "node-1 ![x](http://evil.example/p.png) [y](javascript:z) <img src=x> www.evil.example `a` *b* _c_"
    descriptions: list[str] = []

    async def keep(text: str, key: str, description: str) -> None:
        descriptions.append(description)

    monkeypatch.setattr(artifacts, "acreate_markdown_artifact", keep)
    asyncio.run(artifacts.show_markdown("gate-hostile", "", name))

    assert [name] == [unescape(one) for one in descriptions]
    assert not re.search(r"[\[\]<>`*]|://|www\.|\b_", descriptions[0])


def test_the_page_of_a_run_begins_with_what_to_do() -> None:
    """The answer, the commands of the first finding that has any, the report and the gate file; hostile names are text."""
    report = wrong_sums(healthy())
    verdict = verdict_of(report)
    place = RemedyContext("slurm", "p5.48xlarge", "job-1")
    bad = "/srv/<b>[x](http://evil)`\n>/gate.toml"
    judged = JudgedReport(report, verdict, context=VerdictContext(place))
    files = ("/srv/store/a b>/report.html", "/srv/fleet.html")
    page = publish.verdict_page(judged, "p5", files, bad, "login-1<b>")
    top, _, rest = page.partition("## Findings")
    s3, web = (
        publish.verdict_page(judged, "p5", (f"{scheme}://bucket/a b>.html", "/f.html"), bad, "login-1")
        for scheme in ("s3", "https")
    )
    places = [top.index(word) for word in ("**NO-GO p5: ", "```text\n", "Report: ", "Gate file: ")]

    assert sorted(places) == places
    # From the page of a server a browser opens no file, and perhaps on another machine there is none.
    assert "](<" not in top and "(<https://bucket/a%20b%3E.html>)" in web
    assert "(<https://console.aws.amazon.com/s3/object/bucket?prefix=a%20b%3E.html>)" in s3
    assert "(a file of login-1" in top and "<b>" not in top.partition("Gate file: ")[0]
    assert not any(sign in top.partition("Gate file: ")[2].splitlines()[0] for sign in ("<", "[", "`", "://"))
    assert rest


def test_publishing_failures_change_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Trend, page of all nodes, node rows, and a tracking server that is not there: the training is launched, the page
    or the log says what is missing, and the list has the gate all the same.
    """
    for broken in ("publish.node_rows.rows_of", "reports.trend.past_of", "reports.fleet.reading.read_fleet"):
        monkeypatch.setattr(f"tasks.{broken}", lambda *of, **more: 1 / 0)
    path = fake_gate(tmp_path)
    path.write_text(path.read_text() + '\n[mlflow]\nuri = "http://127.0.0.1:9"\n')
    with caplog.at_level(logging.WARNING, "prelaunch"):
        _, outcome = gate_it(path)
    (gate,) = (tmp_path / "store" / "gates").iterdir()
    store = FolderStore(tmp_path / "store")

    assert Decision.LAUNCHED is outcome.decision
    assert not (tmp_path / "store" / "fleet").exists()
    assert "The trend could not be made: ZeroDivisionError" in (gate / "report.html").read_text()
    assert () == store.list(NODES)
    assert [outcome.gate_id] == [one.gate_id for one in listed(store).records]
    assert "the page about the nodes of test was not made" in caplog.text
    for said in ("but not what it says of each node", "but not in MLflow"):
        assert said in caplog.text


def test_refusal_is_kept_for_each_node_and_shown_on_the_fleet_page(tmp_path: Path, engine: Engine) -> None:
    """In the store; in the list of gates; and on the page of all nodes, which leads to the gate's page, and that one to it.

    In MLflow the report is logged under the gate's id.
    """
    engine.parts = ["wrong"]
    path = fake_gate(tmp_path)
    with mlflow_server() as server:
        table = f'\n[mlflow]\nuri = "{server.uri}"\nexperiment_name = "gates"\n'
        path.write_text(path.read_text() + table)
        _, outcome = gate_it(path)
    (run,) = server.runs
    store = FolderStore(tmp_path / "store")
    (found,) = listed(store).records
    (rows,), gate_id = known_nodes(store).gates, found.gate_id
    page = (tmp_path / "store" / "fleet" / "test.html").read_text()

    assert Decision.REFUSED is outcome.decision
    assert rows == node_rows.read(store, gate_id) and rows.cluster == "test"
    assert {"node-1"} == {row.node for row in rows.nodes if row.standing is Standing.CONDEMNED}
    assert ("node-1",) == found.condemned and found.finding.startswith("FAIL node-1, rank 3 computes wrong")
    assert "1 of 2 nodes proven within 24 h; 1 condemned" in page
    assert f'href="../gates/{gate_id}/report.html"' in page
    (gate,) = (tmp_path / "store" / "gates").iterdir()
    assert '<a href="../../fleet/test.html">All nodes</a>' in (gate / "report.html").read_text()
    assert {"prelaunch_gate_id": gate_id, "prelaunch_answer": "no_go"}.items() <= run.params.items()
    assert "FINISHED" == run.status
    assert {"gates"} == set(server.experiments)
