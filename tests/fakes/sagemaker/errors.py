"""What the control plane answers instead of a result, with AWS's codes and words.

ApiError      HTTP 400 with "__type" and "message" (protocol json 1.1)
"""

from __future__ import annotations


class ApiError(Exception):
    """The request was refused."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


def invalid(message: str) -> ApiError:
    """The most common one."""
    return ApiError("ValidationException", message)


def quota(name: str, limit: int, used: int, delta: int, unit: str = "Instances") -> ApiError:
    """CreateTrainingJob: ResourceLimitExceeded."""
    return ApiError(
        "ResourceLimitExceeded",
        f"The account-level service limit '{name}' is {limit} {unit}, with current utilization of {used} {unit} and a "
        f"request delta of {delta} {unit}. Please use AWS Service Quotas to request an increase for this quota. If AWS "
        "Service Quotas is not available, contact AWS support to request an increase for this quota.",
    )
