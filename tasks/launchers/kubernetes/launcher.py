"""Jobs of Kubernetes: a pod per node, which starts the gate's agent.

What is known of a job is in the API server: its record (job_record.py), its Jobs and its pods.
"""

from __future__ import annotations

import base64
import contextlib
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from checks.judge.machine_identity import ENGINE_BOOT_ID
from checks.model import KernelLog
from tasks.launchers.attempt_folder import Attempts, attempts_in, has_started
from tasks.launchers.base import (
    FAILED_NODE_GRACE_S,
    Delays,
    JobHandle,
    JobSpec,
    JobState,
    JobStatus,
    LaunchError,
    Placement,
    Plan,
    PreflightCheck,
    Trouble,
)
from tasks.launchers.interruption import uninterruptible
from tasks.launchers.job_files import FolderLauncher, file_errors
from tasks.launchers.job_rules import no_job
from tasks.launchers.kubernetes import job_record, objects, preflight
from tasks.launchers.kubernetes import submit as submission
from tasks.launchers.kubernetes.api import CONFIG_MAP, SECRET, Api, ApiRefused, explained, explaining
from tasks.launchers.kubernetes.api import NODE as NODE_KIND
from tasks.launchers.kubernetes.job_states import (
    MOST_NAMED,
    PodsState,
    PodView,
    WorkloadView,
    cut_off_text,
    has_ended,
    newest,
    outliving,
    together,
    workload_view,
)
from tasks.launchers.kubernetes.options import PINNABLE, KubernetesOptions, Reports
from tasks.launchers.kubernetes.output import PodOutput, for_people
from tasks.launchers.kubernetes.pod import ANSWERS_SUFFIX, UPLOAD_S
from tasks.launchers.kubernetes.pod_template import read_template
from tasks.launchers.kubernetes.workload_forms import FORMS
from tasks.launchers.log_end import NodeLog, cause_of, node_log
from tasks.text.inert import one_line
from tasks.text.redact import redacted_tail

Options = KubernetesOptions
# An unprivileged pod has no /dev/kmsg and not CAP_SYSLOG (the default capabilities of containerd and CRI-O).
KERNEL_LOG = KernelLog.WITHHELD
NODE = r"node-\d{1,6}"
# Beyond the time that a container has to end: the kubelet, the garbage collector, and a node that does not answer.
CANCEL_S = 120.0
LOG_LINES = 5000
# How late a report may be seen: the next look at a log, at S3, or by an NFS client (nfs(5), acdirmin).
REPORTS_S = {Reports.LOGS: 10.0, Reports.S3: 10.0, Reports.VOLUME: 30.0}


def launcher(options: KubernetesOptions, root: Path) -> KubernetesLauncher:
    """Make the launcher, for the registry. Raises LaunchRejected if the pod template cannot be used."""
    return KubernetesLauncher(root, options)


class KubernetesLauncher(FolderLauncher):
    """Jobs in one namespace. Below `root` is what was read of their logs."""

    silence_s = 600.0

    def __init__(self, root: Path, options: KubernetesOptions) -> None:
        self.root, self.options = root, options
        self.api = Api(options.namespace, options.kubeconfig_file, options.context)
        self.form = FORMS[options.workload]
        self.placement = Placement(options.placement)
        self.poll_s = options.poll_seconds
        self.start_s = options.start_minutes * 60
        self.excludes_failed, self.holds_nodes = options.exclude_failed, False
        self.delays = Delays(options.joins_s + 60.0, REPORTS_S[options.reports], 60.0)
        self._template = read_template(options.pod_template_file)
        self._outputs: dict[str, PodOutput] = {}
        self._stuck_since: dict[str, float] = {}
        self._failed_since: dict[str, float] = {}
        self._unread_since: dict[str, float] = {}
        self._boots: dict[tuple[str, int], str] = {}

    @property
    def offers(self) -> Mapping[Placement, float]:
        pinned = {Placement.PINNED: 0.0} if self.options.workload in PINNABLE else {}
        return {Placement.IN_JOB: 0.0, **pinned}

    def node_names(self, nodes: int) -> tuple[str, ...]:
        return tuple(f"node-{index}" for index in range(nodes))

    def plan(self, job: JobSpec) -> Plan:
        return objects.make_plan(job, self.options, self._template)

    def submit(self, plan: Plan) -> JobHandle:
        self._require_own(plan)
        with explaining(plan.job.name):
            return submission.submit(self.api, plan, self.form)

    def state(self, name: str) -> JobStatus:
        if not re.fullmatch(objects.JOB_NAME, name):
            return no_job(f"no job is named {name!r:.80}")
        try:
            return self._ask(name)
        except ApiRefused as refusal:
            return self._attempts(name).status(JobState.UNKNOWN, str(explained(refusal, name)))
        except (LaunchError, OSError) as error:
            return self._attempts(name).status(JobState.UNKNOWN, str(error))

    def fetch(self, name: str, into: Path) -> None:
        if re.fullmatch(objects.JOB_NAME, name) and self.options.reports is not Reports.VOLUME:
            with explaining(name), file_errors(f"{name}: its output cannot be fetched", into):
                self._output(name).bring(newest(submission.pods_of(self.api, name)))
        super().fetch(name, into)

    def logs(self, name: str, node: str, last_bytes: int = 65536) -> str:
        if not re.fullmatch(objects.JOB_NAME, name) or not re.fullmatch(NODE, node):
            return ""
        with explaining(name):
            pod = submission.pod_of(self.api, name, node)
            query = {"container": self.form.container, "tailLines": str(LOG_LINES)}
            return for_people(self.api.log(pod.name, query), last_bytes) if pod else ""

    def cancel(self, name: str) -> None:
        if not re.fullmatch(objects.JOB_NAME, name):
            return
        with uninterruptible(), explaining(name):
            submission.retried(lambda: self._cancel(name))

    def preflight(self, plans: tuple[Plan, ...]) -> tuple[PreflightCheck, ...]:
        return preflight.check(self.api, plans, self.options)

    def answer(self, name: str, attempt: str, data: bytes) -> None:
        self._require_attempt(name, attempt)
        if self.options.reports is Reports.VOLUME:
            super().answer(name, attempt, data)
        body = {"binaryData": {f"{attempt}.json": base64.b64encode(data).decode()}}
        with explaining(name):
            if self.api.patch(CONFIG_MAP, name + ANSWERS_SUFFIX, body) is None:
                message = f"{name}: its ConfigMap for answers is gone, so its pods cannot be given one."
                raise LaunchError(message)

    def _cancel(self, name: str) -> None:
        status = self.state(name)  # a job that ended well stays so
        # Where nobody finished its submission, some of its objects may be there.
        record = job_record.read(self.api, name) if status.absent else None
        if status.state.final or (status.absent and (record is None or not record.ours)):
            return
        self._end(name, self._attempts(name).status(JobState.CANCELLED, "cancelled", Trouble.STOPPED))

    def _out(self, name: str) -> Path | None:
        return self._output(name).folder if re.fullmatch(objects.JOB_NAME, name) else None

    def _attempts(self, name: str) -> Attempts:
        return attempts_in(self._output(name).folder)

    def _output(self, name: str) -> PodOutput:
        return self._outputs.setdefault(name, PodOutput(self.api, name, self.root, self.options))

    def _ask(self, name: str) -> JobStatus:
        """What the API server says. Raises ApiRefused, LaunchError, OSError."""
        record = job_record.read(self.api, name)
        if record is None or not record.ours:
            orphans = 0 if record is not None else len(submission.pods_of(self.api, name))
            detail = f"there is no job {name} in namespace {self.options.namespace}"
            detail += f", and {orphans} pods of it: somebody has deleted its record" if orphans else ""
            return JobStatus(JobState.UNKNOWN, detail, "", {}, absent=not orphans)
        if record.final is not None:
            return record.final
        views = [workload_view(workload) for workload in submission.workloads(self.api, name, self.form)]
        pods = submission.pods_of(self.api, name)
        if record.ending is not None:
            left = [pod.text for pod in pods[:8]] or [view.name for view in views[:8]]
            if not left:
                return self._final(name, record.ending)
            detail = f"it is being ended, and not known to be gone: {'; '.join(left)}"
            return self._attempts(name).status(JobState.RUNNING, detail)
        if not record.submitted:
            # A gate that was killed, or one that is submitting at this moment: the next submit goes on with it.
            return no_job(f"{name} was prepared and never submitted. Submit it again.")
        return self._running(name, record.nodes, views, pods)

    def _running(
        self, name: str, nodes: int, views: list[WorkloadView], pods: tuple[PodView, ...]
    ) -> JobStatus:
        """The state of a job that was submitted, and is not being ended. Raises ApiRefused, LaunchError, OSError."""
        expected = nodes if self.form.each else 1
        current = newest(pods)
        unread = self._unread(name, current)
        agents = self._attempts(name)
        if len(views) < expected:
            gone = agents.status(JobState.CANCELLED, f"somebody has deleted a Job of {name}", Trouble.STOPPED)
            return self._final(name, gone, ended=not views and not pods)
        machines = {pod.node: self._machine_of(pod) for pod in current if pod.host}
        verdict = together(nodes, views, pods)
        begun = has_started(self._output(name).folder, agents.current)
        if not begun and self._image_is_late(name, verdict):
            verdict = PodsState(JobState.FAILED, Trouble.CONFIGURATION, verdict.detail, verdict.exit_codes)
        if unread and verdict.state.final and verdict.exit_codes:
            # Nobody asks again about a final state. What cannot be read for so long is missing: its node may be gone.
            if time.monotonic() - self._unread_since.setdefault(name, time.monotonic()) < self.silence_s:
                return agents.status(JobState.UNKNOWN, f"{verdict.detail}; {unread}")
            verdict = replace(verdict, detail=f"{verdict.detail}; {unread}")
        codes = {**dict(agents.exit_codes), **verdict.exit_codes}
        # With auto-resume a node on which the training has failed is started again.
        others = outliving(current, codes) if begun and not self.options.auto_resume else ()
        if not others:
            self._failed_since.pop(name, None)
        since = self._failed_since.setdefault(name, time.monotonic()) if others else 0.0
        left_s = since + FAILED_NODE_GRACE_S - time.monotonic()
        if others and left_s <= 0:
            end = _final_of(verdict, agents, current, machines)
            return self._final(name, self._cut_off(name, end, others), ended=False)
        if others or not verdict.state.final:
            failed = ", ".join([node for node, code in codes.items() if code][:MOST_NAMED])
            waits = (
                f"{failed} failed; the other nodes have {left_s:.0f} s to end by themselves" if others else ""
            )
            state = verdict.state if not verdict.state.final else JobState.RUNNING
            now = agents.status(state, "; ".join(filter(None, (verdict.detail, waits, unread))))
            return replace(now, exit_codes=codes, machines=machines)
        final = _final_of(verdict, agents, current, machines)
        return self._final(name, final, ended=has_ended(views, pods))

    def _cut_off(self, name: str, final: JobStatus, others: tuple[str, ...]) -> JobStatus:
        """The end of such a job. The logs are read now: a deleted pod has none."""
        logs = list[NodeLog]()
        with contextlib.suppress(LaunchError):
            failed = [node for node, code in final.exit_codes.items() if code][:MOST_NAMED]
            logs += [node_log(node, redacted_tail(self.logs(name, node))) for node in failed]
        detail = cut_off_text(final.exit_codes.items(), one_line(cause_of(logs).text))
        return replace(final, state=JobState.FAILED, trouble=Trouble.ENDED, detail=detail, ended=others)

    def _unread(self, name: str, pods: tuple[PodView, ...]) -> str:
        """Bring what the pods wrote; why that is not possible now, "" if it is. The job's own state does not depend on it."""
        try:
            self._output(name).bring(pods)
        except (LaunchError, OSError) as error:
            return f"its reports cannot be read now: {error}"
        return ""

    def _machine_of(self, pod: PodView) -> dict[str, str]:
        """The node of Kubernetes, and the boot id that its kubelet reported, asked once per start; without it if nobody says it.

        A node may be rebooted below a pod whose container is started again.
        """
        start = (pod.name, pod.restarts)
        if start not in self._boots:
            try:
                node = self.api.get(NODE_KIND, pod.host) or {}
            except ApiRefused:  # the right is for the whole cluster, and a gate can do without it
                node = {}
            info = (node.get("status") or {}).get("nodeInfo") or {}
            self._boots[start] = str(info.get("bootID") or "")
        boot = self._boots[start]
        return {"engine_node": pod.host, **({ENGINE_BOOT_ID: boot} if boot else {})}

    def _image_is_late(self, name: str, verdict: PodsState) -> bool:
        """Whether pods have waited long enough for something that may pass, such as a registry that does not answer."""
        if not verdict.stuck:
            self._stuck_since.pop(name, None)
            return False
        since = self._stuck_since.setdefault(name, time.monotonic())
        return time.monotonic() - since > self.options.image_minutes * 60

    def _final(self, name: str, final: JobStatus, ended: bool = True) -> JobStatus:
        """Record the end. A job of which something is left is ended first."""
        if ended:
            job_record.write_final(self.api, name, final)
            self.api.delete(SECRET, name)  # no start of this job will need the key
        else:
            self._end(name, final)
        return final

    def _end(self, name: str, final: JobStatus) -> None:
        """End the job in that state. Raises ApiRefused, LaunchError."""
        job_record.write_ending(self.api, name, final)
        with contextlib.suppress(LaunchError, OSError):
            self._output(name).bring(newest(submission.pods_of(self.api, name)))  # a deleted pod has no log
        within_s = self.options.grace_s + UPLOAD_S + CANCEL_S
        submission.end_all(self.api, name, self.form, within_s, min(self.poll_s, 1.0))
        job_record.write_final(self.api, name, final)
        submission.remove(self.api, name)


def _final_of(
    verdict: PodsState, agents: Attempts, pods: tuple[PodView, ...], machines: Mapping[str, Mapping[str, str]]
) -> JobStatus:
    codes = {**dict(agents.exit_codes), **verdict.exit_codes}
    # Where no file came, the termination message still has the token.
    attempt = agents.current or next((pod.ending.attempt for pod in pods if pod.ending.attempt), "")
    final = agents.status(verdict.state, verdict.detail, verdict.trouble)
    return replace(final, attempt=attempt, exit_codes=dict(sorted(codes.items())), machines=machines)
