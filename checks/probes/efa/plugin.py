"""efa.plugin: which versions of libfabric, EFA installer, aws-ofi-nccl and NCCL are installed."""

from __future__ import annotations

import ctypes
import glob
import mmap
import os
import re
from collections.abc import Iterable
from pathlib import Path

from checks.check import CheckError, Context, Measurement, lists
from checks.probes.efa.devices import efa_check
from checks.process import tool

INSTALLED = Path("/opt/amazon/efa_installed_packages")
# Where installers and images put the plugin, besides what LD_LIBRARY_PATH names. libnccl-net.so is what NCCL opens by
# default; since 1.14 the file is libnccl-net-ofi.so, which NCCL_NET_PLUGIN=ofi or a link of the old name leads to.
FOLDERS = (
    "/opt/amazon/ofi-nccl/lib*",
    "/opt/amazon/ofi-nccl/lib/*-linux-gnu",
    "/opt/amazon/aws-ofi-nccl/lib*",
    "/opt/aws-ofi-nccl/lib*",
    "/opt/aws-ofi-nccl/install/lib*",
    "/usr/local/lib",
    "/usr/lib/*-linux-gnu",
    "/usr/lib64",
)
NET = ("libnccl-net.so", "libnccl-net-ofi.so", "libnccl-net-aws-ofi.so")
TUNER = ("libnccl-ofi-tuner.so", "libnccl-tuner-ofi.so")
_PLUGIN = re.compile(rb"aws-ofi-nccl (\d+\.\d+(?:\.\d+)?)")
_INSTALLER = re.compile(r"EFA installer version:\s*(\d+\.\d+(?:\.\d+)?)", re.IGNORECASE)
_LIBFABRIC = re.compile(r"^libfabric: (\d+\.\d+(?:\.\d+)?\S*)\s*$", re.MULTILINE)
ABSENT = "absent"


@efa_check(
    "efa.plugin",
    ("libfabric", "installer", "installer_number", "plugins", "plugin_numbers", "tuner", "nccl"),
    timeout_s=30,
    needs="fi_info, the installed files",
    cost="seconds",
    holds=lists("plugins"),
)
def plugin(context: Context) -> Measurement:
    """Reads the versions of libfabric, the EFA installer, the aws-ofi-nccl plugin and NCCL.

    Versions as numbers are major * 10^6 + minor * 10^3 + patch: 1016002 is 1.16.2; 0 is "absent". `plugins` are the
    files that NCCL may load, the first on its search path first; a null in `plugin_numbers` is a file without a version
    in it. `nccl` is what libnccl.so.2 says of itself, "absent" where the loader finds none (it may be within torch).
    """
    result = tool.run(("fi_info", "--version"), context.timeout_s * 0.5)
    libfabric = _LIBFABRIC.search(result.stdout)
    if libfabric is None or not result.whole or result.code:
        raise CheckError(f"the output of fi_info --version has no version: {result.account()[:500]}")
    installer = read_installer(INSTALLED)
    folders = search_path(os.environ.get("LD_LIBRARY_PATH", ""))
    versions = {str(path): number_of(version_in(path)) for path in files(folders, NET)}
    tuner = next((str(path) for path in files(folders, TUNER)), ABSENT)
    return Measurement(
        {
            "libfabric": libfabric.group(1),
            "installer": installer or ABSENT,
            "installer_number": number_of(installer) or 0,
            "plugins": tuple(versions) or (ABSENT,),
            "plugin_numbers": tuple(versions.values()) or (0,),
            "tuner": tuner,
            "nccl": nccl_version(),
        },
        "\n".join(
            [
                result.account(),
                f"EFA installer: {installer or ABSENT}",
                *(f"{path}: version {number}" for path, number in versions.items()),
                f"tuner: {tuner}",
            ]
        ),
    )


def read_installer(path: Path) -> str:
    """The EFA installer's version; "" if it left no file. Raises CheckError if the file does not say."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise CheckError(f"{path}: {error.strerror}") from error
    match = _INSTALLER.search(text)
    if match is None:
        raise CheckError(f"{path} has no EFA installer version: {text[:200]!r}")
    return match.group(1)


def search_path(library_path: str) -> tuple[Path, ...]:
    """Folders in the order of search: the environment's, then where installers put the plugin."""
    configured = [folder for folder in library_path.split(":") if folder]
    standard = [path for pattern in FOLDERS for path in sorted(glob.glob(pattern))]
    return tuple(Path(folder) for folder in dict.fromkeys((*configured, *standard)))


def files(folders: Iterable[Path], names: Iterable[str]) -> tuple[Path, ...]:
    """The files of those names, each once however many links lead to it."""
    wanted = tuple(names)
    by_target: dict[str, Path] = {}
    for folder in folders:
        for name in wanted:
            path = folder / name
            if path.is_file():
                by_target.setdefault(os.path.realpath(path), path)
    return tuple(by_target.values())


def version_in(path: Path) -> str:
    """The version in a plugin's own text ("Initializing aws-ofi-nccl 1.16.2-aws"), or "".  Raises CheckError."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            match = _PLUGIN.search(data)
            return match.group(1).decode() if match else ""
    except ValueError:
        return ""  # an empty file cannot be mapped
    except OSError as error:
        raise CheckError(f"{path}: {error.strerror}") from error


def number_of(version: str) -> int | None:
    """1016002 for "1.16.2", None if there is no version."""
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    if match is None:
        return None
    major, minor, patch = (int(digits or 0) for digits in match.groups())
    return major * 10**6 + minor * 10**3 + patch


def nccl_version() -> str:
    """What libnccl.so.2 answers, as "2.27.3"; "absent" where the loader finds none."""
    try:
        library = ctypes.CDLL("libnccl.so.2")
        number = ctypes.c_int()
        if library.ncclGetVersion(ctypes.byref(number)) != 0:
            return ABSENT
    except (OSError, AttributeError):
        return ABSENT
    return nccl_text(number.value)


def nccl_text(number: int) -> str:
    """2.27.3 for 22703; before 2.9 the numbers were shorter (2.8.4 is 2804)."""
    if number >= 10000:
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    return f"{number // 1000}.{number // 100 % 10}.{number % 100}"
