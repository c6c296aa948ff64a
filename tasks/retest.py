"""The re-test of a node that is fenced: a gate of its own, and what it proves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from prefect.client.schemas.objects import State

from checks.documents.report import digest
from checks.facts.profile_options import DEADLINE_S
from checks.judge.clocks import seconds_of
from tasks.gate.context import GateContext, launcher_of
from tasks.gate.progress import LISTENER, EndListener
from tasks.gate_file.model import START_S
from tasks.gate_file.model import Mode as GateMode
from tasks.gate_file.people import Approval, Notify
from tasks.gate_file.request import Advanced, GateRequest
from tasks.launchers.base import LaunchRejected
from tasks.machines.base import Retest
from tasks.remediation.drive import Rechecked
from tasks.remediation.model import Case, Proof
from tasks.remediation.proof import DEPTH, proof_of
from tasks.text.inert import one_line

NAME = "-retest-"
CLUSTER_CHARACTERS = 63
# A gate on a context that was opened already.
Gate = Callable[[GateRequest, GateContext], Awaitable[State[Any]]]


def retest_context(context: GateContext, case: Case, retest: Retest) -> GateContext:
    """The gate of a re-test: the same checks, on exactly these nodes, at least as thorough and as long as that takes; it pages nobody
    and asks nobody, and measures everything itself.

    Its cluster has a name of its own, so that gates of the cluster go on meanwhile; what it says of nodes counts for theirs. Raises
    LaunchRejected.
    """
    gate = context.gate
    mark = digest(f"{case.gate_id} {case.node}".encode())[:8]
    name = f"{gate.cluster.name[: CLUSTER_CHARACTERS - len(NAME) - len(mark)]}{NAME}{mark}"
    options = {**gate.cluster.options, **retest.options}
    declared = gate.cluster.declared.model_copy(update={"nodes": len(retest.nodes)})
    cluster = gate.cluster.model_copy(update={"name": name, "options": options, "declared": declared})
    profile = max(gate.checks.profile, case.profile, key=DEPTH.index)
    limits = gate.checks
    deadline_s = max(limits.deadline_s or 0.0, DEADLINE_S[profile])
    checks = limits.model_copy(
        update={
            "profile": profile,
            "deadline_s": deadline_s,
            "stage_s": max(limits.stage_s, deadline_s),
            "max_runtime_minutes": max(limits.max_runtime_minutes, (deadline_s + START_S) / 60),
        }
    )
    changed = gate.model_copy(
        update={
            "cluster": cluster,
            "checks": checks,
            "policy": gate.policy.model_copy(update={"mode": GateMode.ENFORCE, "reuse_pass_minutes": 0.0}),
            "notify": Notify(),
            "approval": Approval(),
        }
    )
    engine = replace(
        context.engine,
        options={**context.engine.options, **retest.options},
        root=str(context.local / "clusters" / name),
    )
    launcher = launcher_of(engine)
    measured = changed.declared(launcher.node_names(declared.nodes), context.declared.kernel_log)
    return replace(
        context, gate=changed, engine=engine, launcher=launcher, declared=measured, certifies=False,
        nodes_cluster=gate.cluster.name,
    )  # fmt: skip


async def run_retest(context: GateContext, gate: Gate, case: Case, retest: Retest) -> Rechecked:
    """Run the gate of a re-test as a run below this one, and say what it proves. What fails is no proof."""
    reason = f"re-test of {case.node} for {case.gate_id}"
    request = GateRequest(
        gate_file=context.file, launch=False, wait="verdict", reason=reason, advanced=Advanced(ask_minutes=0)
    )
    heard = EndListener()
    LISTENER.set(heard)
    try:
        state = await gate(request, retest_context(context, case, retest))
    except LaunchRejected as error:
        return Rechecked(Proof.CANNOT_TELL, message=str(error))
    outcome = heard.outcome
    if outcome is None or outcome.judged is None:
        message = outcome.reason if outcome else f"it ended {state.name}: {state.message}"
        return Rechecked(
            Proof.CANNOT_TELL, gate_id=outcome.gate_id if outcome else "", message=one_line(message, 500)
        )
    report = outcome.judged.report
    proof, identity, message = proof_of(case, report, outcome.judged.verdict, context.policy)
    measured_at = seconds_of(report.measured_at) or 0.0  # which is stale
    return Rechecked(proof, identity, outcome.gate_id, one_line(message, 500), measured_at)
