"""What public tools of this kind answer wrongly to an output of another tool, and what Prelaunch has to answer: the rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from checks.model import Answer, Cause, Level, Verdict
from checks.probes.compute import sdc
from checks.probes.dcgm import diag
from tests import second_opinion
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
        explained(all_reduce(hosts=TWO, rate_gbps=6.0), P5, 2), NO_GO, "bandwidth that NCCL's log proves is 48 Gbit/s"),
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
    Defect("fi_info that lists tcp alone, on a p4d", TRAIN, "EFA is available", explained(recording("efa/fi_info_tcp.txt"), P4D),
        NO_GO, "provider"),
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
