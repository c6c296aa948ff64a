"""The store that a command line names: a folder, s3://bucket/prefix, or the gate file that says which.

Raises InputError for what is no store; StoreError and IndexFailed are the store's and the index's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tasks.gateread import GateFileError, read
from tasks.inputs import InputError
from tasks.store.base import BadAddress, Store
from tasks.store.index import FILE, Index
from tasks.store.opening import absolute, is_remote, open_store

DEFAULT = ".prelaunch"
URL_VARIABLE = "PRELAUNCH_INDEX"


@dataclass(frozen=True)
class Named:
    """A store, its address, and where its index lies."""

    address: str
    store: Store
    url: str
    local: Path

    def index(self) -> Index:
        """The index. Raises IndexFailed."""
        return Index(self.url, self.local / FILE)


def named(argument: str, environment: Mapping[str, str]) -> Named:
    """The store that `argument` names; PRELAUNCH_INDEX is the index's URL where no gate file says it. Raises InputError."""
    url, work = environment.get(URL_VARIABLE, ""), ""
    address = argument
    if argument.endswith(".toml"):
        try:
            table = read(Path(argument)).store
        except GateFileError as error:
            raise InputError(error.file, error.message, error.path, error.nearest) from error
        address, url, work = table.path, table.index or url, table.work
    try:
        where = absolute(address)
        store = open_store(where)
        local = Path(work or (DEFAULT if is_remote(where) else where)).expanduser().absolute()
    except BadAddress as error:
        raise InputError("STORE", str(error)) from error
    return Named(where, store, url, local)


def require_kept(name: Named) -> None:
    """Raise InputError for a store without a gate: a name that is misspelt is not a history without a fault."""
    if not name.store.list("records") and not name.store.list("gates"):
        said = "it keeps no gate. Name the folder of a store, s3://bucket/prefix, or the gate file that says which."
        raise InputError(name.address, said)
