"""The legs of `make anywhere`: in each one the machine differs in one thing, which the kernel or a tool of Debian makes so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from checks.process.machine_state import boot_s
from tests.container_engines import podman_environment

# Debian's user without rights. It may not gain any, so that sudo does not work either.
OTHER_USER = "nobody"
AS_OTHER_USER = (
    "setpriv", "--reuid", OTHER_USER, "--regid", "nogroup", "--clear-groups", "--no-new-privs", "--",
)  # fmt: skip


@dataclass(frozen=True)
class Place:
    """Where a leg runs: the checkout, and a new folder that belongs to this leg alone."""

    checkout: Path
    folder: Path


@dataclass(frozen=True)
class World:
    """What goes in front of each command of a leg, and the variables that differ (None removes one)."""

    prefix: tuple[str, ...] = ()
    environment: Mapping[str, str | None] = field(default_factory=dict)

    def variables(self) -> dict[str, str]:
        """The whole environment of a command."""
        return {
            name: value for name, value in {**os.environ, **self.environment}.items() if value is not None
        }


@dataclass(frozen=True)
class Leg:
    """One leg. `world` makes its world, for which the commands in `needs` must be installed. `whole` runs the whole suite. With
    `other_user` it uses a checkout that Debian's user `nobody` set up, below a path with a blank and an umlaut. `python` is the
    interpreter of an environment of its own. Where no gate can say GO, `refusal` is in its answer. `hides` is a folder of which it has
    another one, so that a checkout below it cannot be seen.
    """

    name: str
    world: Callable[[Place], World]
    needs: tuple[str, ...] = ()
    whole: bool = False
    other_user: bool = False
    python: str = ""
    refusal: str = ""
    hides: str = ""


def _started(seconds_ago: float) -> Callable[[Place], World]:
    """A machine that started so long ago."""

    def world(place: Place) -> World:
        offset = str(round(seconds_ago - boot_s()))
        return World(("unshare", "--time", "--boottime", offset, "--monotonic", offset, "--fork", "--"))

    return world


def _at(moment: datetime, zone: str = "UTC") -> Callable[[Place], World]:
    """A wall clock that shows this moment when the leg begins. Files get the time of the machine."""
    return lambda place: _clock(place, moment - datetime.now(UTC), zone)


def _clock(place: Place, ahead: timedelta, zone: str = "UTC") -> World:
    library = place.folder / "clock.so"
    subprocess.run(("cc", "-shared", "-fPIC", "-o", library, Path(__file__).with_name("clock.c")), check=True)
    seconds = f"{ahead.total_seconds():.0f}"
    return World(environment={"LD_PRELOAD": str(library), "CLOCK_AHEAD_S": seconds, "TZ": zone})


def _variables(**environment: str | None) -> Callable[[Place], World]:
    return lambda place: World(environment=environment)


def _locale(name: str) -> Callable[[Place], World]:
    """A locale that is made for the leg, from Debian's sources."""

    def world(place: Place) -> World:
        language, _, charset = name.partition(".")
        subprocess.run(("localedef", "-i", language, "-f", charset, place.folder / name), check=True)
        return World(environment={"LOCPATH": str(place.folder), "LC_ALL": name})

    return world


def _after(script: str, *unshare: str) -> Callable[[Place], World]:
    """Namespaces of its own, in which the script runs first. `$CHECKOUT` is the checkout."""

    def world(place: Place) -> World:
        shell = ("sh", "-c", f'{script} && exec "$@"', "sh")
        return World(("unshare", *unshare, *shell), {"CHECKOUT": str(place.checkout)})

    return world


def _user(world: Callable[[Place], World], writable_home: bool = True) -> Callable[[Place], World]:
    """The other user in this world, with a home folder."""

    def as_user(place: Place) -> World:
        made, home = world(place), place.folder / "home"
        home.mkdir()
        if writable_home:
            shutil.chown(home, OTHER_USER, "nogroup")
        return World((*made.prefix, *AS_OTHER_USER), {"HOME": str(home), **made.environment})

    return as_user


def _confined(place: Place) -> World:
    """A container of podman with its default capabilities and seccomp profile: no user namespaces, 64 MB of /dev/shm, and a process 1
    that is no init. Its files are those of this machine.
    """
    (rootfs := place.folder / "rootfs").mkdir()
    run = f'podman run --rm --network host --env-host --workdir "$PWD" --rootfs {rootfs}'
    shell = ("sh", "-c", f'mount --bind / {rootfs} && exec {run} "$@"', "sh")
    return World(("unshare", "--mount", *shell), podman_environment(place.folder, "overlay"))


def _busy(place: Place) -> World:
    """Beside eight processes that compute, and that end with the command."""
    script = 'stress-ng --quiet --cpu 8 & "$@"; code=$?; kill $!; wait; exit $code'
    return World(("sh", "-c", script, "sh"))


def _plain(place: Place) -> World:
    return World()


def _other_pythons() -> Iterator[Leg]:
    """A leg for each other Python that is installed, on PATH or by pyenv."""
    for minor in range(11, 15):
        name = f"python3.{minor}"
        places = (shutil.which(name) or name, *Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/{name}"))
        works = [
            place
            for place in places
            if subprocess.run(("sh", "-c", f"{place} -V"), capture_output=True).returncode == 0
        ]
        if works and minor != sys.version_info.minor:
            yield Leg(f"Python 3.{minor}", _plain, python=str(works[0]), refusal="torch")


BERLIN, LOOPBACK = "Europe/Berlin", "ip link set lo up"
LEGS = (
    Leg("young machine: started 20 s ago", _started(20), needs=("unshare",), whole=True),
    Leg("old machine: started 400 days ago", _started(400 * 86_400), needs=("unshare",)),
    Leg("29 February", _at(datetime(2028, 2, 29, 12, tzinfo=UTC)), needs=("cc",)),
    Leg("summer time begins", _at(datetime(2027, 3, 28, 0, 59, 50, tzinfo=UTC), BERLIN), needs=("cc",)),
    Leg("summer time ends", _at(datetime(2027, 10, 31, 0, 59, 50, tzinfo=UTC), BERLIN), needs=("cc",)),
    Leg("31 December, 23:59:50", _at(datetime(2027, 12, 31, 23, 59, 50, tzinfo=UTC)), needs=("cc",)),
    Leg("ten years ahead", lambda place: _clock(place, timedelta(days=3653)), needs=("cc",)),
    Leg("an hour behind the files' times", lambda place: _clock(place, timedelta(hours=-1)), needs=("cc",)),
    Leg("Kathmandu", _variables(TZ="Asia/Kathmandu")),
    Leg("St. John's", _variables(TZ="America/St_Johns")),
    Leg("LC_ALL=C", _variables(LC_ALL="C", LANG=None, PYTHONUTF8=None, PYTHONIOENCODING=None)),
    Leg("Turkish", _locale("tr_TR.UTF-8"), needs=("localedef", "locale-gen")),
    Leg("German", _locale("de_DE.UTF-8"), needs=("localedef", "locale-gen")),
    Leg("another user, no sudo", _user(_plain), whole=True, other_user=True),
    Leg("no HOME", _user(_variables(HOME=None)), other_user=True),
    Leg("HOME is read-only", _user(_plain, writable_home=False), other_user=True),
    Leg("umask 077", _user(_after("umask 077", "--fork")), other_user=True),
    Leg(
        "read-only checkout",
        _user(_after('mount --bind "$CHECKOUT" "$CHECKOUT" && mount -o remount,bind,ro "$CHECKOUT"', "--mount")),
        other_user=True,
    ),
    Leg("one CPU", lambda place: World(("taskset", "--cpu-list", "0"))),
    Leg("64 MB of /dev/shm", _after("mount -t tmpfs -o size=64m tmpfs /dev/shm", "--mount")),
    Leg("1,024 open files", lambda place: World(("prlimit", "--nofile=1024:1024", "--"))),
    Leg("/tmp is a tmpfs of 1 GB", _after("mount -t tmpfs -o size=1g tmpfs /tmp", "--mount"), hides="/tmp"),
    Leg("/tmp is noexec", _after("mount -t tmpfs -o noexec tmpfs /tmp", "--mount"), hides="/tmp"),
    Leg("confined in a container", _confined, needs=("podman", "runc"), whole=True),
    Leg("only loopback", _after(LOOPBACK, "--net")),
    Leg("no IPv6", _after(f"{LOOPBACK} && sysctl -qw net.ipv6.conf.all.disable_ipv6=1", "--net")),
    Leg(
        "a proxy that leads nowhere",
        _variables(http_proxy="http://127.0.0.1:9", https_proxy="http://127.0.0.1:9", all_proxy="http://127.0.0.1:9", no_proxy=None),
    ),
    Leg("busy: stress-ng --cpu 8", _busy, needs=("stress-ng",), whole=True, refusal="busy"),
    *_other_pythons(),
)  # fmt: skip
