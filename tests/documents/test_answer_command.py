"""The command of docs/people.md that answers a question, sent to a server of the test: what arrives is what the form sends."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import textwrap
from collections.abc import Mapping
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from tasks.gate.approval.answers import GateDecision
from tests.fakes.serving import QuietHandler, serving

pytestmark = pytest.mark.needs("curl")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "people.md"


Answered = tuple[int, Mapping[str, object]]
WHY = {"type": "abort_details", "reason": "Reason: 'launch' is not one of"}
REJECTED: Answered = (200, {"status": "REJECT", "state": None, "details": WHY})
TAKEN = {"state": {"type": "SCHEDULED"}, "details": {"type": "accept_details"}}
ACCEPTED: Answered = (201, {"status": "ACCEPT", **TAKEN})
REFUSED: Answered = (401, {"exception_message": "Unauthorized"})
PASSWORD = {"PREFECT_API_AUTH_STRING": "prelaunch:word"}


class _Resumed(QuietHandler):
    """A server that answers as Prefect 3.8.8 does (prefect/server/api/flow_runs.py). A fake: it resumes nothing."""

    wanted: Answered = ACCEPTED
    got: tuple[str, str, bytes] = ("", "", b"")

    def do_POST(self) -> None:
        """Keep what came."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        type(self).got = (self.path, self.headers.get("Authorization", ""), body)
        code, said = type(self).wanted
        self.answer(code, json.dumps(said).encode())


def _answered(answer: Answered, own: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """The documented command, as it is written, against a server with this answer."""
    block = re.findall(r"```bash\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    _Resumed.wanted, _Resumed.got = answer, ("", "", b"")
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), _Resumed)) as server:
        address = f"http://127.0.0.1:{server.server_port}/api"
        given = {"PATH": os.environ["PATH"], "PREFECT_API_URL": address, "RUN": "7", **own}
        argv, null = ("bash", "-c", textwrap.dedent(block)), subprocess.DEVNULL
        return subprocess.run(argv, env=given, capture_output=True, text=True, stdin=null)


def test_the_command_sends_what_the_form_sends() -> None:
    """With the password of the API, which no list of processes shows."""
    done = _answered(ACCEPTED, PASSWORD)
    path, allowed, body = _Resumed.got

    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    assert "/api/flow_runs/7/resume" == path
    assert "prelaunch:word" == base64.b64decode(allowed.split()[1]).decode()
    assert "block" == GateDecision.model_validate(json.loads(body)["run_input"]).action
    block = PAGE.read_text()
    assert "--user" not in block and "prelaunch:word" not in block


def test_without_a_password_none_is_sent_and_none_is_asked_for() -> None:
    """A server on a laptop has none."""
    done = _answered(ACCEPTED, {})

    assert (0, "", "") == (done.returncode, _Resumed.got[1], done.stdout + done.stderr)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (REJECTED, "not answered: Reason: 'launch' is not one of\n"),
        (REFUSED, "curl: (22) The requested URL returned error: 401\n"),
    ],
)
def test_an_answer_that_was_not_taken_is_a_failure(answer: Answered, said: str) -> None:
    """Prefect says 200 of it: a script would believe that it has answered."""
    done = _answered(answer, PASSWORD)

    assert done.returncode != 0
    assert ("", said) == (done.stdout, done.stderr)
