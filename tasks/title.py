"""What a flow run is called."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from tasks.gatefolder import path_of
from tasks.gateread import GateFileError, read
from tasks.request import GateRequest


def run_title(parameters: Mapping[str, object]) -> str:
    """ "gate local: 2 nodes, quick"; "gate" for a request that the flow is going to reject."""
    try:
        request = GateRequest.model_validate(parameters.get("request"))
        return read(path_of(request.gate_file), request.sets).title
    except (ValidationError, GateFileError):
        return "gate"
