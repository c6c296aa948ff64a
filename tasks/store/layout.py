"""Every key of a store: the files of a gate, of a cluster and of the store itself. No other module writes one."""

from __future__ import annotations

from checks.documents.report import MERGED_FILE

# The folders of a store.
GATES, RECORDS, NODES, PAGES = "gates", "records", "nodes", "pages"
LEASES, LEASES_BY_RUN = "leases", "leases/by-run"
PASSES, BASELINES = "passes", "baselines"
INCIDENTS = "incidents"
RUNS, REMEDIATION, COMMISSIONS, FLEET, HISTORY = "runs", "remediation", "commissions", "fleet", "history"

REPORT_FILE, VERDICT_FILE = MERGED_FILE, "verdict.json"
POLICY_FILE, REQUEST_FILE = "policy.json", "request.json"


def gate_folder(store: str, gate_id: str) -> str:
    """Where the files of a gate are in the folder of a store."""
    return f"{store}/{GATES}/{gate_id}"


def report_key(gate_id: str) -> str:
    """The key of a gate's report."""
    return f"{GATES}/{gate_id}/{REPORT_FILE}"


def verdict_key(gate_id: str) -> str:
    """The key of a gate's verdict."""
    return f"{GATES}/{gate_id}/{VERDICT_FILE}"


def policy_key(gate_id: str) -> str:
    """The key of the policy that a gate judged with."""
    return f"{GATES}/{gate_id}/{POLICY_FILE}"


def verdict_key_beside(report: str) -> str:
    """The key of the verdict on the report with this key, of a gate or of an attempt."""
    return f"{report.rpartition('/')[0]}/{VERDICT_FILE}"


def html_key(gate_id: str) -> str:
    """The key of a gate's report as an HTML page."""
    return f"{GATES}/{gate_id}/report.html"


def summary_key(gate_id: str) -> str:
    """The key of a gate's summary, as Markdown."""
    return f"{GATES}/{gate_id}/summary.md"


def outcome_key(gate_id: str) -> str:
    """The key of the end of a gate."""
    return f"{GATES}/{gate_id}/outcome.json"


def request_key(gate_id: str) -> str:
    """The key of the request of a gate."""
    return f"{GATES}/{gate_id}/{REQUEST_FILE}"


def preflight_key(gate_id: str) -> str:
    """The key of the results of a gate's preflight."""
    return f"{GATES}/{gate_id}/preflight.json"


def certificates_key(gate_id: str) -> str:
    """The key of the certificates that a gate offered to its nodes."""
    return f"{GATES}/{gate_id}/certificates.json"


def slack_key(gate_id: str) -> str:
    """The key of the identity of a gate's Slack message."""
    return f"{GATES}/{gate_id}/slack.json"


def evidence_key(gate_id: str, file: str) -> str:
    """The key of a file of evidence."""
    return f"{GATES}/{gate_id}/evidence/{file}"


def logs_folder(gate_id: str, job: str = "") -> str:
    """The folder of all logs of a gate, or of those of one job."""
    return f"{GATES}/{gate_id}/logs/{job}".rstrip("/")


def is_log(key: str) -> bool:
    """Whether the file is the log of a node: what a training prints is for nobody but the owner of the store."""
    return key.startswith(f"{GATES}/") and key.split("/")[2:3] == ["logs"]


def log_key(gate_id: str, job: str, node: str) -> str:
    """The key of the log of a node in a job."""
    return f"{logs_folder(gate_id, job)}/{node}.log"


def attempt_report_key(gate_id: str, attempt: str) -> str:
    """The key of the report of one attempt of a job."""
    return f"{_attempt(gate_id, attempt)}/{REPORT_FILE}"


def attempt_verdict_key(gate_id: str, attempt: str) -> str:
    """The key of the verdict of one attempt of a job."""
    return f"{_attempt(gate_id, attempt)}/{VERDICT_FILE}"


def disagreement_key(gate_id: str, attempt: str) -> str:
    """The key that records that the nodes' verdicts differ from the gate's."""
    return f"{_attempt(gate_id, attempt)}/disagreement.json"


def notification_key(gate_id: str, name: str) -> str:
    """The key that records how a notification of that kind was delivered."""
    return f"{GATES}/{gate_id}/told/{_file(name)}.json"


def notifiers_key(gate_id: str) -> str:
    """The key that records which notifiers a gate has, and which of their secrets are missing."""
    return f"{GATES}/{gate_id}/told/ways.json"


def question_key(gate_id: str, key: str) -> str:
    """The key of a question."""
    return f"{GATES}/{gate_id}/questions/{key}.json"


def answer_key(gate_id: str, key: str) -> str:
    """The key of the answer to a question."""
    return f"{GATES}/{gate_id}/answers/{key}.json"


def given_key(gate_id: str, key: str) -> str:
    """The key of the answer that the gate used."""
    return f"{GATES}/{gate_id}/given/{key}.json"


def gate_of(key: str) -> str:
    """The id of the gate that a key below GATES belongs to; "" if it belongs to none."""
    gate_id, inside, _ = key.removeprefix(f"{GATES}/").partition("/")
    return gate_id if inside else ""


def record_key(gate_id: str) -> str:
    """The key of a gate's record."""
    return f"{RECORDS}/{gate_id}.json"


def nodes_key(gate_id: str) -> str:
    """The key of what is kept of each node of a gate."""
    return f"{NODES}/{gate_id}.json"


def history_key(cluster: str) -> str:
    """The key of what a cluster's gates say of its nodes, merged; "_" stands for gates whose cluster nobody says."""
    return f"{HISTORY}/{cluster or '_'}.json"


def page_key(gate_id: str) -> str:
    """The key of the text of a gate's notification."""
    return f"{PAGES}/{gate_id}.txt"


def lease_key(cluster: str) -> str:
    """The key of a cluster's lock."""
    return f"{LEASES}/{cluster}.json"


def lease_of_run_key(flow_run_id: str) -> str:
    """The key that records which cluster's lock a flow run holds."""
    return f"{LEASES_BY_RUN}/{flow_run_id}.json"


def pass_key(cluster: str) -> str:
    """The key of the PASS that a cluster's next gate may use again."""
    return f"{PASSES}/{cluster}.json"


def baseline_key(cluster: str) -> str:
    """The key of a cluster's baseline."""
    return f"{BASELINES}/{cluster}.json"


def fleet_key(cluster: str) -> str:
    """The key of the page about all nodes of a cluster, as of its last gate."""
    return f"{FLEET}/{_file(cluster)}.html"


def commission_key(cluster: str) -> str:
    """The key of how the cluster's last commissioning ended."""
    return f"{COMMISSIONS}/{cluster}.json"


def incident_key(cluster: str, name: str = "") -> str:
    """The key of one open incident of a cluster; without a name the folder of all of them."""
    return f"{INCIDENTS}/{cluster}/{name}.json" if name else f"{INCIDENTS}/{cluster}"


def run_notification_key(flow_run_id: str, name: str) -> str:
    """The key that records that a flow run's notification was sent, for a run that may have no gate."""
    return f"{RUNS}/{flow_run_id}/{_file(name)}.json"


def journal_key(cluster: str) -> str:
    """The key of the journal of a cluster's remediation."""
    return f"{REMEDIATION}/{cluster}/journal.json"


def acts_folder(cluster: str, node: str = "") -> str:
    """The folder of the records of all acts in a cluster, or of those of one node."""
    return f"{REMEDIATION}/{cluster}/acts/{node}".rstrip("/")


def act_key(cluster: str, node: str, act_id: str) -> str:
    """The key of the record of one act."""
    return f"{acts_folder(cluster, node)}/{act_id}.json"


def name_of(key: str) -> str:
    """What a key of the form folder/NAME.json is about: the name of a gate or of a cluster; "" for a key of another form."""
    file = key.rsplit("/", 1)[-1]
    return file.removesuffix(".json") if file.endswith(".json") else ""


def _attempt(gate_id: str, attempt: str) -> str:
    return f"{GATES}/{gate_id}/attempts/{attempt}"


def _file(name: str) -> str:
    return name.replace(" ", "_")
