"""Pages about a run itself, to its gate's owner: it died, or nobody began it. Each is sent once a run.

runs/<flow run>/<kind>.json says so. It is claimed before the page and closed after it: who dies in between is followed by
another, and of two that come at once one pages.
"""

from __future__ import annotations

import time

from checks.decode import DecodeError, parse_json
from checks.report import dump_plain
from tasks.deliver import deliver
from tasks.notifiers.base import Audience, Kind, Link, Page, Severity
from tasks.paging import finished
from tasks.places import run_url
from tasks.setting import Setting

# A page takes a minute at most: three ways of 20 s. A claim that is older was left by somebody who died.
CLAIM_S = 120.0


def page_run(
    setting: Setting,
    flow_run_id: str,
    gate_id: str,
    kind: Kind,
    said: str,
) -> str | None:
    """Page the gate's owner, unless it was done for this run. Where it went, "" for nowhere; None where it was done before.

    `gate_id` is "" for a run that never had one. Raises StoreError.
    """
    key = _key(flow_run_id, kind)
    claim = dump_plain({"at": time.time(), "sent": False})
    if not setting.store.put_if_absent(key, claim) and not _left(setting, key, claim):
        return None
    url = run_url(flow_run_id)
    gate = setting.gate
    page = Page(
        gate_id or f"{gate.name}-run-{flow_run_id[:8]}",
        gate.cluster.name,
        f"gate {gate.name}: {said}",
        "",
        "",
        gate=gate.name,
        kind=kind,
        audience=Audience.OWNER,
        severity=Severity.ERROR if kind is Kind.CRASHED else Severity.WARNING,
        facts=(("gate file", setting.file), ("flow run", flow_run_id)),
        links=(Link("run in Prefect", url),) if url else (),
    )
    where = deliver(setting, finished(page, said)).where
    setting.store.put(key, dump_plain({"at": time.time(), "sent": bool(where)}))
    return where


def _left(setting: Setting, key: str, claim: bytes) -> bool:
    """Whether the claim of somebody who died could be taken over."""
    found = setting.store.get(key)
    if found is None:
        return setting.store.put_if_absent(key, claim)
    try:
        table = parse_json(found, 1 << 16)
    except DecodeError:
        return setting.store.replace_if(key, found, claim)
    sent, at = (table.get("sent"), table.get("at")) if isinstance(table, dict) else (False, 0.0)
    stale = not isinstance(at, (int, float)) or time.time() - at > CLAIM_S
    return not sent and stale and setting.store.replace_if(key, found, claim)


def _key(flow_run_id: str, kind: Kind) -> str:
    return f"runs/{flow_run_id}/{kind.value.replace(' ', '_')}.json"
