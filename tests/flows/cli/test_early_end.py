"""The end of a command that has not begun: a pipeline gets the files that it asked for all the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import textwrap
from pathlib import Path
from xml.etree import ElementTree

import pytest

from flows.cli.main import main
from tests.flows.cli.test_main import MAIN

FILES = ("--junit", "junit.xml", "--summary=summary.md", "--html", "page.html")


def pages(folder: Path) -> list[str]:
    """The three files, each complete."""
    error = ElementTree.parse(folder / "junit.xml").getroot().find(".//error")
    assert error is not None
    said = f"{error.get('type')}: {error.get('message')}"
    return [said, *((folder / name).read_text() for name in ("summary.md", "page.html"))]


def test_wrong_usage_is_a_rejection_in_every_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And an annotation in a workflow of GitHub."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    heeded = signal.getsignal(signal.SIGTERM)
    code = main(["gate", "p5.toml", "--format", "json", *FILES, "--wait", "finishd"])
    signal.signal(signal.SIGTERM, heeded)
    out, err = capsys.readouterr()
    junit, summary, page = pages(tmp_path)

    said = "--wait: 'finishd' is none of verdict, started, finished"
    assert (2, said) == (code, json.loads(out)["error"]["message"])
    assert junit.startswith(f"REJECTED: {said}")
    assert summary.startswith("# REJECTED p5\n") and "<h1>REJECTED</h1>" in page
    assert 1 == err.count("::error title=Prelaunch rejected the request::--wait") and 1 == err.count(said)
    assert "usage: prelaunch gate" in err


def test_a_rejection_is_said_once_in_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """GitHub shows the annotation's text, which has file and line for that; any other log the line for people."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gate.toml").write_text("name = 1\n")
    said = "gate.toml, line 1: name: expected text, found the number 1."
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    main(["plan", "gate.toml", "--offline"])
    plain = capsys.readouterr().err
    main(["plan", "gate.toml", "--wrong"])
    usage = capsys.readouterr().err
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    main(["plan", "gate.toml", "--offline"])
    github = capsys.readouterr().err

    assert f"prelaunch: {said}" in plain and "::error" not in plain and 1 == len(plain.splitlines())
    assert f"::error file=gate.toml,line=1,title=Prelaunch rejected the request::{said}\n" == github
    assert usage.startswith("prelaunch: ") and "usage: prelaunch plan" in usage.splitlines()[1]


def test_a_signal_before_the_gate_begins_is_a_cancellation(tmp_path: Path) -> None:
    """In every file and in the document: no machine was judged, and none is called unknown."""
    body = textwrap.dedent(
        """
        import os, signal, sys, time
        from flows.cli import gate, main
        def opened(request):
            os.kill(os.getpid(), signal.SIGTERM); time.sleep(30)
        gate.open_gate_context = opened
        sys.exit(main.main())
        """
    )
    argv = [*MAIN[:1], "-c", body, "gate", "p5.toml", "--format", "json", *FILES]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True)
    junit, summary, page = pages(tmp_path)

    said = "cancelled by SIGTERM before the gate began: nothing was started"
    assert 143 == done.returncode, done.stderr
    assert f"CANCELLED p5: {said}" == json.loads(done.stdout)["first_line"]
    assert f"CANCELLED: {said}." == junit
    assert summary.startswith(f"# CANCELLED p5\n\n{said}") and "<h1>CANCELLED</h1>" in page
    assert "prelaunch: cancelled by SIGTERM\n" in done.stderr
