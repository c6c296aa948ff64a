"""deployments/prefect.yaml as it is typed in the docs: what a real server holds after it, and what it does to a run.

It is deployed from a folder that has packages of its own by the names of Prelaunch's, which is where it is hardest: `prefect deploy`
and the processes of runs have to use Prelaunch's code there. tests/installation/test_hostile_places.py has a worker as well.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.gate_file.folder import names_in
from tests.installation.hostile import environment, hostile_folder, imported
from tests.world import World

ROOT = Path(__file__).parents[2]
FILE = ROOT / "deployments" / "prefect.yaml"
COMMAND = ("--no-prompt", "deploy", "--all", "--prefect-file")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Somebody's project, with packages called as Prelaunch's are."""
    return hostile_folder(tmp_path_factory.mktemp("deployed") / "project")


def person(world: World, path: str) -> dict[str, str]:
    """The environment of somebody who uses the world's server, with this PYTHONPATH."""
    told = world.environment()
    told.pop("PRELAUNCH_GATES")  # as in a clone: the shipped gate files
    ours = {name: value for name, value in told.items() if name.startswith(("PREFECT_", "PRELAUNCH_"))}
    return environment(path, **ours)


@pytest.fixture(scope="module")
def held(world: World, project: Path) -> dict[str, dict[str, Any]]:
    """What the server holds after `prefect deploy --all`, by "flow/name"."""
    done = subprocess.run(
        (str(Path(sys.executable).with_name("prefect")), *COMMAND, str(FILE)),
        cwd=project, env=person(world, "."), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (0, []) == (done.returncode, imported(project)), done.stdout + done.stderr
    flows = {flow["id"]: flow["name"] for flow in world.api.post("/flows/filter", json={}).json()}
    found = world.api.post("/deployments/filter", json={"limit": 200}).json()
    return {f"{flows[item['flow_id']]}/{item['name']}": item for item in found}


@pytest.fixture(scope="module")
def written() -> list[dict[str, Any]]:
    """The deployments as the file says them, its anchors resolved."""
    found: list[dict[str, Any]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))["deployments"]
    return found


REMEDIES = ("remedy/local-remedy", "remedy/local-remedy-waiting")


def name_of(item: dict[str, Any]) -> str:
    """ "flow/name" of an entry of the file."""
    return f"{item['entrypoint'].rpartition('.')[2]}/{item['name']}"


@pytest.mark.long
def test_the_server_holds_what_the_file_says(
    held: dict[str, dict[str, Any]], written: list[dict[str, Any]], project: Path
) -> None:
    """Every deployment, with its entry point, pool, tags, parameters, environment and the folder that it was deployed from."""
    names = {"gate/local", "gate/local-ci", "commission/weekly", "reap/reap", *REMEDIES}
    assert names == set(map(name_of, written))
    for item in written:
        found = held[name_of(item)]
        assert (item["entrypoint"], "prelaunch") == (found["entrypoint"], found["work_pool_name"])
        assert sorted(item["tags"]) == sorted(found["tags"]) and "prelaunch" in found["tags"]
        assert item.get("parameters", {}) == found["parameters"]
        assert item["work_pool"]["job_variables"] == found["job_variables"]
        assert item["description"] == found["description"]
        step = {"prefect.deployments.steps.set_working_directory": {"directory": str(project)}}
        assert [step] == found["pull_steps"]


@pytest.mark.long
def test_deployment_runs_one_gate_for_each_cluster_and_queues_the_next(
    held: dict[str, dict[str, Any]], written: list[dict[str, Any]]
) -> None:
    """A limit of one, for whatever checks a cluster."""
    for item in written:
        if item["entrypoint"] != "prelaunch.reap":
            found = held[name_of(item)]
            assert 1 == found["global_concurrency_limit"]["limit"], item["name"]
            waits = "schedules" not in item or item["entrypoint"] != "prelaunch.remedy"
            again = "ENQUEUE" if waits else "CANCEL_NEW"
            assert again == found["concurrency_options"]["collision_strategy"]


def test_every_process_says_its_heartbeat_and_tells_nobody(written: list[dict[str, Any]]) -> None:
    """A gate is taken for dead after 90 s of silence: one with Prefect's default of 180 s would be ended alive."""
    for item in written:
        environment = item["work_pool"]["job_variables"]["env"]
        assert ("30", "1") == (environment["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"], environment["DO_NOT_TRACK"])


# What only measures or cleans up may run by itself. A gate launches a training, and a remedy changes machines.
HARMLESS = ("prelaunch.commission", "prelaunch.reap")


def test_no_shipped_schedule_that_can_act_is_active() -> None:
    """Repairs are off until somebody allows them: `prefect deploy` switches nothing on that launches a job or changes a machine."""
    texts = [path.read_text(encoding="utf-8") for path in FILE.parent.rglob("*.y*ml")]
    timed = [text for text in texts if "schedule:" in text or "schedules:" in text or "CronJob" in text]
    documents = [one for text in timed for one in yaml.safe_load_all(text) if one]
    deployed = [item for one in documents if isinstance(one, dict) for item in one.get("deployments", ())]
    scheduled = {item["name"]: item for item in deployed if "schedules" in item or "schedule" in item}
    jobs = [one for one in documents if isinstance(one, dict) and one.get("kind") == "CronJob"]

    assert {"weekly", "local-remedy-waiting"} == set(scheduled)
    times = {name: one["schedules"] for name, one in scheduled.items() if one["entrypoint"] not in HARMLESS}
    active = [name for name, each in times.items() if any(one.get("active", True) for one in each)]
    assert ([], []) == (active, [one["metadata"]["name"] for one in jobs if not one["spec"].get("suspend")])


@pytest.mark.long
@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"gate_file": "/etc/passwd"}, "'/etc/passwd' is not one of"),
        ({"gate_file": "locall"}, "'locall' is not one of"),
        ({"gate_file": "local", "profile": "thorough"}, "'thorough' is not one of"),
        ({"gate_file": "local", "advanced": {"ask_minutes": 1441}}, "1441 is greater than the maximum of 1440"),
        ({"gate_file": "local", "advanced": {"overrides": ["nodes"]}}, "'nodes' does not match"),
        ({"gate_file": "local", "lunch": True}, "Additional properties are not allowed"),
        ({}, "'gate_file' is a required property"),
    ],
)  # fmt: skip
def test_the_server_refuses_what_the_form_does_not_offer(
    world: World, held: dict[str, dict[str, Any]], request_: dict[str, Any], said: str
) -> None:
    """Its answer names the field, and no run is made."""
    answer = world.api.post(
        f"/deployments/{held['gate/local']['id']}/create_flow_run",
        json={"parameters": {"request": request_}, "enforce_parameter_schema": True},
    )

    assert 409 == answer.status_code
    assert said in answer.text and "request" in answer.text


@pytest.mark.long
def test_the_form_offers_the_gate_files_of_the_folder(held: dict[str, dict[str, Any]]) -> None:
    """By name, for a gate and for a commissioning."""
    names = list(names_in(ROOT / "deployments" / "gates"))
    gate = held["gate/local"]["parameter_openapi_schema"]["definitions"]["GateRequest"]["properties"]
    several = held["commission/weekly"]["parameter_openapi_schema"]["definitions"]["CommissionRequest"]

    assert names == gate["gate_file"]["enum"]
    assert names == several["properties"]["gate_files"]["items"]["enum"]


@pytest.mark.long
def test_a_request_round_the_validation_is_rejected_by_the_flow(
    held: dict[str, dict[str, Any]], world_worker: World
) -> None:
    """The form's validation can be switched off; a path is Rejected all the same, by the field's name."""
    answer = world_worker.api.post(
        f"/deployments/{held['gate/local']['id']}/create_flow_run",
        json={
            "parameters": {"request": {"gate_file": str(ROOT / "deployments" / "gates" / "local.toml")}},
            "enforce_parameter_schema": False,
            "job_variables": {"env": {"PRELAUNCH_GATES": str(ROOT / "deployments" / "gates")}},
        },
    )
    ended = world_worker.wait(answer.json()["id"], "Rejected")

    assert ended["state"]["message"].startswith("gate_file: ") and "is a path" in ended["state"]["message"]
