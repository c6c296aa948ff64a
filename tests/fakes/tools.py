"""Fake executables: they replay a recording, fail, hang, stop half-way or die, as told. They are fakes, and say so."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

_BODY = """#!{python} -S
# A fake {name} for Prelaunch's tests: it replays what {replies} says.
import json, os, re, signal, sys, time
asked = " ".join(sys.argv[1:])
for reply in json.load(open({replies!r})):
    if re.search(reply["asked"], asked):
        break
else:
    sys.exit("fake {name}: no reply for: " + asked)
data = reply["stdout"].encode()
cut = int(len(data) * reply["part"])
sys.stdout.buffer.write(data[:cut])
sys.stdout.flush()
sys.stderr.write(reply["stderr"])
sys.stderr.flush()
time.sleep(reply["seconds"])
if reply["signal"]:
    os.kill(os.getpid(), reply["signal"])
sys.exit(reply["code"])
"""


@dataclass(frozen=True)
class Reply:
    """What the fake does when its arguments match `asked` (a regular expression): print the first `part` of
    `stdout`, wait `seconds` (3600: it hangs), then exit with `code`, or die of `signal`.
    """

    stdout: str = ""
    asked: str = ""
    stderr: str = ""
    code: int = 0
    part: float = 1.0
    seconds: float = 0.0
    signal: int = 0


def install(folder: Path, name: str, replies: Sequence[Reply]) -> Path:
    """Write the fake into the folder; the first reply whose `asked` matches is given."""
    folder.mkdir(parents=True, exist_ok=True)
    told = folder / f".{name}.json"
    told.write_text(json.dumps([asdict(reply) for reply in replies]))
    path = folder / name
    path.write_text(_BODY.format(python=sys.executable, name=name, replies=str(told)))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@contextmanager
def on_path(folder: Path, alone: bool = False) -> Iterator[None]:
    """Put the folder first on PATH; `alone`: nothing else is found, as on a node that lacks every tool."""
    old = os.environ["PATH"]
    os.environ["PATH"] = str(folder) if alone else f"{folder}{os.pathsep}{old}"
    try:
        yield
    finally:
        os.environ["PATH"] = old
