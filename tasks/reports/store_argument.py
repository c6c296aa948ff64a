"""The store that a command line names: a folder, s3://bucket/prefix, or the gate file that names the store.

Raises InputError if it names no store; StoreError and IndexFailed are errors of the store and of the index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tasks.gate_file.read import GateFileError, read_gate_file
from tasks.reports.read import InputError
from tasks.store.base import BadAddress, Store
from tasks.store.index import FILE, Index
from tasks.store.layout import GATES, RECORDS
from tasks.store.open import absolute, is_remote, open_store

DEFAULT = ".prelaunch"
URL_VARIABLE = "PRELAUNCH_INDEX"


@dataclass(frozen=True)
class NamedStore:
    """A store, its address, and where its index lies."""

    address: str
    store: Store
    url: str
    local: Path

    def index(self) -> Index:
        """The index. Raises IndexFailed."""
        return Index(self.url, self.local / FILE)


def open_named_store(argument: str, environment: Mapping[str, str]) -> NamedStore:
    """The store that `argument` names; PRELAUNCH_INDEX is the index's URL where no gate file says it. Raises InputError."""
    url, work = environment.get(URL_VARIABLE, ""), ""
    address = argument
    if argument.endswith(".toml"):
        try:
            table = read_gate_file(Path(argument)).store
        except GateFileError as error:
            raise InputError(error.file, error.message, error.path, error.nearest) from error
        address, url, work = table.path, table.index or url, table.work
    try:
        where = absolute(address)
        store = open_store(where)
        local = Path(work or (DEFAULT if is_remote(where) else where)).expanduser().absolute()
    except BadAddress as error:
        raise InputError("STORE", str(error)) from error
    return NamedStore(where, store, url, local)


def require_gates(name: NamedStore) -> None:
    """Raise InputError for a store without a gate: a name that is misspelt is not a history without a fault."""
    if not name.store.list(RECORDS) and not name.store.list(GATES):
        said = "there are no gate results in it. Name the folder of a store, s3://bucket/prefix, or a gate file that names its store."
        raise InputError(name.address, said)
