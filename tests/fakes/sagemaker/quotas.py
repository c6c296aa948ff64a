"""Service Quotas for SageMaker (which moto has not): the dials' limits, in the names that AWS gives them.

"Service Quotas API reference": ListServiceQuotas, GetServiceQuota. Codes of quotas by instance type are made up: AWS gives each
name one, without a rule.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

from tests.fakes.sagemaker.dials import Dials

SERVICE = "ServiceQuotasV20190624"
OPERATIONS = ("ListServiceQuotas", "ListAWSDefaultServiceQuotas", "GetServiceQuota")
PAGE = 100
SIZE, TIME = "Maximum number of instances per training job", "Longest run time for a training job"
CODES = {SIZE: "L-622CFD70", TIME: "L-33A961FD"}


def knows(service: str, operation: str, body: bytes) -> bool:
    """Whether this is a question for here."""
    if service != SERVICE or operation not in OPERATIONS:
        return False
    return bool(json.loads(body or b"{}").get("ServiceCode") == "sagemaker")


def answer(dials: Dials, operation: str, request: dict[str, Any]) -> dict[str, Any]:
    """A page of quotas, or one of them."""
    found = _quotas(dials)
    if operation == "GetServiceQuota":
        one = next((row for row in found if row["QuotaCode"] == request.get("QuotaCode")), None)
        missing = {
            "__type": "NoSuchResourceException",
            "message": "The request failed because it doesn't exist.",
        }
        return {"Quota": one} if one else missing
    start, count = int(request.get("NextToken") or 0), request.get("MaxResults", PAGE)
    more = {"NextToken": str(start + count)} if start + count < len(found) else {}
    return {"Quotas": found[start:][:count]} | more


def _quotas(dials: Dials) -> list[dict[str, Any]]:
    tables = (
        ({} if dials.meant else dials.quotas, "training job usage"),
        (dials.spot_quotas, "spot training job usage"),
        (dials.pool_quotas, "training warm pool usage"),
    )
    names = {f"{kind} for {words}": limit for table, words in tables for kind, limit in table.items()}
    names |= {SIZE: dials.most_instances, TIME: dials.longest_run_s}
    return [_quota(name, limit) for name, limit in sorted(names.items())]


def _quota(name: str, limit: int) -> dict[str, Any]:
    return {
        "ServiceCode": "sagemaker",
        "ServiceName": "Amazon SageMaker",
        "QuotaName": name,
        "QuotaCode": CODES.get(name, f"L-{zlib.crc32(name.encode()):08X}"),
        "Value": float(limit),
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }
