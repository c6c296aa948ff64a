"""What was asked for, kept beside the verdict: gates/<gate id>/request.json, with the reason that somebody gave."""

from __future__ import annotations

import os
from collections.abc import Iterable

from pydantic import ValidationError

from checks.documents.report import dump_plain
from tasks.gate_file.folder import folder_of, is_name, path_of
from tasks.gate_file.model import Gate, Mode
from tasks.gate_file.read import OVERRIDES, GateFileError, OverrideError, read_gate_file
from tasks.gate_file.request import PLACES, Advanced, GateRequest
from tasks.store.base import Store, table_at
from tasks.store.layout import request_key

FILE_BYTES = 1 << 20


def keep_request(store: Store, gate_id: str, request: GateRequest, flow_run_id: str) -> None:
    """Keep the request in the store. Idempotent. Raises StoreError."""
    store.put(request_key(gate_id), dump_plain({"flow_run": flow_run_id, **request.model_dump(mode="json")}))


def kept_request(store: Store, gate_id: str) -> GateRequest | None:
    """The request of a gate; None if none was kept, or one that this version does not read. Raises StoreError."""
    table = table_at(store, request_key(gate_id), FILE_BYTES)
    if table is None:
        return None
    try:
        return GateRequest.model_validate({key: value for key, value in table.items() if key != "flow_run"})
    except ValidationError:
        return None


def require_names(gate_files: Iterable[str], advanced: Advanced | None = None) -> None:
    """A deployment accepts only the names of the folder, also if the form's validation was switched off.

    Its store and baseline are the gate file's: a person who chooses the store also chooses answers, passes and locks.

    Raises GateFileError. Whoever starts a flow in a terminal may name any file that they can read, and so may everybody
    where there is no folder (PRELAUNCH_GATES=).
    """
    path = next((gate_file for gate_file in gate_files if not is_name(gate_file)), None)
    field = next((name for name in PLACES if advanced is not None and getattr(advanced, name)), None)
    folder = folder_of(os.environ)
    if folder is None or (path is None and field is None) or not _is_deployed():
        return
    if path is not None:
        text = f"{path!r:.200} is a path, and a deployment takes the name of a gate file in {folder}"
        raise GateFileError("gate_file", "", text)
    if field is not None:
        text = "cannot be chosen for a deployment: set it in the gate file ([store] path, [policy] baseline)"
        raise GateFileError(field, "", text)


def require_strict_policy(request: GateRequest, gate: Gate) -> None:
    """A deployment whose form may not override a FAIL lets none pass by an override of the policy either. Raises OverrideError."""
    if gate.approval.form_may_override or not request.advanced.overrides:
        return
    own, used = read_gate_file(path_of(request.gate_file)).policy, gate.policy
    looser = {
        "policy.mode": used.mode is Mode.OBSERVE and own.mode is not Mode.OBSERVE,
        "policy.reuse_pass_minutes": used.reuse_pass_minutes > own.reuse_pass_minutes,
    }
    key = next((name for name, is_looser in looser.items() if is_looser), "")
    if key and _is_deployed():
        text = "cannot be loosened for a deployment, unless the gate file says [approval] form_may_override = true"
        raise OverrideError(OVERRIDES, key, text)


def _is_deployed() -> bool:
    """Whether this is a run of a deployment. Prefect asks its server, so it is asked once, and only if it matters."""
    from prefect import runtime

    return bool(runtime.deployment.id)
