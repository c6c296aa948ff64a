"""`prelaunch completion`: real shells complete what the real parser takes."""

from __future__ import annotations

import argparse
import os
import pty
import re
import select
import shlex
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.cli.verbs import VERBS, whole_parser

ROOT = Path(__file__).resolve().parents[3]
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r|\x08")
# What a person types before the tab key, and the whole word that has to follow.
TYPED = [
    ("prelaunch basel", "baseline"),
    ("prelaunch store list --no", "--node"),
    ("prelaunch node heal", "healthcheck"),
    ("prelaunch judge x --format markd", "markdown"),
    ("prelaunch init --engine sage", "sagemaker"),
    ("prelaunch plan a-gate", "a-gate-file.toml"),
]
START = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(prelaunch completion bash)"'),
    "zsh": (
        ["zsh", "-f", "-i"],
        'autoload -U compinit; compinit -u -D; eval "$(prelaunch completion zsh)"',
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a command `prelaunch` of this checkout, and a file to complete."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "prelaunch"
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.quote(sys.executable)} -m flows.cli.main "$@"\n'
    )
    command.chmod(0o755)
    (tmp_path / "a-gate-file.toml").write_text("")
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    """A small one: no person's settings, and the command first."""
    return {
        "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
        "HOME": str(folder),
        "TERM": "dumb",
        "LC_ALL": "C.UTF-8",
        "PS1": "$ ",
    }


class Shell:
    """An interactive shell on a terminal of its own."""

    def __init__(self, name: str, folder: Path) -> None:
        argv, setup = START[name]
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            argv,
            cwd=folder,
            env=environment(folder),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.write(f"{setup}; echo re''ady\n")
        self.wait_for("ready", 30)

    def write(self, text: str) -> None:
        """Type it."""
        os.write(self.master, text.encode())

    def wait_for(self, words: str, seconds: float) -> str:
        """Read until the terminal shows the words, or the time is up; what it showed."""
        said, ends = "", time.monotonic() + seconds
        while words not in ESCAPES.sub("", said) and time.monotonic() < ends:
            if select.select([self.master], [], [], 0.2)[0]:
                said += os.read(self.master, 4096).decode(errors="replace")
        return ESCAPES.sub("", said)

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()
        os.close(self.master)


def shown(name: str, folder: Path) -> Iterator[tuple[str, str, str]]:
    """What was typed, the word that has to follow, and what the terminal shows after the tab key."""
    shell = Shell(name, folder)
    try:
        for typed, word in TYPED:
            shell.write(f"{typed}\t")
            yield typed, word, shell.wait_for(word, 10)
            shell.write("\x15")  # Ctrl-U: an empty line again
    finally:
        shell.close()


@pytest.mark.parametrize(
    "name", ["bash", pytest.param("zsh", marks=[pytest.mark.needs("zsh"), pytest.mark.long])]
)
def test_the_tab_key_completes(name: str, folder: Path) -> None:
    """Verbs, the verbs below them, options, their choices, and files; in a shell as its user starts it."""
    for typed, word, text in shown(name, folder):
        assert word in text, (typed, text)
    # As root zsh's compdump renames its file onto the path that it is given, and a device is replaced by a file.
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


@pytest.mark.needs("fish")
def test_fish_completes(folder: Path) -> None:
    """By its own command that lists what the tab key would offer."""
    asked = "; ".join(f"complete -C {shlex.quote(typed)}" for typed, _ in TYPED)
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"prelaunch completion fish | source; {asked}"], cwd=folder,
        env=environment(folder), capture_output=True, text=True, check=False,
    )  # fmt: skip
    offered = {line.partition("\t")[0] for line in done.stdout.splitlines()}

    assert set() == {word for _, word in TYPED} - offered, done


def test_the_parser_has_every_verb_with_its_arguments() -> None:
    """What is completed is what is parsed: no verb is left empty."""
    (below,) = (a for a in whole_parser()._actions if isinstance(a, argparse._SubParsersAction))

    assert list(VERBS) == list(below.choices)
    assert [] == [verb for verb, parser in below.choices.items() if len(parser._actions) < 2]
