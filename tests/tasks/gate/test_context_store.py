"""The gate file's [store]: where a gate keeps what it knows, and errors that repeat no password."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.gate.context import GateContext, open_gate_context
from tasks.gate_file.read import GateFileError, read_gate_file
from tasks.gate_file.request import Advanced, GateRequest
from tasks.store.call_timeout import PatientStore
from tasks.store.folder import FolderStore
from tasks.store.s3 import S3Store
from tests.flows.gates import write_gate


def opened(folder: Path, table: str, store: str = "") -> GateContext:
    """The context of a gate file with this [store]."""
    path = write_gate(folder, fake=False)
    path.write_text(path.read_text().partition("[store]")[0] + f"[store]\n{table}\n")
    return open_gate_context(GateRequest(gate_file=str(path), advanced=Advanced(store=store)))


def test_a_folder_holds_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Store, copies and the launcher's jobs; relative to where the command runs."""
    monkeypatch.chdir(tmp_path)
    context = opened(tmp_path / "gates", 'path = "kept"')

    assert isinstance(context.store, PatientStore) and isinstance(context.store.store, FolderStore)
    assert [str(tmp_path / "kept"), tmp_path / "kept" / "work"] == [context.address, context.work]
    assert f"{tmp_path}/kept/clusters/test" == context.engine.root


def test_work_folder_stays_local_when_the_store_is_in_s3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In .prelaunch, or where `work` says."""
    monkeypatch.chdir(tmp_path)
    context = opened(tmp_path, 'path = "s3://bucket/a/"')
    other = opened(tmp_path, 'path = "s3://bucket/a"\nwork = "w"')

    assert isinstance(context.store, PatientStore) and isinstance(context.store.store, S3Store)
    assert ("s3://bucket/a", "s3://bucket/a/x") == (context.address, context.store.location("x"))
    assert [tmp_path / ".prelaunch" / "work", tmp_path / "w" / "work"] == [context.work, other.work]
    assert f"{tmp_path}/.prelaunch/clusters/test" == context.engine.root


def test_a_flow_finds_the_store_that_its_command_had(tmp_path: Path) -> None:
    """The request's address wins, from whatever folder it is opened."""
    first = opened(tmp_path, 'path = "s3://bucket/a"')

    assert "s3://bucket/a" == opened(tmp_path, 'path = "elsewhere"', first.address).address


@pytest.mark.parametrize("path", ["gs://bucket/x", "s3://", "s3://me:hunter22@bucket/x"])
def test_an_address_of_another_kind_is_rejected(tmp_path: Path, path: str) -> None:
    """Before anything is started; no folder of that name is made."""
    with pytest.raises(GateFileError, match=r"store\.path") as caught:
        opened(tmp_path, f'path = "{path}"')

    assert "hunter22" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "instead"),
    [
        ("s3:/bucket/prelaunch", "Write s3://bucket/prelaunch."),
        ("S3://bucket/prelaunch", "Write s3://bucket/prelaunch."),
        ("s3:bucket", "Write s3://bucket."),
        ("S3://me:hunter22@bucket/x", "Write s3://bucket/prefix."),
        ("gs:/x", "a store at gs:// is not supported"),
        ("gs://bucket/x", "a store at gs:// is not supported"),
        ("file:/x/y", "Write /x/y."),
        ("file:///x/y", "Write /x/y."),
    ],
)
def test_store_path_like_a_url_is_rejected_with_the_right_form(
    tmp_path: Path, path: str, instead: str
) -> None:
    """Each worker would have a folder of its own, and no lock in common; the right form is written out."""
    with pytest.raises(GateFileError, match=r"store\.path") as caught:
        opened(tmp_path, f'path = "{path}"')

    assert instead in str(caught.value) and "hunter22" not in str(caught.value)


@pytest.mark.parametrize("path", ["./s3:x", "a/b:c", "~/kept", "s3"])
def test_a_folder_with_a_colon_further_on_is_a_folder(tmp_path: Path, path: str) -> None:
    """Also one that is written with ./ before its name."""
    assert Path(path).name == Path(opened(tmp_path, f'path = "{path}"').address).name


@pytest.mark.parametrize("key", ["path", "work"])
def test_none_of_it_can_be_overridden(tmp_path: Path, key: str) -> None:
    """Whoever may start a gate may not say where its leases lie."""
    with pytest.raises(GateFileError, match="cannot be set here") as caught:
        read_gate_file(write_gate(tmp_path, fake=False), (f"store.{key}=postgresql://me:hunter22@h/d",))

    assert "hunter22" not in str(caught.value)
