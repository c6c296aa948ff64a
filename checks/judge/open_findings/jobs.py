"""The rules about a job that runs on a machine, which the watch of a node alone applies. Pure.

They are in no policy: a policy says what a gate requires, and no gate measures a job that is not there yet. What they find is about
the job and not about the machine: it is closed when the job goes on or has gone, and refuses no gate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from checks.documents.decode import decode
from checks.facts.provenance import table_bytes
from checks.policy import CheckPolicy

# A rank that does not answer is no proof of broken hardware: it may have crashed, or was stopped. Hardware has its own checks.
_TABLE = json.loads(table_bytes(Path(__file__).with_name("job_rules.json")))
ABOUT_JOBS: Mapping[str, CheckPolicy] = {check: decode(CheckPolicy, line) for check, line in _TABLE.items()}
