"""Training jobs of Amazon SageMaker: one request per job. Jobs are looked up by name alone, so that a wait survives the worker."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from checks.model import KernelLog
from tasks.launchers import base
from tasks.launchers.attempts import ATTEMPT
from tasks.launchers.interruption import uninterruptible
from tasks.launchers.job_rules import no_job
from tasks.launchers.sagemaker import job_states, warm_pool
from tasks.launchers.sagemaker import submit as ending
from tasks.launchers.sagemaker.api import JOB_NAME, Clients, Described, describe, names_of
from tasks.launchers.sagemaker.job_states import trouble_of
from tasks.launchers.sagemaker.options import SageMakerOptions
from tasks.launchers.sagemaker.output import logs
from tasks.launchers.sagemaker.output.fetch import SageMakerOutput, SeenOutput
from tasks.launchers.sagemaker.request.locations import object_of, places_of
from tasks.launchers.sagemaker.submit import remove_key, submit
from tasks.store.aws import AwsTimeouts

Options = SageMakerOptions
# SageMaker starts a training container as `docker run image train`, and no key of CreateTrainingJob asks for a privilege, capability
# or device: there is no /dev/kmsg in it, and Docker's default profile gives syslog(2) to CAP_SYSLOG alone (moby commit ccd22ffcc8b5).
KERNEL_LOG = KernelLog.WITHHELD
ANSWER_S = 20.0  # one look at a job; what did not come by then is asked again at the next
SILENCE_S = 300.0
PREFLIGHT = AwsTimeouts(read_s=10.0, deadline_s=5.0)


def launcher(options: SageMakerOptions, root: Path) -> SageMakerLauncher:
    """Make the launcher, for the registry. Nothing of a job is kept on this machine."""
    return SageMakerLauncher(options)


class SageMakerLauncher(base.Launcher):
    """Jobs of one account and region; everything that is known of them is in SageMaker, S3 and CloudWatch."""

    silence_s = SILENCE_S
    # Judgement: the roll call of the agents may take 180 s, and their code comes from S3 before it. Reports are copied to S3
    # every few seconds; SageMaker uploads outputs, and says so, within minutes.
    delays = base.Delays(begins_s=300.0, reports_s=30.0, ends_s=900.0)

    def __init__(self, options: SageMakerOptions, limits: AwsTimeouts | None = None) -> None:
        self.options = options
        self.placement = options.placement
        self.poll_s = options.poll_seconds
        self.start_s = options.start_minutes * 60
        self.keeps_s = float(options.keep_alive_s) if self.placement is base.Placement.POOLED else None
        self.clients = Clients(options.region, limits)
        self._outputs: dict[str, SageMakerOutput] = {}
        self._ended: set[str] = set()
        self._unseen: dict[str, bool] = {}

    @property
    def offers(self) -> dict[base.Placement, float]:
        return self.options.offers

    def node_names(self, nodes: int) -> tuple[str, ...]:
        return names_of(nodes)

    def plan(self, job: base.JobSpec) -> base.Plan:
        from tasks.launchers.sagemaker.job_request import make_plan

        return make_plan(job, self.options)

    def submit(self, plan: base.Plan) -> base.JobHandle:
        return submit(self.clients, plan, self._unseen)

    def state(self, name: str) -> base.JobStatus:
        try:
            described = describe(self.clients, name, ANSWER_S)
            if described is None:
                return no_job(f"SageMaker in {self.options.region} knows no training job {name!r:.80}")
            return self._status(name, described)
        except base.LaunchError as error:
            return base.JobStatus(base.JobState.UNKNOWN, str(error), "", {})

    def fetch(self, name: str, into: Path) -> None:
        try:
            into.mkdir(parents=True, exist_ok=True)
            if not JOB_NAME.fullmatch(name):
                return
            described = describe(self.clients, name, ANSWER_S)
            if described is not None:
                self._output(name).fetch(into, described if job_states.state_of(described).final else None)
        except OSError as error:
            message = f"{name}: {into} cannot be written ({error.strerror or error}). Free space, or choose another folder."
            raise base.LaunchError(message) from error

    def logs(self, name: str, node: str, last_bytes: int = 65536) -> str:
        if not JOB_NAME.fullmatch(name) or not re.fullmatch(r"[A-Za-z0-9-]{1,63}", node):
            return ""
        return logs.tail(self.clients, name, node, last_bytes)

    def cancel(self, name: str) -> None:
        if not JOB_NAME.fullmatch(name):
            return
        with uninterruptible():
            inputs = places_of(self.options, name).inputs
            ending.cancel(self.clients, name, inputs, self.poll_s, self._unseen)
            self._remove_key(name)

    def preflight(self, plans: tuple[base.Plan, ...]) -> tuple[base.PreflightCheck, ...]:
        from tasks.launchers.sagemaker.preflight import check

        return check(plans, self.options, Clients(self.options.region, PREFLIGHT))

    def retained_machines(self, name: str) -> base.RetainedMachines:
        return warm_pool.retained_machines(self.clients, name)

    def release(self, name: str) -> str:
        with uninterruptible():
            return warm_pool.release(self.clients, name, self.poll_s)

    def answer(self, name: str, attempt: str, data: bytes) -> None:
        if not JOB_NAME.fullmatch(name) or not re.fullmatch(ATTEMPT, attempt):
            raise base.LaunchRejected(f"there is no attempt {attempt!r:.80} of job {name!r:.80} to answer.")
        self._put(places_of(self.options, name).answer(attempt), data)

    def hand_out(self, name: str, report: bytes) -> str:
        if not JOB_NAME.fullmatch(name):
            return ""
        url = places_of(self.options, name).seed
        self._put(url, report)
        return url

    def _status(self, name: str, described: Described) -> base.JobStatus:
        state, detail = job_states.state_of(described), job_states.detail_of(described)
        latest, output = SeenOutput(), self._output(name)
        if job_states.trained(described):
            try:
                latest = output.summary(described)
            except base.LaunchError as error:
                if state.final and isinstance(error, base.EngineUnavailable):
                    raise  # whether there are reports is not known: ask again
                latest = output.last  # a job that runs is not given up because S3 is silent
                detail = f"{detail}: its reports cannot be read: {error}"
        trouble = trouble_of(
            *job_states.pair(described),
            str(described.get("FailureReason") or ""),
            job_states.trained(described),
        )
        history = job_states.history_of(described)
        status = base.JobStatus(
            state, detail, latest.attempt, latest.exit_codes, trouble, latest.earlier, history
        )
        if not state.final:
            return status
        self._remove_key(name)
        ends = [f"{node} ended with {code}" for node, code in status.exit_codes.items() if code][:8]
        return dataclasses.replace(status, detail="; ".join((status.detail, *ends)))

    def _remove_key(self, name: str) -> None:
        if name not in self._ended:
            self._ended.add(name)
            remove_key(self.clients, places_of(self.options, name).inputs)

    def _output(self, name: str) -> SageMakerOutput:
        return self._outputs.setdefault(name, SageMakerOutput(self.clients, places_of(self.options, name)))

    def _put(self, url: str, data: bytes) -> None:
        self.clients.call("s3", "put_object", **object_of(url), Body=data)
