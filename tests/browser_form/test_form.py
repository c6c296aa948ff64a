"""The form of a deployment as a person meets it: it can be filled without a manual, and says what is wrong beside the field."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.reader import chromium
from tests.browser_form.pages import choose, field, form_of, page_of, shot, start, submit
from tests.flows.commissioning import write_cluster
from tests.world import World, a_world

pytestmark = [pytest.mark.browser, pytest.mark.needs("chromium"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def gates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clusters: the nodes of p5-prod calculate wrongly, those of p5-old are worth a question, those of p5-mute say nothing."""
    folder = tmp_path_factory.mktemp("gates")
    write_cluster(folder, "p5-mute", "silent")
    write_cluster(folder, "p5-old", "warn", on_warn="ask")
    write_cluster(folder, "p5-prod", "wrong")
    write_cluster(folder, "p5-test")
    return folder


@pytest.fixture(scope="module")
def served(world_cache: Path, gates: Path) -> Iterator[World]:
    """A server whose pages speak to it, and a worker that knows the gate files."""
    with (
        pytest.MonkeyPatch.context() as patch,
        a_world(world_cache) as world,
        world.worker(PRELAUNCH_GATES=str(gates)),
    ):
        patch.setenv("PRELAUNCH_GATES", str(gates))
        yield world


@pytest.fixture(scope="module")
def deployments(served: World) -> dict[str, str]:
    """By flow: the gate for people, and the commissioning."""
    gate, both = {"request": {"gate_file": "p5-prod"}}, {"request": {"gate_files": ["p5-prod", "p5-test"]}}
    return {
        "gate": served.deploy("flows/gate.py:gate", "p5-prod", parameters=gate, tags=["prelaunch"]),
        "commission": served.deploy("flows/commission.py:commission", "weekly", parameters=both),
    }


@pytest.fixture(scope="module")
def browser(deployments: dict[str, str]) -> Iterator[Browser]:
    """One for the file. It runs an event loop in this thread, in which nothing can be deployed any more."""
    with chromium() as made:
        yield made


@pytest.mark.long
def test_wrong_values_are_told_beside_their_fields_and_right_ones_start_a_gate_that_refuses(
    served: World, deployments: dict[str, str], browser: Browser
) -> None:
    """No run is made of a form with an error; the run of the mended form is Refused, and its page names the node."""
    before = served.api.post("/flow_runs/count", json={}).json()
    with form_of(browser, served, deployments["gate"]) as page:
        shot(page, "form")
        wait, overrides = field(page, "Wait for approval (minutes)"), field(page, "Overrides")
        wait.locator("input").fill("9999")
        overrides.get_by_role("button", name="Add item").click()
        overrides.locator("textarea").fill("nodes")
        submit(page)
        expect(wait.get_by_text("9999 is greater than the maximum of 1440")).to_be_visible()
        expect(overrides.get_by_text("'nodes' does not match")).to_be_visible()
        shot(page, "form-invalid")
        assert before == served.api.post("/flow_runs/count", json={}).json()

        wait.locator("input").fill("30")
        overrides.locator("textarea").fill("training.max_runtime_minutes=1")
        field(page, "Why this run").locator("textarea").fill("node-1 came back from repair")
        run = start(page)
    ended = served.wait(run, "Refused")

    assert "node-1 came back from repair" == ended["parameters"]["request"]["reason"]
    with page_of(browser, served, f"/runs/flow-run/{run}", 900) as page:
        expect(page.get_by_text("Refused").first).to_be_visible()
        expect(page.get_by_text("NO-GO p5-prod").first).to_be_visible()
        shot(page, "run-no-go")


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "state", "said"),
    [("p5-test", "Launched", "GO p5-test"), ("p5-mute", "CannotTell", "CANNOT TELL p5-mute")],
)
def test_the_page_of_a_run_says_how_it_ended(
    served: World, deployments: dict[str, str], browser: Browser, name: str, state: str, said: str
) -> None:
    """In the badge, and in the first line of its verdict's own page."""
    with form_of(browser, served, deployments["gate"]) as page:
        choose(page, "Gate file", name)
        run = start(page)
    served.wait(run, state)
    with page_of(browser, served, f"/runs/flow-run/{run}", 900) as page:
        expect(page.get_by_text(state).first).to_be_visible()
        shot(page, f"run-{name}")
    found = [item for item in served.artifacts(run) if item["key"] == f"gate-verdict-{name}"]
    # A refusal is published again once nothing was started.
    verdict = max(found, key=lambda item: item["created"])
    with page_of(browser, served, f"/artifacts/artifact/{verdict['id']}", 900) as page:
        expect(page.get_by_text(said).first).to_be_visible()
        shot(page, f"verdict-{name}")


@pytest.mark.long
def test_a_question_is_answered_on_the_run_s_page(
    served: World, deployments: dict[str, str], browser: Browser
) -> None:
    """The findings stand above the form; a refusal ends the run as Refused."""
    with form_of(browser, served, deployments["gate"]) as page:
        choose(page, "Gate file", "p5-old")
        run = start(page)
    served.wait(run, "PAUSED")
    with page_of(browser, served, f"/runs/flow-run/{run}", 1200) as page:
        page.get_by_role("button", name="Resume").first.click()
        dialog = page.locator(".p-modal").last
        expect(dialog.get_by_text("p5-old").first).to_be_visible()
        shot(page, "approval")
        field(dialog, "Why (launch-anyway needs it)").locator("textarea").fill("node-1 is looked at first")
        field(dialog, "Your name (approver)").locator("textarea").fill("Ada")
        shot(page, "approval-filled")
        with page.expect_response(lambda answer: answer.url.endswith("/resume")) as given:
            dialog.get_by_role("button", name="Submit").click()
        assert "ACCEPT" == given.value.json()["status"]
    served.wait(run, "Refused")


@pytest.mark.long
def test_clusters_are_chosen_from_a_list_and_each_has_a_row(
    served: World, deployments: dict[str, str], browser: Browser
) -> None:
    """The commissioning's form holds the two of the deployment; its page has a row for each."""
    with form_of(browser, served, deployments["commission"]) as page:
        choose(page, "Check profile", "quick")
        shot(page, "commission-form")
        run = start(page)
    served.wait(run, "Refused")
    (result,) = [item for item in served.artifacts(run) if item["key"] == "commission-result"]
    with page_of(browser, served, f"/artifacts/artifact/{result['id']}", 700) as page:
        cells = page.get_by_role("row")
        expect(cells.filter(has_text="REFUSED").filter(has_text="p5-prod")).to_be_visible()
        expect(cells.filter(has_text="PASSED").filter(has_text="p5-test")).to_be_visible()
        shot(page, "commission-table")
