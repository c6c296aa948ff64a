"""What the store of a run that was followed from elsewhere keeps of it, where this machine can read that store."""

from __future__ import annotations

from checks.decode import DecodeError
from checks.model import Report
from checks.report import digest, load
from tasks.announced import Announced
from tasks.kept import report_key
from tasks.store.base import Store, StoreError
from tasks.store.opening import open_store


def kept_report(said: Announced) -> tuple[Report | None, str]:
    """The report that the verdict is of, or why there is none: a table then has no nodes."""
    if said.verdict is None:
        return None, ""
    where = f"the report in {said.store} cannot be shown from here"
    try:
        data = _store(said).get(_reported(said))
        if data is None:
            return None, f"{where}: this machine does not see it"
        if digest(data) != said.verdict.digests.report:
            return None, f"{where}: it is another one than was judged"
        return load(data), ""
    except (StoreError, DecodeError) as error:
        return None, f"{where}: {error}"


def kept_text(said: Announced, file: str) -> str | None:
    """A page of the gate, as it was kept; None where it cannot be read from here."""
    try:
        data = _store(said).get(f"gates/{said.gate_id}/{file}")
    except StoreError:
        return None
    return None if data is None else data.decode("utf-8", "replace")


def _store(said: Announced) -> Store:
    return open_store(said.store)


def _reported(said: Announced) -> str:
    return report_key(said.gate_id)
