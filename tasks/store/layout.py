"""Every key of a store: the files of a gate, of a cluster and of the store itself. No other module writes one."""

from __future__ import annotations

# The folders of a store.
GATES, RECORDS, PAGES = "gates", "records", "pages"
LEASES, LEASES_BY_RUN, PASSES, BASELINES, INCIDENTS = (
    "leases",
    "leases/by-run",
    "passes",
    "baselines",
    "incidents",
)
RUNS, HANDING_OVER = "runs", "handing-over"
STORE_ID_KEY = "store-id"

REPORT_FILE, VERDICT_FILE = "health_check_metrics.json", "verdict.json"


def report_key(gate_id: str) -> str:
    """Where a gate's report lies."""
    return f"{GATES}/{gate_id}/{REPORT_FILE}"


def verdict_key(gate_id: str) -> str:
    """Where a gate's verdict lies."""
    return f"{GATES}/{gate_id}/{VERDICT_FILE}"


def html_key(gate_id: str) -> str:
    """Where a gate's report lies as an HTML page."""
    return f"{GATES}/{gate_id}/report.html"


def summary_key(gate_id: str) -> str:
    """Where a gate's summary lies, as Markdown."""
    return f"{GATES}/{gate_id}/summary.md"


def picture_key(gate_id: str) -> str:
    """Where the picture of a gate's report lies."""
    return f"{GATES}/{gate_id}/picture.png"


def outcome_key(gate_id: str) -> str:
    """Where the end of a gate lies."""
    return f"{GATES}/{gate_id}/outcome.json"


def request_key(gate_id: str) -> str:
    """Where the request of a gate lies."""
    return f"{GATES}/{gate_id}/request.json"


def preflight_key(gate_id: str) -> str:
    """Where the results of a gate's preflight lie."""
    return f"{GATES}/{gate_id}/preflight.json"


def slack_key(gate_id: str) -> str:
    """Where the identity of a gate's Slack message lies."""
    return f"{GATES}/{gate_id}/slack.json"


def job_key(gate_id: str, job: str) -> str:
    """Where the history of one of a gate's jobs lies."""
    return f"{GATES}/{gate_id}/jobs/{job}.json"


def evidence_key(gate_id: str, file: str) -> str:
    """Where a file of evidence lies."""
    return f"{GATES}/{gate_id}/evidence/{file}"


def logs_folder(gate_id: str, job: str = "") -> str:
    """The folder of all logs of a gate, or of those of one job."""
    return f"{GATES}/{gate_id}/logs/{job}".rstrip("/")


def log_key(gate_id: str, job: str, node: str) -> str:
    """Where the log of a node in a job lies."""
    return f"{logs_folder(gate_id, job)}/{node}.log"


def attempt_report_key(gate_id: str, attempt: str) -> str:
    """Where the report of one attempt of a job lies."""
    return f"{_attempt(gate_id, attempt)}/{REPORT_FILE}"


def attempt_verdict_key(gate_id: str, attempt: str) -> str:
    """Where the verdict of one attempt of a job lies."""
    return f"{_attempt(gate_id, attempt)}/{VERDICT_FILE}"


def disagreement_key(gate_id: str, attempt: str) -> str:
    """Where it is recorded that the nodes' verdicts differ from the gate's."""
    return f"{_attempt(gate_id, attempt)}/disagreement.json"


def notification_key(gate_id: str, kind: str) -> str:
    """Where it is recorded how a notification of that kind was delivered."""
    return f"{GATES}/{gate_id}/told/{_file(kind)}.json"


def notifiers_key(gate_id: str) -> str:
    """Where it is recorded which notifiers a gate has, and which of their secrets are missing."""
    return f"{GATES}/{gate_id}/told/ways.json"


def question_key(gate_id: str, key: str) -> str:
    """Where a question lies."""
    return f"{GATES}/{gate_id}/questions/{key}.json"


def answer_key(gate_id: str, key: str) -> str:
    """Where the answer to a question lies."""
    return f"{GATES}/{gate_id}/answers/{key}.json"


def given_key(gate_id: str, key: str) -> str:
    """Where the answer lies that the gate used."""
    return f"{GATES}/{gate_id}/given/{key}.json"


def gate_of(key: str) -> str:
    """The id of the gate that a key below GATES belongs to; "" if it belongs to none."""
    gate_id, inside, _ = key.removeprefix(f"{GATES}/").partition("/")
    return gate_id if inside else ""


def record_key(gate_id: str) -> str:
    """Where a gate's record lies."""
    return f"{RECORDS}/{gate_id}.json"


def page_key(gate_id: str) -> str:
    """Where the text of a gate's notification lies."""
    return f"{PAGES}/{gate_id}.txt"


def lease_key(cluster: str) -> str:
    """Where a cluster's lock lies."""
    return f"{LEASES}/{cluster}.json"


def lease_of_run_key(flow_run_id: str) -> str:
    """Where it is recorded which cluster's lock a flow run holds."""
    return f"{LEASES_BY_RUN}/{flow_run_id}.json"


def pass_key(cluster: str) -> str:
    """Where the PASS lies that a cluster's next gate may use again."""
    return f"{PASSES}/{cluster}.json"


def baseline_key(cluster: str) -> str:
    """Where a cluster's baseline lies."""
    return f"{BASELINES}/{cluster}.json"


def incidents_key(cluster: str) -> str:
    """Where a cluster's open incidents lie."""
    return f"{INCIDENTS}/{cluster}.json"


def run_notification_key(flow_run_id: str, kind: str) -> str:
    """Where it is recorded that a flow run's notification was sent, for a run that may have no gate."""
    return f"{RUNS}/{flow_run_id}/{_file(kind)}.json"


def handing_over_key(gate_id: str, key: str) -> str:
    """Where an answer waits that its run has not got yet."""
    return f"{HANDING_OVER}/{gate_id}/{key}.json"


def name_of(key: str) -> str:
    """What a key of the form folder/NAME.json is about: the name of a gate or of a cluster; "" for a key of another form."""
    file = key.rsplit("/", 1)[-1]
    return file.removesuffix(".json") if file.endswith(".json") else ""


def _attempt(gate_id: str, attempt: str) -> str:
    return f"{GATES}/{gate_id}/attempts/{attempt}"


def _file(kind: str) -> str:
    return kind.replace(" ", "_")
