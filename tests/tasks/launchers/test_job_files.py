"""Copying a folder that others write to, and may write badly."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

import pytest

from tasks.launchers.job_files import copy_whole_files


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_file_copy_takes_whole_files_with_their_folders_alone(tmp_path: Path) -> None:
    """Bytes as they are. Writers use a name that begins with a dot or ends in .tmp, for files and folders alike."""
    for name in (".node-0.json", "node-0.json.tmp", ".hidden/x", "making.tmp/x", "a/nodes/node-0.json"):
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).write_bytes(b"\x00\xff")
    copy_whole_files(tmp_path / "out", tmp_path / "into")

    assert names(tmp_path / "into") == {"a/nodes/node-0.json"}
    assert (tmp_path / "into" / "a" / "nodes" / "node-0.json").read_bytes() == b"\x00\xff"


def test_links_and_special_files_are_never_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No link to a file or a folder, no FIFO that would stop the reader; the log names them."""
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("not yours")
    (out / "file-link").symlink_to(tmp_path / "secret" / "key")
    (out / "folder-link").symlink_to(tmp_path / "secret")
    os.mkfifo(out / "fifo")
    (out / "whole").write_text("")
    with caplog.at_level(logging.WARNING):
        copy_whole_files(out, tmp_path / "into")

    assert names(tmp_path / "into") == {"whole"}
    assert all(name in caplog.text for name in ("file-link", "fifo"))


def test_a_new_version_replaces_the_old_one_and_the_same_is_not_copied_again(tmp_path: Path) -> None:
    """Also one of the same size. A flow fetches every second; a checkpoint is gigabytes."""
    (tmp_path / "out").mkdir()
    for text in ("first", "again"):
        (tmp_path / "out" / "a.part").write_text(text)
        (tmp_path / "out" / "a.part").replace(tmp_path / "out" / "a")
        copy_whole_files(tmp_path / "out", tmp_path / "into")

        assert (tmp_path / "into" / "a").read_text() == text
    before = (tmp_path / "into" / "a").stat().st_ino
    copy_whole_files(tmp_path / "out", tmp_path / "into")

    assert (tmp_path / "into" / "a").stat().st_ino == before


def test_file_copy_survives_files_that_vanish(tmp_path: Path) -> None:
    """Files and folders that come and go cost nothing but themselves; none is ever seen in part."""
    out, stop = tmp_path / "out", threading.Event()
    (out / "stays").mkdir(parents=True)
    (out / "stays" / "whole").write_text("x" * 5000)

    def churn() -> None:
        while not stop.is_set():
            (out / "comes").mkdir()
            (out / "comes" / ".part").write_text("x" * 5000)
            (out / "comes" / ".part").rename(out / "comes" / "goes")
            (out / "comes" / "goes").unlink()
            (out / "comes").rmdir()

    writer = threading.Thread(target=churn)
    writer.start()
    try:
        for round_ in range(50):
            copy_whole_files(out, into := tmp_path / f"into-{round_}")

            assert {(into / name).stat().st_size for name in names(into)} == {5000}
    finally:
        stop.set()
        writer.join()


def test_a_source_that_is_not_there_gives_nothing(tmp_path: Path) -> None:
    """No output yet."""
    copy_whole_files(tmp_path / "out", tmp_path / "into")

    assert list((tmp_path / "into").iterdir()) == []
