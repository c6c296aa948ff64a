"""Keys and configuration for ssh between the hosts of one job. They are made for this job, in a folder of their own, and removed
with it.

A private key never leaves its host. Workers accept one key, from one address, and run what it sends with their own environment.
"""

from __future__ import annotations

import json
import os
import pwd
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from checks.roster import Member

KEYGEN_S = 30.0
# What sshd runs for the first host: the command that it sent, with this host's environment.
SESSION = """
import json, os
environment = json.load(open(os.path.join(os.path.dirname(__file__), "environment.json")))
os.execve("/bin/sh", ("sh", "-c", os.environ.get("SSH_ORIGINAL_COMMAND", "true")), environment)
"""


def make_key(path: Path) -> str:
    """A new key at `path`. Returns its public part, one line. Raises OSError, subprocess.SubprocessError."""
    argv = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "prelaunch", "-f", str(path))
    subprocess.run(argv, check=True, timeout=KEYGEN_S, stdin=subprocess.DEVNULL)
    return path.with_suffix(".pub").read_text().strip()


def is_key(text: str) -> bool:
    """Whether the text is one public key of the kind that `make_key` makes, and nothing else. It becomes a line of a file that sshd
    trusts.
    """
    words = text.split()
    plain = all(character.isalnum() or character in "+/=" for character in "".join(words[1:2]))
    return len(words) == 3 and words[0] == "ssh-ed25519" and plain and len(text) < 200 and "\n" not in text


def client_config(folder: Path, first: Member, others: Mapping[str, str], members: Sequence[Member]) -> Path:
    """The file for `ssh -F`; `others` are the workers' host keys by name. Raises OSError."""
    rows = [member for member in members if member.name in others]
    known = "".join(f"[{row.address}]:{row.probe_port} {others[row.name]}\n" for row in rows)
    (folder / "known_hosts").write_text(known)
    hosts = "".join(f"Host {row.name}\n  HostName {row.address}\n  Port {row.probe_port}\n" for row in rows)
    path = folder / "ssh_config"
    path.write_text(
        f"{hosts}Host *\n"
        f"  User {_user()}\n"
        f"  BindAddress {first.address}\n"
        f"  IdentityFile {folder / 'client'}\n"
        "  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {folder / 'known_hosts'}\n"
        "  GlobalKnownHostsFile /dev/null\n"
        "  StrictHostKeyChecking yes\n"
        "  BatchMode yes\n"
        "  ConnectTimeout 5\n"
        "  ServerAliveInterval 15\n"
        "  ServerAliveCountMax 8\n"
        "  LogLevel ERROR\n"
    )
    return path


def server_config(
    folder: Path, me: Member, first: Member, client: str, environment: Mapping[str, str]
) -> Path:
    """The file for `sshd -f`. What the first host starts here gets `environment`, which is this host's own. Raises OSError."""
    (folder / "environment.json").write_text(json.dumps(dict(environment)))
    (folder / "session.py").write_text(SESSION)
    session = folder / "session"
    command = shlex.join((sys.executable, "-I", "-S", str(folder / "session.py")))
    session.write_text(f"#!/bin/sh\nexec {command}\n")
    session.chmod(0o700)
    (folder / "authorized_keys").write_text(f'restrict,from="{first.address}",command="{session}" {client}\n')
    path = folder / "sshd_config"
    path.write_text(
        f"ListenAddress {me.address}\n"
        f"Port {me.probe_port}\n"
        f"HostKey {folder / 'host'}\n"
        f"AuthorizedKeysFile {folder / 'authorized_keys'}\n"
        "AuthenticationMethods publickey\n"
        f"AllowUsers {_user()}\n"
        "PermitRootLogin forced-commands-only\n"
        "UsePAM no\n"
        # Only this user has access to the folder. The folders above it belong to the container.
        "StrictModes no\n"
        "PidFile none\n"
        "LogLevel ERROR\n"
    )
    return path


def _user() -> str:
    return pwd.getpwuid(os.getuid()).pw_name
