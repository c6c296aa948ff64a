"""The command of docs/approval.md that answers a question, sent to a server of the test: what arrives is what the form sends."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import textwrap
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tasks.gate.approval.answers import GateDecision

PAGE = Path(__file__).resolve().parents[2] / "docs" / "approval.md"


class _Resumed(BaseHTTPRequestHandler):
    """A server that takes every answer. A fake: it resumes nothing."""

    got: tuple[str, str, bytes] = ("", "", b"")

    def do_POST(self) -> None:
        """Keep what came."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        type(self).got = (self.path, self.headers.get("Authorization", ""), body)
        self.send_response(201)
        self.end_headers()

    def log_message(self, *of: object) -> None:
        """Nothing."""


@pytest.mark.skipif(shutil.which("curl") is None, reason="not installed: curl. Remedy: apt-get install curl")
def test_the_command_sends_what_the_form_sends() -> None:
    """With the password of the API, which no list of processes shows."""
    block = re.findall(r"```bash\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    with ThreadingHTTPServer(("127.0.0.1", 0), _Resumed) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_port}/api"
            own = {"PREFECT_API_URL": address, "PREFECT_API_AUTH_STRING": "prelaunch:word", "RUN": "7"}
            argv = ("bash", "-c", textwrap.dedent(block))
            subprocess.run(argv, env={"PATH": os.environ["PATH"], **own}, timeout=30, check=True)
        finally:
            server.shutdown()
            thread.join()
    path, allowed, body = _Resumed.got

    assert ("/api/flow_runs/7/resume", "prelaunch:word") == (
        path,
        base64.b64decode(allowed.split()[1]).decode(),
    )
    assert "block" == GateDecision.model_validate(json.loads(body)["run_input"]).action
    assert "--user" not in block and "word" not in block.replace("password", "")
