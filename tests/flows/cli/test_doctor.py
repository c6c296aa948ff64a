"""`prelaunch doctor`: a healthy machine is exit code 0, what is missing is 2, and what cannot be looked at is never OK.

The secrets of notifiers have to be there, and a test notification has to arrive.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

from flows.cli import doctor
from flows.cli.doctor import look_at_notifiers as looked
from tasks.gate.context import GateContext, open_gate_context
from tasks.gate_file.request import GateRequest
from tasks.launchers.base import Launcher, PreflightCheck, PreflightResult
from tasks.launchers.preflight import ok
from tasks.orchestration.server.server import EmbeddedServer
from tasks.store.base import Store, StoreUnreachable
from tasks.store.folder import FolderStore
from tests.fakes.pagerduty import pagerduty_server
from tests.flows.cli.conftest import Run
from tests.flows.gates import write_gate

ROOT = Path(__file__).resolve().parents[3]
LOCAL = ROOT / "deployments" / "gates" / "local.toml"


def test_a_healthy_machine_is_0_and_nothing_stays(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the shipped gate file of this machine. Prefect's embedded server is started in tests/tasks/orchestration/server."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREFECT_API_URL", "")
    monkeypatch.setattr(doctor, "configured_api_url", lambda *_: None)
    monkeypatch.setattr(doctor, "embedded_server", lambda folder: nullcontext())
    ended = run("doctor", LOCAL, "--format", "json")
    rows = cast("list[dict[str, str]]", ended.document["looks"])

    assert (0, {"OK"}, []) == (ended.code, {row["result"] for row in rows}, list(tmp_path.iterdir())), rows
    subjects = {row["subject"] for row in rows}
    assert {"gate file", "store", "engine local", "notifier log (owner)", "Prefect"} <= subjects


def test_a_configured_server_has_to_answer(
    prefect_backend: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the credentials that are configured; a wrong one is missing, and so is a server that is not there."""
    nobody = "http://127.0.0.1:9/api"
    monkeypatch.setenv("PREFECT_API_URL", prefect_backend.url)
    right = list(doctor._prefect())
    with temporary_settings({PREFECT_API_AUTH_STRING: "prelaunch:wrong"}):
        wrong = list(doctor._prefect())
    monkeypatch.setenv("PREFECT_API_URL", nobody)
    with temporary_settings({PREFECT_API_URL: nobody}):
        absent = list(doctor._prefect())

    assert ["OK", "MISSING", "MISSING"] == words([right[0], *wrong, *absent]), right
    assert "401" in wrong[0].message and "PREFECT_API_URL" in absent[0].remedy


def test_the_work_pool_of_a_gate_s_deployment_needs_a_worker(
    prefect_backend: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A run of it would wait for ever; another gate's pool is not this one's, and without a file all are looked at."""

    async def made(pool: str, gate_file: str, worker: str = "") -> None:
        async with get_client() as client:
            await client.create_work_pool(WorkPoolCreate(name=pool, type="process"))
            flow = await client.create_flow_from_name("gate")
            request = {"request": {"gate_file": gate_file}}
            await client.create_deployment(flow, f"of-{pool}", parameters=request, work_pool_name=pool)
            if worker:
                await client.send_worker_heartbeat(pool, worker, heartbeat_interval_seconds=30)

    here = context(tmp_path)
    own, other = f"own-{tmp_path.name}", f"other-{tmp_path.name}"
    monkeypatch.setenv("PRELAUNCH_GATES", str(tmp_path))
    asyncio.run(made(own, Path(here.file).stem, "one"))
    asyncio.run(made(other, "another.toml"))
    monkeypatch.setenv("PREFECT_API_URL", prefect_backend.url)
    of_file = {line.subject: line for line in doctor._prefect(here)}
    of_all = {line.subject: line for line in doctor._prefect()}

    assert ["OK", "OK"] == words(of_file[name] for name in ("Prefect", f"work pool {own}"))
    assert f"work pool {other}" not in of_file
    lack = of_all[f"work pool {other}"]
    assert ["MISSING"] == words([lack]) and f"gate/of-{other}" in lack.message
    assert lack.remedy.startswith(f"Run: prefect worker start --pool {other} (with the settings")
    assert "secrets and PRELAUNCH_GATES of this shell" in of_file[f"work pool {own}"].message
    assert ["WARNING"] == words([of_all["reap"]]) and f"gate/of-{own}" in of_all["reap"].message


def words(lines: Iterable[PreflightCheck]) -> list[str]:
    """The words that are printed first."""
    return [doctor.LABELS[line.result] for line in lines]


class Silent(FolderStore):
    """Does not answer."""

    def probe(self) -> None:
        """Until the deadline."""
        raise StoreUnreachable("s3://bucket did not answer within 30 s.")


@pytest.mark.parametrize(("kind", "word"), [(FolderStore, "OK"), (Silent, "CANNOT TELL")])
def test_the_store_is_tried_with_a_probe(tmp_path: Path, kind: type[FolderStore], word: str) -> None:
    """In a folder that is there; one that is not is not made."""
    (tmp_path / "old" / "gates").mkdir(parents=True)
    new = list(doctor._store(kind(tmp_path / "new" / "store"), str(tmp_path / "new" / "store")))
    old = list(doctor._store(kind(tmp_path / "old"), str(tmp_path / "old")))

    assert ["OK", word] == words([*new, *old])
    assert not (tmp_path / "new").exists()


def test_a_file_is_no_store(tmp_path: Path) -> None:
    """It is missing, with the remedy of the store itself."""
    (tmp_path / "file").write_text("")
    store = cast(Store, FolderStore(tmp_path / "file"))
    lines = list(doctor._store(store, str(tmp_path / "file")))

    assert ["MISSING"] == words(lines) and "file" in lines[0].text


def context(folder: Path, more: str = "", options: str = "") -> GateContext:
    """The context of a small gate file."""
    path = write_gate(folder, fake=False, options=options)
    path.write_text(path.read_text() + more)
    return open_gate_context(GateRequest(gate_file=str(path)))


@dataclass(frozen=True)
class Engine:
    """Another launcher, with a preflight of its own; all else is the real one's."""

    real: Launcher
    lines: tuple[PreflightCheck, ...]

    def __getattr__(self, name: str) -> object:
        return getattr(self.real, name)

    def preflight(self, plans: object) -> tuple[PreflightCheck, ...]:
        """As it was given."""
        return self.lines


def test_an_engine_that_says_nothing_is_not_ok(tmp_path: Path) -> None:
    """Only of this machine it is known that it says what is wrong alone."""
    here = context(tmp_path)
    cluster = here.gate.cluster.model_copy(update={"launcher": "slurm"})
    elsewhere = replace(here, gate=here.gate.model_copy(update={"cluster": cluster}))
    full = PreflightCheck("nodes", PreflightResult.NO_CAPACITY, "none is free")
    small = PreflightCheck("this machine", PreflightResult.WARNING, "it is small")

    def results(context: GateContext, *lines: PreflightCheck) -> list[str]:
        engine = cast(Launcher, Engine(here.launcher, lines))
        return words(doctor._engine(replace(context, launcher=engine)))

    assert ["OK"] == words(doctor._engine(here))
    assert ["WARNING", "OK"] == results(here, small)
    assert ["CANNOT TELL"] == results(elsewhere) == results(here, full)


def test_a_look_that_fails_is_not_ok(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An error of ours is CANNOT TELL, and the other looks still run."""

    def broken(store: object, address: str, note: str) -> Iterable[PreflightCheck]:
        raise ValueError("boom")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor, "_store", broken)
    monkeypatch.setattr(doctor, "_prefect", lambda context: [ok("Prefect", "is there")])
    parsed = argparse.Namespace(file=None, overrides=[], send_test=False, format="json")
    lines = {line.subject: doctor.LABELS[line.result] for line in doctor._looks(parsed)}

    assert ("CANNOT TELL", "OK") == (lines["the store"], lines["Prefect"])
    assert 3 == doctor.run(parsed)


def test_a_gate_file_that_is_wrong_ends_it(tmp_path: Path, run: Run) -> None:
    """Exit code 2, with the key."""
    (tmp_path / "gate.toml").write_text("name = 1\n")
    ended = run("doctor", tmp_path / "gate.toml", "--format", "json")
    (last,) = cast("list[dict[str, str]]", ended.document["looks"])

    assert (2, "gate file", "MISSING") == (ended.code, last["subject"], last["result"])
    assert "name: " in last["message"]
    end = "\n1 MISSING: do what stands beside MISSING, then run this again.\n"
    assert run("doctor", tmp_path / "gate.toml").out.endswith(end)


def test_doctor_checks_the_gate_file_with_its_overrides(tmp_path: Path) -> None:
    """As `gate` and `plan` do; without a file there is nothing to change."""
    file = str(write_gate(tmp_path))

    def looked(named: str | None, *sets: str) -> PreflightCheck:
        asked = argparse.Namespace(file=named, overrides=list(sets), send_test=False)
        return next(iter(doctor._looks(asked)))

    assert "OK" == words([looked(file, "cluster.declared.nodes=1")])[0]
    assert "Did you mean 'cluster.declared.nodes'?" in looked(file, "nodes=two").message
    assert "--send-test and --set need a gate file" in looked(None, "a.b=1").message


def test_hostile_words_of_a_service_are_inert() -> None:
    """Whatever an engine or a server answers."""
    line = PreflightCheck("\x1b[31m", PreflightResult.WRONG, "\u202e<b>\n" + "x" * 10_000, "\x07")
    text = doctor._text(line)

    assert "\x1b" not in text and "\u202e" not in text and 1 == text.count("\n") and len(text) < 2100


def test_an_example_that_was_not_replaced_is_missing(tmp_path: Path) -> None:
    """With the key and its line."""
    file = context(tmp_path, '\n[approval]\napprovers = ["U012AB3CD"]\n').file
    looks = doctor._looks(argparse.Namespace(file=file, overrides=[], send_test=False))
    of_file, line = next(looks), next(looks)

    assert ["OK", "MISSING"] == words([of_file, line])
    assert line.subject.startswith("approval.approvers[0] (line ")


NOTIFY = """
[notify]
order = ["pagerduty", "log"]
owner = ["log"]
[notify.pagerduty]
routing_key = "{reference}"
url = "{url}"
"""


def test_a_secret_has_to_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the environment, or in a block of a server that is configured; nobody is notified."""
    monkeypatch.setenv("PREFECT_API_URL", "")
    monkeypatch.chdir(tmp_path)
    with pagerduty_server() as pagerduty:
        key = pagerduty.service()
        env = context(tmp_path, NOTIFY.format(reference="env:MY_KEY", url=pagerduty.url))
        log = list(looked(context(tmp_path, '\n[notify]\norder = ["log"]\n'), send_test=False))
        block = context(tmp_path, NOTIFY.format(reference="block:secret/mine", url=pagerduty.url))
        monkeypatch.delenv("MY_KEY", raising=False)
        absent = list(looked(env, send_test=False))
        monkeypatch.setenv("MY_KEY", key)
        there = list(looked(env, send_test=False))
        blocked = list(looked(block, send_test=False))

        assert [] == pagerduty.incidents[key]
    assert ["MISSING", "OK", "OK", "WARNING"] == words(absent) and "MY_KEY is not set" in absent[0].text
    assert (["OK", "OK", "OK", "WARNING"], ["OK", "OK"]) == (words(there), words(log))
    assert ["MISSING", "OK", "OK", "WARNING"] == words(blocked) and "Set PREFECT_API_URL" in blocked[0].remedy


def test_a_test_notification_is_sent_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says that it is a test; a service that refuses it is missing. The store keeps nothing of it."""
    with pagerduty_server() as pagerduty:
        key = pagerduty.service()
        made = context(tmp_path, NOTIFY.format(reference="env:MY_KEY", url=pagerduty.url))
        monkeypatch.setenv("MY_KEY", key)
        sent = list(looked(made, send_test=True))
        monkeypatch.setenv("MY_KEY", "0" * 32)
        refused = list(looked(made, send_test=True))
        (incident,) = pagerduty.incidents[key]

    assert ["OK", "OK", "OK", "WARNING"] == words(sent)
    assert incident.payload["summary"].startswith("TEST test: no action is needed")
    assert ("info", "resolved") == (incident.payload["severity"], incident.status)
    assert incident.dedup_key.startswith("prelaunch/") and "/test/doctor-" in incident.dedup_key
    assert ["MISSING", "OK", "OK", "WARNING"] == words(refused)
    assert not (tmp_path / "store").exists()
