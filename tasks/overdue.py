"""Waiting runs seen from outside: one whose time is up, and one that was ended in Prefect."""

from __future__ import annotations

import logging
import time

from prefect.client.orchestration import get_client
from pydantic import ValidationError

from checks.decode import DecodeError, parse_json
from checks.model import SCHEMA_VERSION
from checks.report import digest, dump_plain, load
from tasks import lease as leases
from tasks.ending import refused, summary
from tasks.gateread import GateFileError
from tasks.judge import judged as judge_again
from tasks.keeper import Keeper
from tasks.kept import report_key
from tasks.lease import Asking, Held, Lease
from tasks.outcome import Ending, Outcome
from tasks.page import send
from tasks.parked import run_over
from tasks.publish import Published
from tasks.question import Action, Answer, Via, nobody, read_question
from tasks.request import GateRequest
from tasks.requested import request_key
from tasks.session import Session, cancel_jobs
from tasks.setting import Setting, open_setting

LOG = logging.getLogger("prelaunch")
ENDED = "its run was ended in Prefect while it waited for a person"
# What the server's own rules ask of the form.
NOBODY = {"action": "block", "reason": "", "approver": "nobody"}


def wake(setting: Setting, flow_run_id: str) -> str:
    """End a question whose time is up, or whose run was ended in Prefect; returns what was done, "" for nothing. Idempotent.

    A run that still waits is resumed, so that it ends itself: an answer in time that did not reach it stands. One that has
    ended in Prefect is closed here: its jobs are ended, its lease is given back, its outcome kept and paged. Raises
    LaunchError, LeaseError, StoreError, and what Prefect's client raises where the server does not answer.
    """
    held = leases.of_run(setting.store, flow_run_id)
    if held is None or held.lease.asking is None:
        return ""
    done, asking = "", held.lease.asking
    if time.time() > asking.deadline and _resume(flow_run_id):
        done = "resumed, to be refused: nobody answered in time"
    if run_over(flow_run_id):
        cancel_jobs(held.lease)
        close(setting, held.lease)
        leases.release(setting.store, held)
        done = "its run had ended: its jobs are ended, the cluster is free"
    return done


def _resume(flow_run_id: str) -> bool:
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(flow_run_id).state  # type: ignore[arg-type]
        if state is None or not state.is_paused():
            return False
        said = client.resume_flow_run(flow_run_id, run_input=NOBODY)  # type: ignore[arg-type]
        return said.state is not None and not said.state.is_final()


def close(setting: Setting, lease: Lease, why: str = ENDED) -> None:
    """Keep and page how a gate ended that waits no longer: refused. Its own request says which gate that was. Idempotent."""
    if lease.asking is None or setting.store.get(f"gates/{lease.gate_id}/outcome.json") is not None:
        return
    own = _own(setting, lease)
    session = Session(own, Keeper(own.store, Held(lease, b"")))
    outcome = _outcome(session, lease.asking, why)
    send(session, outcome)
    setting.store.put(f"gates/{lease.gate_id}/outcome.json", dump_plain(summary(outcome)))


def _own(setting: Setting, lease: Lease) -> Setting:
    data = setting.store.get(request_key(lease.gate_id))
    try:
        table = parse_json(data or b"{}", 1 << 20)
        wanted = (
            {key: value for key, value in table.items() if key != "flow_run"}
            if isinstance(table, dict)
            else {}
        )
        return open_setting(GateRequest.model_validate(wanted))
    except (GateFileError, DecodeError, ValidationError) as error:
        LOG.warning("the gate file of %s cannot be read again: %s", lease.gate_id, error)
        return setting


def _outcome(session: Session, asking: Asking, why: str) -> Outcome:
    store, gate_id = session.setting.store, session.gate_id
    session.answer = _nobody(session, asking, why)
    try:
        data = store.get(report_key(gate_id)) or b""
        judged = judge_again(session, load(data), digest(data))
    except DecodeError as error:
        LOG.warning("the report of %s cannot be read: %s", gate_id, error)
        return Outcome(
            gate_id, Ending.VERDICT, None, None, None, session.answer.reason, answer=session.answer
        )
    kept = Published(store.place(report_key(gate_id)), store.place(f"gates/{gate_id}/report.html"))
    return refused(session, judged, kept, session.answer)


def _nobody(session: Session, asking: Asking, why: str) -> Answer:
    now = time.time()
    question = read_question(session.setting.store, session.gate_id, asking.key)
    if question is not None and now > asking.deadline:
        return nobody(question, now)
    return Answer(
        SCHEMA_VERSION, session.gate_id, asking.key, Action.BLOCK, "nobody", Via.NOBODY, False, why, now
    )
