"""What no AWS has: /_stand_in/..., where tests turn dials, look behind the curtain and play fate. And the containers' credentials."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.fakes.sagemaker.errors import ApiError
from tests.fakes.sagemaker.job import Job

if TYPE_CHECKING:
    from tests.fakes.sagemaker.front import Front
    from tests.fakes.sagemaker.plane import Plane


def answer(front: Front, method: str, path: str, body: bytes) -> tuple[int, Any]:
    """HTTP status and what to answer as JSON."""
    verb, _, rest = path.removeprefix("/_stand_in/").partition("/")
    if verb == "credentials":
        return _credentials(front.plane, rest)
    if verb not in VERBS:
        return 404, {"error": f"no verb {verb!r}: there are {', '.join(VERBS)}"}
    try:
        with front.plane.lock:
            return 200, VERBS[verb](front, **json.loads(body or b"{}"))
    except (ApiError, KeyError, IndexError, TypeError, ValueError) as error:
        return 400, {"error": f"{type(error).__name__}: {error}"}


def _dial(front: Front, name: str, value: Any) -> Any:
    front.plane.dials.turn(name, value)
    front.faults.forget()
    return None


def _seen(job: Job) -> dict[str, Any]:
    """What DescribeTrainingJob says, and what it never does: machines, lives, repairs."""
    behind = {"machines": [machine.id for machine in job.machines], "lives": job.life, "repairs": job.repairs}
    return job.describe(0.0) | behind | {"settled": job.done.is_set()}


def _hosts(front: Front, job: str) -> Any:
    """Of the last life."""
    hosts = front.plane.find(job).hosts
    return [{"machine": host.machine.id, "address": host.place.address} for host in hosts]


def _running(front: Front) -> Any:
    hosts = [host for job in front.plane.jobs.values() for host in job.hosts]
    return [host.process.pid for host in hosts if host.process and host.code is None]


def _repair(front: Front, job: str, index: int) -> str:
    """Replace one machine of the job's pool; its id afterwards. The pool stays as it is for everybody who looks.

    "Warm pools": one with a faulty instance "enters repair mode to reboot or replace" it and can be used again, so that ReusedByJob
    proves no machine. Raises KeyError where the job has no pool that is Available.
    """
    pool = front.plane.pools.of(front.plane.find(job))
    if pool is None:
        raise KeyError(f"{job} has no pool that is Available")
    pool.machines[index] = front.plane.fleet.replace(pool.machines[index])
    return pool.machines[index].id


VERBS: dict[str, Callable[..., Any]] = {
    "dial": _dial,
    "machines": lambda front: [vars(machine) for machine in front.plane.fleet.machines],
    "jobs": lambda front: {name: _seen(job) for name, job in front.plane.jobs.items()},
    "hosts": _hosts,
    "running": _running,
    "repair": _repair,
}


def _credentials(plane: Plane, token: str) -> tuple[int, Any]:
    """Temporary ones of the execution role ("Container credential provider", AWS SDKs: these five members)."""
    role = plane.roles.get(token)
    if role is None:
        return 404, {"message": "no such container"}
    until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    return 200, {
        "RoleArn": role,
        "AccessKeyId": f"ASIA{token[:16].upper()}",
        "SecretAccessKey": f"secret-of-{token}",
        "Token": f"token-of-{token}",
        "Expiration": until.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
