"""A store below an S3 prefix. Conditional writes and deletes use If-None-Match and If-Match, which the server decides atomically.

Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-requests.html (read 2026-11-22). An endpoint that
ignores the conditions would give one cluster to two gates, so `probe` tries them out before anything starts.
"""

from __future__ import annotations

import secrets
from typing import Any

from tasks.store import base
from tasks.store.aws import AwsCalls, AwsRefused, AwsTimeouts, login_remedy

# Which of several attempts wrote an object: an answer that was lost is no defeat.
WRITER = "prelaunch-writer"
NO_ETAG = '"00000000000000000000000000000000"'
NO_OBJECT, CONFLICT = 404, 412
PAGE_KEYS = 1000
FULL = {"QuotaExceeded", "XMinioStorageFull", "InsufficientStorage", "507"}
# A call ends within about the deadline and one attempt, less than half of the time for which a lock is held.
LIMITS = AwsTimeouts(connect_s=5.0, read_s=15.0, deadline_s=30.0, pause_s=0.4, longest_pause_s=5.0)


class S3Calls(AwsCalls):
    """The calls of a store. They raise StoreError."""

    unavailable, unusable = base.StoreUnreachable, base.StoreError

    def explained(self, refusal: AwsRefused) -> base.StoreError:
        """The error with its remedy."""
        message = f"{self.where}: {refusal}"
        if refusal.code == "NoSuchBucket":
            return base.StoreMissing(f"{message}. Create it, or correct [store] path in the gate file.")
        if refusal.is_login:
            return base.StoreUnwritable(f"{self.where}: {login_remedy(refusal)}")
        if refusal.is_denied:
            return base.StoreUnwritable(
                f"{message}. Allow s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket there, "
                "or use credentials that have them."
            )
        if refusal.code in FULL or refusal.status == 507:
            return base.StoreFull(f"{message}. Free space there.")
        return base.StoreError(f"{message}. Correct the bucket's settings or [store] path in the gate file.")


class S3Store:
    """Keeps values as objects `prefix`/key of `bucket`; endpoint, region and credentials are boto3's own settings."""

    def __init__(self, bucket: str, prefix: str = "", limits: AwsTimeouts | None = None) -> None:
        self.bucket, self.prefix = bucket, prefix
        self.calls = S3Calls(f"s3://{bucket}", "", limits or LIMITS)

    def location(self, key: str) -> str:
        """The object's URL: s3://bucket/prefix/key."""
        return f"s3://{self.bucket}/{self._name(base.checked(key))}"

    def put(self, key: str, data: bytes) -> None:
        """One PutObject: an object appears complete."""
        self._call("put_object", key, Body=data)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """PutObject with If-None-Match: *."""
        return self._put_if(key, data, IfNoneMatch="*")

    def replace_if(self, key: str, old: bytes, new: bytes) -> bool:
        """Compare the content, then PutObject only over the very object that was compared."""
        current = self._read(key)
        return current is not None and current[0] == old and self._put_if(key, new, IfMatch=current[1])

    def delete_if(self, key: str, old: bytes) -> bool:
        """Compare the content, then DeleteObject only of the very object that was compared."""
        current = self._read(key)
        return current is not None and current[0] == old and self._delete_if(key, current[1])

    def get(self, key: str) -> bytes | None:
        """The object's bytes."""
        current = self._read(key)
        return None if current is None else current[0]

    def list(self, prefix: str) -> tuple[str, ...]:
        """Every object below, page by page."""
        top = self._name(base.checked(prefix)) + "/" if prefix else self._name("")
        entries = self.calls.listed(self.bucket, top, MaxKeys=PAGE_KEYS)
        keys = [item["Key"][len(self._name("")) :] for item in entries]
        return tuple(sorted(key for key in keys if base.KEY.fullmatch(key)))

    def delete(self, key: str) -> None:
        """DeleteObject."""
        self._call("delete_object", key)

    def probe(self) -> None:
        """Write an object, and verify that the server refuses to overwrite or remove it when it must."""
        key = f"probe-{secrets.token_hex(8)}"
        try:
            if not self._put_if(key, b"probe\n", IfNoneMatch="*"):
                message = f"{self.location(key)} could not be created, though nothing is there. Try again."
                raise base.StoreError(message)
            ignored = [
                name
                for name, done in (
                    ("If-None-Match on PutObject", self._put_if(key, b"again\n", IfNoneMatch="*")),
                    ("If-Match on PutObject", self._put_if(key, b"other\n", IfMatch=NO_ETAG)),
                    ("If-Match on DeleteObject", self._delete_if(key, NO_ETAG)),
                )
                if done
            ]
        finally:
            self.delete(key)
        if ignored:
            raise base.StoreError(
                f"the S3 endpoint of s3://{self.bucket} ignores {' and '.join(ignored)}: two gates could hold one "
                "cluster. Use Amazon S3, another server that has conditional writes, or a shared folder."
            )

    def _read(self, key: str) -> tuple[bytes, str] | None:
        return self.calls.answer(
            "s3:GetObject",
            lambda: self.calls.read(self.bucket, self._name(base.checked(key))),
            lambda refusal: refusal.code == "NoSuchKey",
        )

    def _put_if(self, key: str, data: bytes, **condition: str) -> bool:
        writer = secrets.token_hex(16)
        try:
            self._call("put_object", key, Body=data, Metadata={WRITER: writer}, **condition)
        except AwsRefused as error:
            return error.attempts > 1 and self._writer(key) == writer
        return True

    def _delete_if(self, key: str, etag: str) -> bool:
        try:
            self._call("delete_object", key, IfMatch=etag)
        except AwsRefused as error:
            # Gone after an attempt whose answer was lost: what the caller saw is there no more.
            return error.attempts > 1 and error.status == NO_OBJECT
        return True

    def _writer(self, key: str) -> str:
        """Which attempt wrote the existing object; "" if nobody knows."""
        try:
            writer: str = self._call("head_object", key).get("Metadata", {}).get(WRITER, "")
        except AwsRefused:
            return ""
        return writer

    def _call(self, call: str, key: str, **arguments: Any) -> dict[str, Any]:
        """Raises AwsRefused if the condition did not hold or there is no such object; StoreError for the rest."""

        try:
            response: dict[str, Any] = self.calls.request(
                "s3", call, Bucket=self.bucket, Key=self._name(base.checked(key)), **arguments
            )
            return response
        except AwsRefused as error:
            if error.status == CONFLICT or (error.status == NO_OBJECT and error.code != "NoSuchBucket"):
                raise
            raise self.calls.explained(error) from error

    def _name(self, key: str) -> str:
        return f"{self.prefix}/{key}" if self.prefix else key
