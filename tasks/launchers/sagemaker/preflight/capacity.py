"""Whether the instance type is one for training, and whether the training plan holds the machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from checks.decode import nearest
from tasks.launchers.base import Line
from tasks.launchers.sagemaker.preflight.asked import Asked, Fleet
from tasks.launchers.sagemaker.preflight.looking import Clients, Unseen, ask, ok, wrong
from tasks.launchers.sagemaker.preflight.subnets import described

TYPE, PLAN = "instance type", "training plan"
# "Reserve training plans for your training jobs": SageMaker begins to end the jobs 30 minutes before the capacity does.
ENDING = timedelta(minutes=30)


def types(asked: Asked, clients: Clients) -> tuple[Line, ...]:
    """A line for each type: botocore's own list of those that train (TrainingInstanceType)."""
    known = tuple(clients.sagemaker.meta.service_model.shape_for("TrainingInstanceType").enum)
    return tuple(_type(fleet, known) for fleet in asked.fleets)


def plan(asked: Asked, clients: Clients) -> tuple[Line, ...]:
    """Active or about to be, large enough, of these machines, in a zone of the subnets, and not about to end."""
    name = asked.plan.rpartition("/")[2]
    try:
        found = ask(clients.sagemaker, "describe_training_plan", TrainingPlanName=name)
    except Unseen as error:
        if error.code in ("ResourceNotFound", "ResourceNotFoundException"):
            return (
                wrong(
                    PLAN, f"there is no training plan {name}", "Correct training_plan_arn in the gate file."
                ),
            )
        raise
    zones = {one["AvailabilityZone"] for net in asked.networks for one in described(net, clients)}
    faults = tuple(fault for fault in faults_of(found, asked, zones, datetime.now(UTC)))
    if faults:
        return tuple(wrong(PLAN, f"{name}: {said}", remedy) for said, remedy in faults)
    end = f", ends {found['EndTime']:%Y-%m-%d %H:%M} UTC" if found.get("EndTime") else ""
    return (
        ok(
            PLAN, f"{name}: {found['Status']}, {found.get('AvailableInstanceCount', '?')} instances free{end}"
        ),
    )


def faults_of(
    found: Mapping[str, Any], asked: Asked, zones: set[str], now: datetime
) -> Iterator[tuple[str, str]]:
    """What is wrong with the plan, each with its remedy. Pure; `zones` empty is no VPC."""
    status = found["Status"]
    if status not in ("Active", "Scheduled"):
        yield f"it is {status}: {found.get('StatusMessage', '')}".rstrip(": "), "Name a plan that is Active."
        return
    starts, ends = found.get("StartTime"), found.get("EndTime")
    if status == "Scheduled" and starts and starts > now + timedelta(seconds=asked.start_s):
        yield (
            f"it starts {starts:%Y-%m-%d %H:%M} UTC, and the gate waits {asked.start_s / 60:g} minutes",
            "Run the gate later, or raise start_minutes.",
        )
    if ends and ends - ENDING < max(now, starts or now) + timedelta(seconds=asked.check_s):
        yield (
            f"it ends {ends:%Y-%m-%d %H:%M} UTC, before a check of {asked.check_s / 60:g} minutes",
            "Extend it.",
        )
    yield from _machines(found, asked, zones)


def _machines(found: Mapping[str, Any], asked: Asked, zones: set[str]) -> Iterator[tuple[str, str]]:
    reserved = found.get("ReservedCapacitySummaries", ())
    kinds = {one["InstanceType"] for one in reserved}
    for fleet in asked.fleets:
        if kinds and fleet.kind not in kinds:
            yield f"it reserves {', '.join(sorted(kinds))}, not {fleet.kind}", "Name a plan of this type."
    free = found.get("AvailableInstanceCount")
    if found["Status"] == "Active" and free is not None and free < asked.nodes:
        yield (
            f"{free} instances are free, {asked.nodes} wanted ({found.get('UnhealthyInstanceCount', 0)} unhealthy)",
            "Wait for its other jobs to end, or ask for fewer machines.",
        )
    there = {one["AvailabilityZone"] for one in reserved if one.get("AvailabilityZone")}
    if zones and there and not zones & there:
        yield (
            f"its machines are in {', '.join(sorted(there))}, the subnets in {', '.join(sorted(zones))}",
            "Name a subnet in the plan's zone.",
        )


def _type(fleet: Fleet, known: tuple[str, ...]) -> Line:
    if fleet.kind in known:
        return ok(TYPE, f"{fleet.nodes} x {fleet.kind}")
    near = nearest(fleet.kind, known)
    remedy = (
        f"Did you mean {near}? A newer type needs a newer boto3." if near else "Update boto3, or correct it."
    )
    return wrong(TYPE, f"{fleet.kind} is no type for training that boto3 knows", remedy)
