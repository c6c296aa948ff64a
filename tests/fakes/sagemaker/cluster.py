"""One life of a job's containers on its machines: started, watched, ended; nothing of it runs on."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fakes.sagemaker import host as hosts_
from tests.fakes.sagemaker import network
from tests.fakes.sagemaker.host import Host
from tests.fakes.sagemaker.images import Image
from tests.fakes.sagemaker.job import Job, Pool
from tests.fakes.sagemaker.network import Loopback, Namespaces
from tests.fakes.sagemaker.storage import Storage

if TYPE_CHECKING:
    from tests.fakes.sagemaker.plane import Plane

POLL_S = 0.02


@dataclass(frozen=True)
class Ended:
    """Why a life ended: "" where every host ended by itself with 0. `first` is the host that ended first with another code."""

    why: str = ""
    first: Host | None = None


def lay_out(job: Job, folder: Path, place: Loopback | Namespaces) -> list[Host]:
    """The hosts of the next life, algo-1 to algo-N."""
    places = place.places(job.count, bool(job.request.get("EnableNetworkIsolation")))
    names = [f"algo-{number}" for number in range(1, job.count + 1)]
    hosts = zip(names, job.machines, places, strict=True)
    made = [Host(name, machine, where, folder / name) for name, machine, where in hosts]
    for host in made:
        host.furnish(job, made)
    return made


def download(job: Job, storage: Storage) -> None:
    """Input for every host. Raises storage.DataError."""
    for host in job.hosts:
        storage.download(job, host.opt_ml)


def start(job: Job, image: Image, plane: Plane) -> None:
    """Every host's entrypoint, and its log."""
    aws = plane.access(job)
    command = image.command(job.request["AlgorithmSpecification"])
    with plane.lock:
        if plane.closing:
            raise InterruptedError("the stand-in is being closed")
        for host in job.hosts:
            given = hosts_.environment(job, image, host.machine, aws)
            # "Persistent cache": the folder and its variable are there for jobs with a warm pool.
            cache = str(plane.fleet.cache(host.machine)) if job.pool is Pool.IN_USE else ""
            if cache:
                given["SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY"] = hosts_.CACHE
            host.start(command, given, image.working_directory, cache)
    for host in job.hosts:
        host.read(plane.logs, job.name)


def watch(job: Job, until: float) -> Ended:
    """Until all hosts ended with 0, one did not, or somebody wants the end: Stopped, MaxRuntimeExceeded."""
    while True:
        codes = [host.code for host in job.hosts]
        failed = next((h for h, code in zip(job.hosts, codes, strict=True) if code), None)
        if failed is not None:
            return Ended("Failed", failed)
        if all(code == 0 for code in codes):
            return Ended()
        if job.stop.is_set():
            return Ended("Stopped")
        if time.time() > until:
            return Ended("MaxRuntimeExceeded")
        time.sleep(POLL_S)


def end(job: Job, grace_s: float) -> None:
    """SIGTERM, the grace, SIGKILL ("StopTrainingJob"); then the rest of the logs."""
    for host in job.hosts:
        host.signal(signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while any(host.code is None for host in job.hosts) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    for host in job.hosts:
        host.signal(signal.SIGKILL)
    open_places = [host.place for host in job.hosts if not host.closed]
    for host in job.hosts:
        if host.process:
            host.process.wait()
        host.close()
    network.close(open_places)
