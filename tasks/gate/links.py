"""Where a person finds more: the run's page in Prefect, and those objects of a store that a browser can open."""

from __future__ import annotations

from tasks.notifiers.base import Link


def run_links(flow_run_id: str) -> tuple[Link, ...]:
    """The link to the run's page, if the server has one."""
    url = run_url(flow_run_id)
    return (Link("run in Prefect", url),) if url else ()


def run_url(flow_run_id: str) -> str:
    """The page of a flow run in Prefect's UI; "" if none is configured or the server has none."""
    from prefect.settings import get_current_settings
    from prefect.utilities.urls import url_for

    settings = get_current_settings()
    if not flow_run_id or settings.ui_url is None or not settings.server.ui.enabled:
        return ""
    return url_for("flow-run", obj_id=flow_run_id) or ""
