"""PagerDuty: one incident a culprit, resolved by a go, over HTTP against a service that refuses what PagerDuty refuses."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.gate_file.people import PagerDutyTable
from tasks.notifiers.base import Audience, Link, Notification, NotifierAccess, NotifyError, PageKind, Severity
from tasks.notifiers.pagerduty import Incident, PagerDutyNotifier, Patience, dedup_key, opened, remember
from tests.fakes.pagerduty import Failure, PagerDuty, pagerduty_server
from tests.tasks.notifiers.means import ITEM, means_in, page
from tests.tasks.notifiers.slack.slack_world import ASKED

QUICK = Patience(total_s=3.0, attempt_s=0.4, pause_s=0.02)
FOLDER = "store/incidents/p5"


class Bench:
    """A gate's notifier, and the two services that it calls."""

    def __init__(self, pagerduty: PagerDuty, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.pagerduty, self.folder, self.patch = pagerduty, folder, patch
        self.hardware, self.owners = pagerduty.service(), pagerduty.service()
        patch.setenv("PD_HARDWARE", self.hardware)
        patch.setenv("PD_OWNERS", self.owners)
        hardware, owners = "env:PD_HARDWARE", "env:PD_OWNERS"
        self.table = PagerDutyTable(routing_key=hardware, owner_routing_key=owners, url=pagerduty.url)
        self.means: NotifierAccess = means_in(folder)

    def notifier(self, patience: Patience = QUICK) -> PagerDutyNotifier:
        """A new one, as every page gets."""
        return PagerDutyNotifier(self.table, self.means, patience)

    def send(self, told: Notification, patience: Patience = QUICK) -> str:
        """One page."""
        return self.notifier(patience).send(told)

    def settle(self, kind: PageKind = PageKind.GO) -> str:
        """An end of this kind."""
        return self.notifier().settle(page(kind))

    def keys(self) -> list[str]:
        """The dedup keys of the open incidents, of the hardware's service first."""
        return [i.dedup_key for key in (self.hardware, self.owners) for i in self.pagerduty.open(key)]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Everything new."""
    with pagerduty_server() as pagerduty:
        yield Bench(pagerduty, tmp_path, monkeypatch)


def test_a_refusal_opens_an_incident_that_says_what_to_do(bench: Bench) -> None:
    """Summary, severity and source for the phone; findings, remedy and commands in the details; links to look further."""
    links = (Link("run in Prefect", "https://prefect.test/runs/1"), Link("logs", "/var/store/logs"))
    bench.send(page(severity=Severity.CRITICAL, links=links, failed=("slack: no answer",)))
    (incident,) = bench.pagerduty.open(bench.hardware)
    event, payload = incident.events[0], incident.payload

    assert "prelaunch/p5/node-1" == incident.dedup_key
    known = ("summary", "severity", "source", "component", "group", "class")
    summary, *others = (payload[name] for name in known)
    assert "NO-GO p5-prod: node-1, GPU 5 has 3 uncorrected errors in its memory" == summary
    assert ["critical", "node-1", "gpu.memory", "p5", "refused: HARDWARE"] == others
    assert {
        "coverage": "2 of 2 nodes",
        "training": "was not started",
        "findings": [
            {
                "what": "FAIL HARDWARE: node-1, GPU 5 has 3 uncorrected errors in its memory",
                "remedy": "Replace the GPU.",
                "commands": ["nvidia-smi -q -d ECC -i 5"],
                "evidence": "volatile: 3",
            }
        ],
        "cost": ["launching anyway loses 40 USD"],
        "failed deliveries": ["slack: no answer"],
        "gate": "p5-prod",
        "gate id": "g-1",
        "report": "https://x.test/r.html",
    } == payload["custom_details"]
    shown = [(link["text"], link["href"]) for link in event["links"]]
    assert [("report", "https://x.test/r.html"), ("run in Prefect", "https://prefect.test/runs/1")] == shown


def test_the_same_culprit_again_is_the_same_incident(bench: Bench) -> None:
    """Whichever gate saw it: nobody is called twice. What the store keeps of the routing key is where it stands."""
    bench.send(page())
    bench.send(page(gate_id="g-2"))
    (kept,) = (bench.folder / FOLDER).iterdir()
    text = kept.read_text()

    assert ["prelaunch/p5/node-1"] == bench.keys()
    assert (True, False) == ('"env:PD_HARDWARE"' in text, bench.hardware in text)


def test_a_go_resolves_what_is_open(bench: Bench) -> None:
    """Of either side, if the same gate file opened it; then nothing is left to resolve. Older records do not say which one did."""
    bench.send(page())
    bench.send(page(PageKind.CANNOT_TELL, audience=Audience.OWNER))
    remember(bench.means.store, "p5", Incident(1, "prelaunch/p5/old", "env:PD_HARDWARE", "g-0", "refused"))

    assert "1 incident resolved" == bench.notifier().settle(page(PageKind.GO, gate="another"))
    assert ["prelaunch/p5/node-1", "prelaunch/p5/cannot-tell"] == bench.keys()
    assert "2 incidents resolved" == bench.settle()
    assert ([], {}, "") == (bench.keys(), opened(bench.means.store, "p5"), bench.settle())


def test_an_incident_of_two_gate_files_is_resolved_by_the_last_of_their_gos(bench: Bench) -> None:
    """The first one may have looked at other machines."""
    bench.send(page(gate="another"))
    bench.send(page())

    assert ("", ["prelaunch/p5/node-1"]) == (bench.settle(), bench.keys())
    assert "1 incident resolved" == bench.notifier().settle(page(PageKind.GO, gate="another"))


@pytest.mark.parametrize("kind", [kind for kind in PageKind if kind not in (PageKind.GO, PageKind.TEST)])
def test_no_other_end_resolves_anything(bench: Bench, kind: PageKind) -> None:
    """Not one that observed, nor one that was overridden."""
    bench.send(page())

    assert ("", ["prelaunch/p5/node-1"]) == (bench.settle(kind), bench.keys())


def test_pagerduty_opens_separate_incidents_for_questions_and_overrides(bench: Bench) -> None:
    """A question, an override, and each job's machines, which no GO resolves: it shows nothing of them."""
    bench.send(page())
    bench.send(page(PageKind.QUESTION, culprits=("node-1",), question=ASKED))
    bench.send(page(PageKind.OVERRIDDEN, culprits=("node-1",)))
    opened_here = bench.keys()
    for gate_id in ("g-1-machines", "g-2-machines"):
        bench.send(page(PageKind.MACHINES, gate_id=gate_id, audience=Audience.OWNER))
    machines = [f"prelaunch/p5/machines-still-billed/{gate}-machines" for gate in ("g-1", "g-2")]

    one, other = f"prelaunch/p5/question/g-1/{ASKED.key}", "prelaunch/p5/overridden/g-1"
    assert ["prelaunch/p5/node-1", one, other] == opened_here
    assert "3 incidents resolved" == bench.settle()
    assert machines == [one.dedup_key for one in bench.pagerduty.open(bench.owners)]


@pytest.mark.parametrize("failure", [f for f in Failure if f is not Failure.REDIRECT])
def test_pagerduty_retries_a_passing_failure(bench: Bench, failure: Failure) -> None:
    """Rate limits, errors of the service and lost connections: tried again, and still one incident, when the service says."""
    after_s = 1 if failure is Failure.RATE_LIMIT else 0
    bench.pagerduty.fail(failure, times=2 - after_s, retry_after=str(after_s))
    began = time.monotonic()

    assert "incident prelaunch/p5/node-1" == bench.send(page())
    assert ["prelaunch/p5/node-1"] == bench.keys()
    assert time.monotonic() - began >= after_s


@pytest.mark.parametrize(
    ("failure", "said"), [(Failure.SERVER_ERROR, "HTTP 500"), (Failure.HANG, "ReadTimeout")]
)
def test_pagerduty_gives_up_on_a_lasting_failure_in_time(bench: Bench, failure: Failure, said: str) -> None:
    """The next way has to have its turn; the incident stays noted, since the event may have arrived."""
    bench.pagerduty.fail(failure, times=1000)
    with pytest.raises(NotifyError, match=said):
        bench.send(page(), Patience(0.8, 0.3, 0.05))

    assert 1 == len(opened(bench.means.store, "p5"))


def test_pagerduty_does_not_wait_for_a_late_retry_after(bench: Bench) -> None:
    """There is no use in it: the next way is tried at once."""
    bench.pagerduty.fail(Failure.RATE_LIMIT, times=9, retry_after="600")
    with pytest.raises(NotifyError, match="HTTP 429"):
        bench.send(page())

    assert [429] == bench.pagerduty.answers


def test_a_refusal_is_said_once_and_without_the_key(bench: Bench) -> None:
    """The service repeats the routing key that it does not know."""
    wrong = "0123456789abcdef" * 2
    bench.patch.setenv("PD_HARDWARE", wrong)
    with pytest.raises(NotifyError) as caught:
        bench.send(page())

    assert "Invalid routing key: [removed]" in str(caught.value)
    assert (False, [400]) == (wrong in str(caught.value), bench.pagerduty.answers)


def test_a_redirect_is_not_followed(bench: Bench) -> None:
    """The routing key goes where the gate file says, and nowhere else."""
    bench.pagerduty.fail(Failure.REDIRECT)
    with pytest.raises(NotifyError, match="HTTP 307"):
        bench.send(page())


def test_many_culprits_are_one_incident() -> None:
    """In any order; too many for a key are their digest, and others are another."""
    many = [f"ip-10-0-{number}-7" for number in range(60)]
    key = dedup_key(page(culprits=tuple(many)))

    assert "prelaunch/p5/a,b" == dedup_key(page(culprits=("b", "a")))
    assert key == dedup_key(page(culprits=tuple(reversed(many))))
    assert key != dedup_key(page(culprits=tuple(many[1:])))
    assert key.startswith("prelaunch/p5/60-nodes-") and len(key) <= 255


def test_the_details_are_bounded_and_say_so(bench: Bench) -> None:
    """An event that is too large would be no page."""
    items = tuple(replace(ITEM, evidence="é" * 3000) for _ in range(60))
    bench.send(page(title="x" * 5000, items=items, more_items=7))
    incident = bench.pagerduty.open(bench.hardware)[0]
    summary, details = incident.payload["summary"], incident.payload["custom_details"]
    left = len(details["findings"])

    assert len(json.dumps(incident.events[0]).encode()) <= 256 << 10
    assert summary.endswith("[cut: all of it is in the details]")
    assert f"{60 - left + 7} more are in the report" == details["findings left out"]


def test_an_incident_that_could_not_be_resolved_waits_for_the_next_go(bench: Bench) -> None:
    """What was resolved is struck out, what was not stays and is said."""
    bench.send(page())
    bench.send(page(PageKind.CRASHED))
    bench.pagerduty.fail(Failure.SERVER_ERROR, times=1000)
    with pytest.raises(NotifyError, match="2 incidents are still open"):
        PagerDutyNotifier(bench.table, bench.means, Patience(0.3, 0.2, 0.05)).settle(page(PageKind.GO))
    bench.pagerduty.heal()

    assert ("2 incidents resolved", []) == (bench.settle(), bench.keys())


def test_another_gates_incident_is_left_to_that_gate(bench: Bench) -> None:
    """No variable is read because a file of the store names it."""
    bench.patch.setenv("AWS_SECRET_ACCESS_KEY", "x" * 32)
    other = Incident(1, "prelaunch/p5/node-9", "env:AWS_SECRET_ACCESS_KEY", "g-0", "refused")
    remember(bench.means.store, "p5", other)

    assert "1 left open, because other gates' routing keys opened them" == bench.settle()
    assert ([], 1) == (bench.pagerduty.answers, len(opened(bench.means.store, "p5")))


def test_a_store_that_fails_does_not_silence_the_call(bench: Bench) -> None:
    """The call matters more than its bookkeeping; that no go will resolve it is said, and so is a damaged record."""
    (bench.folder / FOLDER).parent.mkdir(parents=True)
    (bench.folder / FOLDER).write_text("a file where the folder should be")

    assert "could not be recorded, so no GO will resolve it" in bench.send(page())
    assert ["prelaunch/p5/node-1"] == bench.keys()
    (bench.folder / FOLDER).unlink()
    (bench.folder / FOLDER).mkdir()
    (bench.folder / FOLDER / "0.json").write_text("{")
    with pytest.raises(NotifyError, match="by hand"):
        bench.settle()


def test_a_training_that_failed_is_resolved_by_a_training_alone(bench: Bench) -> None:
    """A gate that only checks trains nothing, and says nothing about the training; what checks refused, it resolves."""
    bench.send(page())
    bench.send(page(PageKind.TRAINING_FAILED, audience=Audience.OWNER))

    assert "1 incident resolved" == bench.settle()
    assert ["prelaunch/p5/training-failed"] == bench.keys()
    assert "1 incident resolved" == bench.notifier().settle(page(PageKind.GO, trained=True))
    assert [] == bench.keys()


def test_another_fault_is_another_incident(bench: Bench) -> None:
    """Evidence that is missing of other nodes, or of a check, notifies; the same again is added to its incident."""
    for about in (("node-1",), ("compute.gemm",), ("node-1",), ("node-2", "node-1"), ()):
        bench.send(page(PageKind.CANNOT_TELL, audience=Audience.OWNER, about=about))
    bench.send(page(PageKind.TRAINING_FAILED, audience=Audience.OWNER, about=("node-1",)))

    assert [
        "prelaunch/p5/cannot-tell/node-1",
        "prelaunch/p5/cannot-tell/compute.gemm",
        "prelaunch/p5/cannot-tell/node-1,node-2",
        "prelaunch/p5/cannot-tell",
        "prelaunch/p5/training-failed/node-1",
    ] == bench.keys()
    assert "5 incidents resolved" == bench.notifier().settle(page(PageKind.GO, trained=True))


def test_a_repair_that_needs_a_person_is_over_once_its_nodes_are_proven(bench: Bench) -> None:
    """It is no part of the refusal's incident. A GO of other nodes leaves it open; nodes come back one by one."""
    for culprits in (("node-1",), ("node-2",), ("node-3", "node-4")):
        bench.send(page(PageKind.REPAIR, culprits=culprits))
    bench.send(page(culprits=("node-1",)))
    others = page(PageKind.GO, returned=("node-4", "node-5"))

    assert "1 incident resolved" == bench.notifier().settle(others)
    keys = [f"prelaunch/p5/repair/{nodes}" for nodes in ("node-1", "node-2", "node-3,node-4")]
    assert keys == bench.keys()
    assert "1 incident resolved" == bench.notifier().settle(page(PageKind.REPAIR, returned=("node-1",)))
    assert keys[1:] == bench.keys()
    assert "2 incidents resolved" == bench.notifier().settle(page(PageKind.GO, returned=("node-2", "node-3")))
