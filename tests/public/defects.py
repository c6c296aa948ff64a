"""What public tools of this kind answer wrongly to an output of another tool, and what Prelaunch has to answer: the rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from checks.facts.builtin import builtin
from checks.judge.verdict import decide
from checks.model import Answer, Cause, Level, Observation, Outcome, Report, Skip, Value, Verdict, node_of
from checks.probes.compute import sdc
from checks.probes.dcgm import diag
from tasks.gate_file.references import default_policy
from tests import second_opinion
from tests.catalogue_reports import expected_report
from tests.checks.culprit.rows import slow_ranks, tournament
from tests.checks.judge.culprits.test_findings import _policy as pairs_policy
from tests.corpus import compute_machines as machines
from tests.corpus import dcgm_cases, efa_cases, judging
from tests.corpus.case import Case, Sort, declared
from tests.corpus.judging import verdict_of
from tests.fakes import compute as fakes
from tests.fakes.tools import Reply
from tests.public.inputs import all_reduce, recording, replaced

GITHUB = "https://github.com/"
# The seed of this project, and the suites that it was compared with, at the commits that were read.
TRAIN = "train.py @daabee2"
AWS = "AWS suite @7217859f"
GCP = "GCP scanner @81c525d"
AZURE, GCM, OCI = "Azure NHC", "gcm, old", "OCI SDC checker"
# Where each was read.
UPSTREAM = {
    TRAIN: "brunopistone/sagemaker-training-jobs-cluster-health-check",
    AWS: "aws-samples/awsome-distributed-training",
    GCP: "GoogleCloudPlatform/cluster-health-scanner",
    AZURE: "Azure/azurehpc-health-checks",
    GCM: "facebookresearch/gcm/pull/38",
    OCI: "oracle-quickstart/oci-hpc",
    "nccl-tests": "NVIDIA/nccl-tests",
}
WORDS = {Answer.GO: "GO", Answer.NO_GO: "NO-GO", Answer.CANNOT_TELL: "CANNOT TELL"}
P5, P4D = "p5.48xlarge", "p4d.24xlarge"
TWO = ("node-a", "node-b")

Judged = Callable[[Path], Verdict]


@dataclass(frozen=True)
class Defect:
    """An input; who answers what; and what Prelaunch answers, with a finding that holds `says`.

    `tool` is a key of UPSTREAM, or the path of the upstream thread on GitHub ("NVIDIA/DCGM/issues/284").
    """

    input: str
    tool: str
    theirs: str
    judged: Judged
    ours: Answer
    says: str = ""

    @property
    def row(self) -> str:
        """Its line in docs/evidence/public-defects.md, with the link to where it was read."""
        said = f"{WORDS[self.ours]}: {self.says}" if self.says else WORDS[self.ours]
        _, name, *thread = self.tool.split("/") if self.tool not in UPSTREAM else ("", self.tool)
        named = f"{name} {'#' + thread[-1] if len(thread) == 2 and thread[-1].isdigit() else ''}".strip()
        link = f"[{named}]({GITHUB}{UPSTREAM.get(self.tool, self.tool)})"
        return f"| {self.input} | {link}: {self.theirs} | {said} |"


def explained(text: str, instance_type: str = "", nodes: int = 1) -> Judged:
    """By `prelaunch explain`, which has to recognise it."""

    def judge(tmp_path: Path) -> Verdict:
        return judging.explained(text, declared(instance_type, nodes) if instance_type else None)

    return judge


def node(check: str, observe: efa_cases.Observe, instance_type: str = P5) -> Judged:
    """By the check itself, on a node with fakes."""

    def judge(tmp_path: Path) -> Verdict:
        case = Case(check, Sort.FAULTY, "", observe, instance_type)
        return answered(verdict_of(case, tuple(observe(tmp_path))))

    return judge


def answered(verdict: Verdict) -> Verdict:
    """With the answer that its findings give: the report of one check alone lacks ranks, which the corpus leaves out."""
    failed = [finding.cause for finding in verdict.findings if finding.level is Level.FAIL]
    known = any(cause is not Cause.EVIDENCE for cause in failed)
    return replace(verdict, answer=NO_GO if known else CANNOT_TELL if failed else GO)


def reported(document: second_opinion.Document, instance_type: str = P5) -> Judged:
    """By `prelaunch explain`, which has to recognise the tool's own report."""
    return explained(json.dumps(document), instance_type, 2)


NO_GO, CANNOT_TELL, GO = Answer.NO_GO, Answer.CANNOT_TELL, Answer.GO
FAILED = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
DRAM, HEAT = "(<dram_uncorrectable>)[^<]*<", "clocks_event_reason_hw_thermal_slowdown"
# Algorithm bandwidth of two p5.48xlarge by size: 128 MiB and 1 GiB as published, between them as a curve goes.
TWO_P5 = {128 << 20: 154.22, 256 << 20: 185.0, 512 << 20: 212.0, 1 << 30: 233.04}
HALF = {size: rate / 2 for size, rate in TWO_P5.items()}
RAISED = second_opinion.put(
    "nodes.node_1.nccl.communication_tests.distributed_all_reduce",
    {"success": False, "error": "NCCL error 6"},
)
NO_TABLE = second_opinion.put(
    "nodes.node_1.dcgm.diagnostics.extended", {"success": True, "parsed_output": {"overall_status": "Pass"}}
)
HANGS = [Reply(dcgm_cases.text_of("diag_4_r2.json"), "diag", seconds=3600, part=0.5)]
OUTPUTS = (
    Defect("nccl-tests: wrong elements, printed as `1.04858e+06`", TRAIN, "the row vanishes, PASS",
        explained(all_reduce({1 << 20: "1.04858e+06"})), NO_GO, "wrong value"),
    Defect("nccl-tests under mpirun: `[1,0]<stdout>:` before each row", TRAIN, "no row is seen, PASS",
        explained(all_reduce({1 << 20: "3"}, prefix="[1,0]<stdout>:")), NO_GO, "wrong value"),
    Defect("nccl-tests that died before its first row", TRAIN, "an exception is logged, PASS",
        explained(all_reduce(sizes=(8,), end=False).rpartition("           8")[0]), CANNOT_TELL, "has no row of results"),
    Defect("nccl-tests of two nodes over NET/Socket, at a fiftieth of the rate", "nccl-tests", "`0 OK`, exit 0",
        explained(all_reduce(hosts=TWO, rate_gbps=6.0), P5, 2), NO_GO, "bandwidth between the nodes is 48 Gbit/s"),
    Defect("nccl-tests of two p5 over EFA, at half of what such nodes reach", TRAIN, "above 0.5 GB/s, PASS",
        explained(all_reduce(hosts=TWO, rates=HALF), P5, 2), NO_GO, "50 % of"),
    Defect("the same at the published rate: 289 GB/s at 128 MiB", AWS, "below 800 GB/s, warns",
        explained(all_reduce(hosts=TWO, rates=TWO_P5), P5, 2), GO),
    Defect("dcgmi diag 3, text: `Fail - GPU: 4` on a row without a name", TRAIN, "the row is dropped, Pass",
        explained(recording("dcgm/diag_33_r2_partial_fail.txt")), NO_GO, "GPU 4"),
    Defect("the same, below `Successfully ran diagnostic`", TRAIN, "success",
        explained(recording("dcgm/diag_33_r2_partial_fail.txt")), NO_GO, "fails DCGM's diagnostic"),
    Defect("dcgmi that hangs", TRAIN, "waits for ever", node("dcgm.diag", dcgm_cases.run(diag.diag, HANGS, deadline_s=0.4)),
        CANNOT_TELL, "deadline"),
    Defect("dcgmi diag 4, JSON, whose root key was renamed: GPU 5 fails", AWS, "no test is found, PASS",
        explained(recording("dcgm/diag_4_r2_memory_fail.json")), NO_GO, "GPU 5"),
    Defect("the same, with severity 6, RESET", GCP, "takes 3 for RESET, PASS unless strict",
        explained(replaced("dcgm/diag_4_r2_memory_fail.json", r'("error_severity" : )2', r"\g<1>6")), NO_GO, "error 4"),
    Defect("dcgmi diag: every test `Skip`", GCP, "ignored", explained(recording("dcgm/diag_4_r2_all_skip.json")), CANNOT_TELL,
        "did not pass"),
    Defect("dcgmi diag: `Not Run`", GCP, "ignored", explained(recording("dcgm/diag_4_r2_not_run.json")), CANNOT_TELL, "Not Run"),
    Defect("dcgmi diag: persistence mode is off, all else is well", GCP, "the node fails",
        explained(recording("dcgm/diag_4_r1_persistence.json")), GO, "a setting that DCGM's diagnostic warns about"),
    Defect("nvidia-smi that has failed, on a p5", TRAIN, "a CPU-only instance, PASS", explained(FAILED, P5), CANNOT_TELL,
        "nvidia-smi failed"),
    Defect("nvidia-smi: one GPU, on a p5.48xlarge", TRAIN, "never compared, PASS", explained(recording("gpu/h100_healthy.xml"), P5),
        NO_GO, "lacks 7 GPUs"),
    Defect("nvidia-smi: memory in use is `[N/A]`", TRAIN, "crashes",
        explained(replaced("gpu/h100_healthy.xml", r"<used>.*</used>", "<used>[N/A]</used>")), CANNOT_TELL, "memory_used_mib"),
    Defect("nvidia-smi: an ECC counter is `[N/A]`", GCP, "counts as one error",
        explained(replaced("gpu/h100_healthy.xml", DRAM, r"\1[N/A]<", 2)), CANNOT_TELL, "dram_uncorrected"),
    Defect("nvidia-smi: a row could not be remapped", AZURE, "reads another column, PASS",
        explained(replaced("gpu/h100_healthy.xml", "(<remapped_row_failure>)No<", r"\1Yes<")), NO_GO,
        "could not replace a broken row"),
    Defect("the same", AWS, "looks at retired pages, PASS",
        explained(replaced("gpu/h100_healthy.xml", "(<remapped_row_failure>)No<", r"\1Yes<")), NO_GO, "gpu.row_remap"),
    Defect("nvidia-smi: the hardware slows the clocks for heat", AZURE, "logged, success",
        explained(replaced("gpu/h100_healthy.xml", f"(<{HEAT}>)Not Active<", r"\1Active<")), NO_GO, "slowed by heat"),
    Defect("fi_info that lists tcp alone, on a p4d", TRAIN, "EFA is available",
        explained(replaced("efa/fi_info_tcp.txt", "^#.*", ""), P4D), NO_GO, "provider"),
    Defect("fi_info: 8 of 16 devices, with two endpoints each", TRAIN, "16 devices", explained(efa_cases.HALF, "p5en.48xlarge"),
        NO_GO, "is 8, but the instance type has 16"),
    Defect("fi_info is not installed", AWS, "PASS", node("efa.devices", efa_cases.info(P4D, None, efa_cases.DEVICES4), P4D),
        CANNOT_TELL, "not installed"),
    Defect("a GPU whose products are wrong, the same way each time", OCI, "both runs agree, PASS",
        node("compute.sdc", machines.one(sdc.sdc, [machines.wrong(fakes.off_by_one)]), "cpu"), NO_GO, "wrong value"),
    Defect("its own report: `Fail - GPU: 1`, and an exit code that is not 0", TRAIN, "ready for training, PASS",
        reported(second_opinion.recorded("g5_hidden_failure.json"), "g5.12xlarge"), NO_GO, "GPU 1: targeted_power"),
    Defect("its own report: all_reduce raised, in a flag that nobody reads", TRAIN, "PASS", reported(second_opinion.spoilt(RAISED)),
        CANNOT_TELL, "the tool says that it failed"),
    Defect("its own report, without the raw output of DCGM", TRAIN, "PASS", reported(second_opinion.spoilt(NO_TABLE)), CANNOT_TELL,
        "raw output is missing"),
)  # fmt: skip


Change = Callable[[Report], Report]
CRE, ISV, AICR = "NVIDIA/cluster-readiness-engine", "NVIDIA/ai-cloud-validation", "NVIDIA/aicr"
DCGM, SENTINEL = "NVIDIA/DCGM/issues", "NVIDIA/NVSentinel/issues"


@cache
def healthy(kind: str, nodes: int) -> Report:
    """A report that the type's shipped policy answers with go."""
    report = expected_report(kind, nodes)
    if decide(report, default_policy(kind)[1], builtin()).answer is not Answer.GO:
        raise ValueError(f"the constructed report of {nodes} x {kind} is no go")
    return report


def gate(change: Change, kind: str = P5, nodes: int = 4) -> Judged:
    """By the shipped policy of the type."""
    return lambda tmp_path: decide(change(healthy(kind, nodes)), default_policy(kind)[1], builtin())


def each(pick: Callable[[Observation], bool], change: Callable[[Observation], Observation | None]) -> Change:
    """The same change to some observations; None takes one away."""

    def changed(report: Report) -> Report:
        rows = [change(row) if pick(row) else row for row in report.observations]
        return replace(report, observations=tuple(row for row in rows if row is not None))

    return changed


def of(check: str, node: str = "") -> Callable[[Observation], bool]:
    """Of this check (or family, "nccl."), on this node or on all."""
    return lambda row: row.check.startswith(check) and node in ("", node_of(row.subject))


def skipped(skip: Skip) -> Callable[[Observation], Observation]:
    """Skipped for this reason."""
    said = "skipped gracefully"
    return lambda row: replace(row, outcome=Outcome.SKIPPED, skip=skip, reason=said, metrics={})


def errored(why: str) -> Callable[[Observation], Observation]:
    """Without a measurement."""
    return lambda row: replace(row, outcome=Outcome.ERRORED, reason=why, metrics={})


def metric(name: str, change: Callable[[Value], Value]) -> Callable[[Observation], Observation]:
    """With another value."""
    return lambda row: replace(row, metrics={**row.metrics, name: change(row.metrics[name])})


def dropped(*ranks: int) -> Change:
    """Without these nodes: neither their reports nor their observations."""

    def changed(report: Report) -> Report:
        gone = {node.name for node in report.nodes if node.rank in ranks}
        rows = tuple(row for row in report.observations if node_of(row.subject) not in gone)
        return replace(report, nodes=tuple(n for n in report.nodes if n.name not in gone), observations=rows)

    return changed


def unplanned(check: str, skip: Skip | None) -> Change:
    """The plan leaves the check out, for this reason or altogether; nothing of it is observed."""

    def changed(report: Report) -> Report:
        plan = [replace(p, skip=skip) if p.check == check else p for p in report.plan]
        plan = [p for p in plan if skip is not None or p.check != check]
        rows = tuple(row for row in report.observations if row.check != check)
        return replace(report, plan=tuple(plan), observations=rows)

    return changed


def third(value: Value) -> Value:
    """A third of the first GPU's rate, or of the only one."""
    if not isinstance(value, tuple):
        return value
    return tuple(item / 3 for item in value if isinstance(item, (int, float)))


def culprit(tmp_path: Path) -> Verdict:
    """Eight nodes of which one rank slows all others, decoded from every pair."""
    return decide(tournament(8, 2, slow_ranks(6, 7)), pairs_policy(), builtin())


def xid(code: int, text: str, *, before: str = "") -> str:
    """A kernel's log of a boot, with one Xid after it."""
    lines = recording("kernel/dmesg_healthy.txt").splitlines()
    return "\n".join([*lines, before, f"[99000.000000] NVRM: Xid (PCI:0000:5d:00): {code}, {text}", ""])


OFF_BUS = "pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
LATER = "[207000.000000] usb 1-1: new high-speed USB device number 2 using xhci_hcd\n"
HALTED = "pid=4242, name=python, 2027 0000 2027"
GATES = (
    Defect("a report without any observation of one node", f"{CRE}/issues/5", "passes what was not measured",
        gate(each(of("", "node-2"), lambda row: None)), CANNOT_TELL, "ended or hung before it could report"),
    Defect("a report in which one value is null", f"{CRE}/pull/6", "passes what was not measured",
        gate(each(of("gpu.ecc", "node-1"), metric("dram_uncorrected_volatile", lambda value: (None,) * 8))), CANNOT_TELL,
        "dram_uncorrected_volatile"),
    Defect("a report that lacks a node which was dropped from the run", f"{CRE}/issues/57", "PASSED", gate(dropped(3)), CANNOT_TELL,
        "sent no report"),
    Defect("a check that hung and was ended at its deadline", f"{CRE}/issues/82", "a hang in place of an error",
        gate(each(of("dcgm.diag", "node-0"), errored("its deadline of 120 s passed"))), CANNOT_TELL, "its deadline of 120 s"),
    Defect("NCCL's log after EFA was removed: channels over Socket", f"{CRE}/pull/434", "still certified",
        explained(recording("nccl/log_socket.txt"), "p5.4xlarge", 2), NO_GO, "over another transport"),
    Defect("nccl-tests whose sweep was cut", f"{CRE}/issues/418", "judged", explained(all_reduce(hosts=TWO, end=False), P5, 2),
        CANNOT_TELL, "the footer is missing"),
    Defect("a node's report that could not be read for want of a permission", f"{CRE}/blob/main/docs/cli-reference/mcp.md",
        "the list of failed nodes is empty", gate(lambda report: replace(dropped(1)(report), collection=("node-1: AccessDenied",))),
        CANNOT_TELL, "AccessDenied"),
    Defect("a report of zero nodes", f"{ISV}/issues/645", "passes", gate(dropped(0, 1, 2, 3)), CANNOT_TELL, "sent no report"),
    Defect("a plan from which a check is missing", f"{ISV}/issues/652", "passes where nothing is configured",
        gate(unplanned("gpu.row_remap", None)), CANNOT_TELL, "the plan does not contain it"),
    Defect("GPU checks that are left out because no GPU was found, on a p5", f"{ISV}/issues/657", "skips gracefully, passes",
        gate(unplanned("gpu.ecc", Skip.NO_GPU_DECLARED)), CANNOT_TELL, "contradicts the declaration"),
    Defect("a step that says that it was skipped", f"{ISV}/issues/658", "`set_passed`",
        gate(each(of("gpu.nvlink", "node-3"), skipped(Skip.TOOL_MISSING))), CANNOT_TELL, "tool not installed"),
    Defect("collectives that were left out, as if one node were declared", f"{ISV}/pull/87", "passes: need two nodes",
        gate(unplanned("nccl.inter_node", Skip.ONE_NODE_DECLARED)), CANNOT_TELL, "contradicts the declaration"),
    Defect("dcgmi diag: the memory test passes, and could not allocate", f"{DCGM}/284", "PASS",
        explained(recording("dcgm/diag_4_r2_alloc_pass.json")), CANNOT_TELL, "Couldn't allocate"),
    Defect("a GPU that computes at a third of its rate", f"{DCGM}/122", "passes the extended run",
        gate(each(lambda row: row.check == "compute.gemm" and row.subject == "node-1/rank-9", metric("sustained_tflops", third))),
        NO_GO, "33 % of the median"),
    Defect("the kernel's log with Xid 62", f"{DCGM}/235", "not in DCGM's field", explained(xid(62, HALTED)), NO_GO, "calls for"),
    Defect("the kernel's log with Xid 79", f"{DCGM}/162", "NVML has no event", explained(xid(79, OFF_BUS)), NO_GO, "calls for"),
    Defect("the kernel's log with Xid 119", f"{DCGM}/162", "NVML has no event", explained(recording("kernel/dmesg_ctime_gsp.txt")),
        NO_GO, "calls for"),
    Defect("DCGM finds seven of eight GPUs: one is off the bus", "NVIDIA/dcgm-exporter/issues/348", "its series end, nothing fires",
        explained(recording("dcgm/diag_4_r2_seven_gpus.json"), P5), NO_GO, "lacks 1 GPU"),
    Defect("a node whose report ends before its checks did", "IBM/autopilot/issues/68", "counts as healthy",
        gate(lambda report: replace(report, nodes=(replace(report.nodes[0], complete=False), *report.nodes[1:]))), CANNOT_TELL,
        "ends before the last check"),
    Defect("two of six nodes were never tested", "AMD-AGI/Primus/pull/707", "passes", gate(dropped(4, 5), P5, 6), CANNOT_TELL,
        "sent no report"),
    Defect("all NCCL checks of a GB200 cluster are skipped", f"{AICR}/issues/640", "skips in silence",
        gate(each(of("nccl."), skipped(Skip.PREREQUISITE)), "p6e-gb200.36xlarge", 2), CANNOT_TELL, "skipped gracefully"),
    Defect("nvidia-smi's own count: 7 of 8 GPUs", f"{AICR}/issues/1858", "an opaque error",
        gate(each(of("gpu.inventory", "node-2"), metric("gpus_missing", lambda value: 1))), NO_GO, "lacks 1 GPU"),
    Defect("all_reduce of two p5 at 0.6 of what such nodes reach, above a fixed floor", f"{AICR}/issues/2784", "passes",
        explained(all_reduce(hosts=TWO, rates={1 << 30: 0.6 * 233.04}), P5, 2), NO_GO, "60 % of"),
    Defect("all_reduce of two p4de at their published rate, below a floor for larger types", f"{AICR}/issues/1256", "fails",
        explained(all_reduce(hosts=TWO, rates={1 << 30: 40.96}), "p4de.24xlarge", 2), GO),
    Defect("a benchmark that ended well and gave no number", "ishandhanani/srt-slurm/issues/429", "success",
        gate(each(of("training.step"), lambda row: replace(row, metrics={**row.metrics, "tokens_per_s": ()}))), CANNOT_TELL,
        "tokens_per_s"),
    Defect("a probe that hangs on every node", f"{SENTINEL}/1574", "the node is Ready",
        gate(each(of("gpu.inventory"), errored("no answer within its deadline of 60 s"))), CANNOT_TELL, "deadline of 60 s"),
    Defect("the kernel's log of an Xid before the last restart", f"{SENTINEL}/1280", "stale events are acted on",
        explained(xid(62, HALTED) + recording("kernel/dmesg_healthy.txt")), GO, "restarted afterwards"),
    Defect("all-reduce is slow as a whole, for one bad node", f"{SENTINEL}/1384", "the bad GPU is not isolated", culprit, NO_GO,
        "node-3"),
    Defect("all_reduce of one p5 at 160 GB/s: above one floor for every type", "NVIDIA/NVSentinel", "above 150 GB/s, passes",
        explained(all_reduce(rates={1 << 30: 91.5}), P5), NO_GO, "threshold 80 %"),
    Defect("what NCCL's RAS prints while a job hangs: no error", "NVIDIA/nccl/issues/1730", "OK",
        explained("NCCL version 2.27.5\nJob summary\n  Nodes: 2 Processes: 16 GPUs: 16\nCommunicators... (0.00s)\nErrors: none\n"),
        CANNOT_TELL),
    Defect("the kernel's log of an Xid that called for a reset 30 hours ago", "leptonai/gpud/issues/1212",
        "healthy once it has aged out", explained(xid(79, OFF_BUS) + LATER), NO_GO, "calls for"),
    Defect("Xids of two GPUs, one after the other", "aws/eks-node-monitoring-agent/issues/39", "each resets the other's clock",
        explained(xid(79, OFF_BUS, before="[98000.000000] NVRM: Xid (PCI:0000:6d:00): 64, pid=12, name=python, row remapper failure")),
        NO_GO, "0000:6d:00"),
    Defect("DCGM's health watch contradicts itself", "NVIDIA/dcgm-exporter/issues/164", "old values are served",
        explained(recording("dcgm/health_contradiction.json")), CANNOT_TELL),
    Defect("a machine of a type that the table does not know", AWS, "its checks are left out, PASS",
        gate(lambda report: replace(report, declared=replace(report.declared, instance_type="p9.48xlarge"))), CANNOT_TELL,
        "unknown instance type"),
    Defect("a library that a check needs is not installed", OCI, "`True, not available`",
        gate(each(of("compute.sdc"), errored("No module named 'torch'"))), CANNOT_TELL, "No module named"),
    Defect("nvidia-smi: five uncorrectable errors of DRAM", AZURE, "below a threshold of 20,000,000",
        explained(replaced("gpu/h100_healthy.xml", DRAM, r"\g<1>5<", 2)), NO_GO, "5 uncorrected errors in its memory"),
    Defect("nccl-tests of one rank, as a build without MPI prints it under torchrun", "NVIDIA/nccl-tests", "`0 OK`",
        explained(recording("nccl/one_rank_2.16.txt")), CANNOT_TELL, "ran with 1 rank"),
    Defect("nccl-tests whose results were not compared: `N/A`", TRAIN, "the row vanishes, PASS",
        explained(recording("nccl/unverified_2.16.txt")), CANNOT_TELL, "unverified rows"),
    Defect("dcgmi diag 3.3, JSON, of eight healthy GPUs", "GoogleCloudPlatform/cluster-health-scanner",
        "another root key, every node is bad", explained(recording("dcgm/diag_33_r2.json")), GO),
)  # fmt: skip
