"""A mail server on loopback: enough of SMTP (RFC 5321) for a client that sends, and what it was sent; and a webhook."""

from __future__ import annotations

import json
import socketserver
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import ThreadingHTTPServer
from typing import Any

from tests.fakes.serving import QuietHandler


class MailServer(socketserver.ThreadingTCPServer):
    """`mails` are all that it took; with `refuses` it takes nobody's mail."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.refuses = False
        super().__init__(("127.0.0.1", 0), _Smtp)


class _Smtp(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        """One client."""
        self._say("220 stand-in ESMTP")
        for raw in self.rfile:
            word = raw.decode("ascii", "replace").split(":")[0].split()[0].upper()
            if word == "QUIT":
                self._say("221 bye")
                return
            if word == "DATA":
                self._say("354 go on")
                self._take()
            elif word == "RCPT" and self.server.refuses:
                self._say("550 no such user here")
            else:
                accepted = word in ("EHLO", "HELO", "MAIL", "RCPT", "RSET", "NOOP")
                self._say("250 ok" if accepted else "502 what?")

    def _take(self) -> None:
        lines = []
        for raw in self.rfile:
            if raw.rstrip(b"\r\n") == b".":
                break
            lines.append(raw[1:] if raw.startswith(b"..") else raw)
        made = message_from_bytes(b"".join(lines), policy=policy.default)
        assert isinstance(made, EmailMessage)
        self.server.mails.append(made)
        self._say("250 taken")

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


class Webhook(ThreadingHTTPServer):
    """Keeps the JSON of what is posted to it, with the path; answers `status`."""

    def __init__(self, port: int = 0) -> None:
        self.posted: list[tuple[str, dict[str, Any]]] = []
        self.status = 200
        super().__init__(("127.0.0.1", port), _Posted)


class _Posted(QuietHandler):
    server: Webhook

    def do_POST(self) -> None:
        """One message."""
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.posted.append((self.path, json.loads(data)))
        self.answer(self.server.status)
