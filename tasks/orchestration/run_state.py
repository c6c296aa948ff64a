"""Asks Prefect's server whether the run that a parked lock waits for can still continue."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from tasks.orchestration.server.settings import configured_api_url

LOG = logging.getLogger("prelaunch")


def run_is_final(flow_run_id: str) -> bool:
    """Whether Prefect says that the run has ended, or is to. False if no server is configured, or it does not know: then it may
    come back, and its lock is believed until its time is up.
    """
    if not flow_run_id or not configured_api_url(os.environ, Path.cwd()):
        return False
    import httpx  # only where a lock is parked: half a second, and Prefect another one
    from prefect.client.orchestration import get_client
    from prefect.exceptions import PrefectException

    try:
        with get_client(sync_client=True) as client:
            state = client.read_flow_run(flow_run_id).state  # type: ignore[arg-type]
    except (httpx.HTTPError, PrefectException, OSError, ValueError) as error:
        LOG.warning("it is not known whether flow run %s has ended: %s", flow_run_id, error)
        return False
    return state is not None and (state.is_final() or state.is_cancelling())
