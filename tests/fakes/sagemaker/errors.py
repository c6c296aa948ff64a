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
