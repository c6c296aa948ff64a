"""The store that a command line names: a folder, s3://bucket/prefix, or the gate file that names the store.

A gate file, or its name, stands for the gates of its own cluster, and the address of its store for those of all clusters; --cluster
chooses another one (`chosen_cluster`). Commands that read reports take a store in the place of its reports (`inputs_of`); those
that judge single reports take the id of a gate (`report_named`).

Raises InputError if it names no store; StoreError is an error of the store.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from checks.command_line import InputError
from checks.documents.nearest import nearest
from checks.value_types import DecodeError
from tasks.gate_file.folder import is_name, missing_name, typed_path
from tasks.reports.read import DEFAULT, policy_of, read_input
from tasks.store import records
from tasks.store.base import BadAddress, Store
from tasks.store.history import kept_gates, known_nodes, listed
from tasks.store.layout import GATES, RECORDS, REPORT_FILE, report_key
from tasks.store.open import absolute, is_remote, open_store
from tasks.store.records import is_gate_id

if TYPE_CHECKING:
    from tasks.gate_file.model import Gate

ID_FORM = re.compile("[a-z0-9][a-z0-9-]{0,200}")
NEWEST = 3  # of so many gates the ids are named, where another one is not there
NAME_STORE = f"--store STORE names another store (default {DEFAULT})."


class NoReports(InputError):
    """There is such a folder or store, and it holds nothing yet."""


@dataclass(frozen=True)
class NamedStore:
    """A store and its address. `argument` was typed, and `gate` is what it says if it is a gate file."""

    address: str
    store: Store
    argument: str = ""
    gate: Gate | None = None

    @property
    def cluster(self) -> str:
        """The cluster of the gate file, "" without one."""
        return self.gate.cluster.name if self.gate else ""

    @property
    def policy(self) -> Path | None:
        """The file of the gate file's policy."""
        return Path(self.argument).resolve().parent / self.gate.policy.file if self.gate else None


@dataclass(frozen=True)
class ReportInput:
    """The name and the bytes of a report, and the policy file of the gate file by which it was named."""

    name: str
    data: bytes
    policy: Path | None = None


def typed_store(text: str) -> str:
    """A store as it was typed; the name of a gate file becomes its path, unless a folder or a file of that name lies here."""
    return typed_path(text) if is_name(text) and not Path(text).exists() else text


def open_named_store(argument: str) -> NamedStore:
    """The store that `argument` names. Raises InputError."""
    gate = named_gate(argument) if argument.endswith(".toml") else None
    try:
        where = absolute(gate.store.path if gate else argument)
        return NamedStore(where, open_store(where), argument, gate)
    except BadAddress as error:
        raise InputError("STORE", str(error)) from error


def named_gate(file: str) -> Gate:
    """The gate of a file. Raises InputError."""
    from tasks.gate_file.read import read_gate_file  # brings pydantic, which `judge --help` must not wait for

    return read_gate_file(Path(file))


def chosen_cluster(source: NamedStore, cluster: str | None) -> str | None:
    """The cluster that a command is about: the one that was asked for, else that of the gate file; None for all."""
    return cluster or source.cluster or None


def cluster_notes(arguments: Sequence[str], cluster: str | None) -> tuple[str, ...]:
    """The notes say of each gate file among the arguments that it shows its cluster alone. There are none where a cluster was asked
    for. Raises InputError.
    """
    stores = [open_named_store(file) for file in arguments if file.endswith(".toml") and not cluster]
    return tuple(
        f"this shows cluster {store.cluster} only. For all clusters name the store: {store.address}"
        for store in stores
    )


def policy_notes(arguments: Sequence[str]) -> tuple[str, ...]:
    """The name and the file of the policy of each gate file among the arguments. Raises InputError."""
    files = [open_named_store(argument).policy for argument in arguments if argument.endswith(".toml")]
    # A gate file may name its policy by the folder beside its own ("../policies").
    policies = ((policy_of(file), os.path.normpath(file)) for file in files if file is not None)
    return tuple(f"policy: {policy.name} ({file})" for policy, file in policies if policy is not None)


def report_named(text: str, store: str | None) -> str:
    """The path of the report that `text` names: a path, or the id of a gate in `store` (as it was typed; None for the default one).
    What exists here goes before an id. Raises InputError for an id that the store does not have, or has far away; StoreError.
    """
    is_id = ID_FORM.fullmatch(text) and not Path(text).exists()
    if not is_id or (store is None and not is_gate_id(text)):
        return text
    source = open_named_store(DEFAULT if store is None else store)
    location = source.store.location(_report_of(source, text))
    if is_remote(source.address):
        folder = location.rpartition("/")[0]
        message = f"its report is in S3. Copy its folder, and name the copy: aws s3 cp --recursive {shlex.quote(folder)} {text}"
        raise InputError(text, message)
    return location


def _report_of(source: NamedStore, gate_id: str) -> str:
    """The key of the gate's report; of one that used an earlier PASS that gate's. Raises InputError."""
    try:
        record = records.read(source.store, gate_id)
    except DecodeError:
        record = None  # the report is judged, whatever became of its record
    key = record.report if record is not None else report_key(gate_id)
    if source.store.get(key) is not None:
        return key
    gates = kept_gates(source.store, records.recorded(source.store))
    if gate_id in gates:
        message = "this gate kept no report: it ended before it judged. `prelaunch fleet store list` says how it ended."
        raise InputError(gate_id, message)
    newest = ", ".join(list(gates)[: -NEWEST - 1 : -1])
    message = f"no gate of {source.address} has this id; it has none. {NAME_STORE}"
    if newest:
        message = f"no gate of {source.address} has this id. Its newest are {newest}. {NAME_STORE}"
    raise InputError(gate_id, message, "", nearest(gate_id, tuple(gates)))


def is_store(argument: str) -> bool:
    """Whether an argument that may be a report names a store: a gate file, an S3 address, or a folder with gates in it."""
    if argument.endswith(".toml") or "://" in argument:
        return True
    return any((Path(argument) / name).is_dir() for name in (RECORDS, GATES))


def inputs_of(arguments: Sequence[str], wanted: str | None = None) -> Iterator[ReportInput]:
    """Each report: one per file, and of a store every report that a verdict was made of, oldest first. `asked` is the cluster whose
    gates are read, as in `chosen_cluster`.

    Raises InputError for what cannot be read or names no store, StoreError.
    """
    for argument in arguments:
        if not is_store(argument):
            if wanted:
                raise InputError(argument, "it is no store, and only a store has clusters.", "--cluster")
            yield ReportInput(*read_input(argument))
            continue
        source = open_named_store(argument)
        require_gates(source)
        listing = listed(source.store)
        if listing.problems:
            raise InputError(source.address, f"it cannot be read completely: {listing.problems[0]}")
        cluster = chosen_cluster(source, wanted)
        mine = [record for record in listing.records if cluster in (None, record.cluster)]
        for key in dict.fromkeys(record.report for record in mine):
            data = source.store.get(key)
            if data is None:
                raise InputError(
                    source.store.location(key),
                    "the report is missing. Name the reports that are there one by one.",
                )
            yield ReportInput(source.store.location(key), data, source.policy)


def require_reports(arguments: Sequence[str]) -> None:
    """Raise NoReports if what the arguments name is there and holds no report; what is not there is left to whoever reads it."""
    for argument in arguments:
        address = argument
        if is_store(argument):
            source = open_named_store(argument)
            address, declared = source.address, argument.endswith(".toml") or Path(source.address).is_dir()
            empty = declared and not source.store.list(RECORDS) and not source.store.list(GATES)
        else:
            empty = Path(argument).is_dir() and not any(Path(argument).rglob(REPORT_FILE))
        if empty:
            raise NoReports(address, "it holds no reports yet.")


def require_gates(name: NamedStore) -> None:
    """Raise InputError for a store without a gate: a name that is misspelt is not a history without a fault."""
    if not name.store.list(RECORDS) and not name.store.list(GATES):
        if name.gate is not None:
            text = f"no gate has run yet: run `prelaunch gate {shlex.quote(name.argument)}` first."
            raise InputError(name.address, text)
        text = "there are no gate results in it. Name the folder of a store, s3://bucket/prefix, or a gate file that names its store."
        missing = missing_name(name.argument) if is_name(name.argument) else None
        raise InputError(name.address, text, "", missing[1] if missing else None)


def require_known_node(source: NamedStore, node: str, argument: str) -> None:
    """Raise InputError if no gate of the store, which was typed as `argument`, knows the node. Raises StoreError."""
    histories = known_nodes(source.store)
    names = tuple(sorted({entry.node for history in histories.clusters for entry in history.nodes}))
    if node in names:
        return
    typed = "" if argument == DEFAULT else f" {shlex.quote(argument)}"
    message = f"no gate in it knows a node {node!r:.80}. `prelaunch fleet list{typed}` lists them."
    if histories.problems:
        message = f"no gate that could be read knows a node {node!r:.80}. Something could not be read: {histories.problems[0]}"
    raise InputError(source.address, message, "", nearest(node, names))
