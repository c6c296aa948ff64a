"""Service Quotas for SageMaker (which moto has not), in the names that AWS gives them: enough of each type that the account has.

"Service Quotas API reference": ListServiceQuotas. Codes are made up: AWS gives each name one, without a rule.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import Any

OPERATIONS = ("ListServiceQuotas", "ListAWSDefaultServiceQuotas")
# "Amazon SageMaker AI endpoints and quotas", AWS General Reference: the defaults of one job.
# AWS gives a new account 20 instances per job; this one has asked for more.
ONE_JOB = {"Maximum number of instances per training job": 64, "Longest run time for a training job": 432_000}


def knows(service: str, operation: str, body: bytes) -> bool:
    """Whether this is a question for here."""
    if service != "ServiceQuotasV20190624" or operation not in OPERATIONS:
        return False
    return bool(json.loads(body or b"{}").get("ServiceCode") == "sagemaker")


def answer(types: Iterable[str]) -> dict[str, Any]:
    """All quotas, on one page: those of these types."""
    names = {f"{kind} for training warm pool usage": 100 for kind in types} | ONE_JOB
    return {"Quotas": [_quota(name, limit) for name, limit in sorted(names.items())]}


def _quota(name: str, limit: int) -> dict[str, Any]:
    code = f"L-{zlib.crc32(name.encode()):08X}"
    return {"ServiceCode": "sagemaker", "QuotaName": name, "QuotaCode": code, "Value": float(limit)}
