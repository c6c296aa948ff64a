"""The legs of `make anywhere` that take seconds: tests that read the boot time, or in which the user's rights matter."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.anywhere.legs import LEGS, Leg, Place

ROOT = Path(__file__).parents[2]
BOOT = ("tests/checks/process/test_machine_state.py", "tests/checks/watch/test_record_file.py")
CERTIFIED = "tests/checks/runner/test_certified.py"
RIGHTS = (
    "tests/checks/exchange/test_secret_key.py",
    "tests/checks/process/test_environment.py",
    "tests/tasks/gate_file/test_folder.py",
    "tests/tasks/notifiers/test_log.py",
    "tests/tasks/store/test_folder.py",
)


def leg(name: str) -> Leg:
    (found,) = (one for one in LEGS if one.name.startswith(name))
    return found


@pytest.mark.root
@pytest.mark.needs("unshare", "setpriv")
@pytest.mark.parametrize(
    ("name", "files"),
    [("young machine", (*BOOT, CERTIFIED)), ("old machine", BOOT), ("another user", RIGHTS)],
    ids=["young", "old", "another-user"],
)
def test_tests_hold_in_the_leg(name: str, files: tuple[str, ...]) -> None:
    """Neither the time since the boot nor the user's rights decide about a test."""
    with tempfile.TemporaryDirectory(prefix="leg-", dir="/var/tmp", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o777)
        world = leg(name).world(Place(ROOT, Path(folder)))
        if subprocess.call((*world.prefix, sys.executable, "-c", ""), stderr=subprocess.DEVNULL):
            pytest.skip(
                "this machine makes no such world: it is a container, or the user may not read the checkout"
            )
        options = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "--basetemp", f"{folder}/tests")
        done = subprocess.run(
            (*world.prefix, sys.executable, *options, *files),
            cwd=ROOT,
            env=world.variables(),
            capture_output=True,
            text=True,
            check=False,
        )

    assert done.returncode == 0, done.stdout + done.stderr
