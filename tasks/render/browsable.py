"""What a browser can open of a place in a store (pure)."""

from __future__ import annotations

from urllib.parse import quote

S3 = "s3://"


def browsable(place: str) -> str:
    """The console's page of an object in S3; anything else as it is."""
    if not place.startswith(S3):
        return place
    bucket, _, key = place.removeprefix(S3).partition("/")
    return f"https://console.aws.amazon.com/s3/object/{quote(bucket)}?prefix={quote(key)}"
