"""What SageMaker itself moves between S3 and the hosts: input channels and archives; no checkpoints."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.fakes.sagemaker.job import Job


class DataError(Exception):
    """S3 has not what the request names. The message is SageMaker's ClientError."""


class Storage:
    """`client` goes to the S3 behind the stand-in: SageMaker's own transfers do not suffer the dials."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def download(self, job: Job, opt_ml: Path) -> None:
        """Every channel into input/data/<channel>. Raises DataError.

        File mode; FastFile and Pipe get files too, which is a simplification. Every host gets all of them.
        """
        for channel in job.request.get("InputDataConfig", ()):
            source = channel["DataSource"].get("S3DataSource")
            if source is None or source.get("S3DataDistributionType") == "ShardedByS3Key":
                raise DataError("ClientError: the stand-in knows S3DataSource alone, fully replicated")
            place = opt_ml / "input" / "data" / channel["ChannelName"]
            place.mkdir(parents=True, exist_ok=True)
            self._copy(source["S3Uri"], self._objects(job, source["S3Uri"]), place)

    def upload(self, job: Job, hosts: Sequence[Path]) -> None:
        """output.tar.gz and model.tar.gz below <S3OutputPath>/<job>/output/, of all hosts together.

        "Amazon S3 output path"; also after a failure (the SDK's maintainers, sagemaker-python-sdk pull request 746). Raises DataError:
        CompressionType NONE is not known here.
        """
        bucket, prefix = split(job.request["OutputDataConfig"]["S3OutputPath"])
        below = "/".join(part for part in (prefix.strip("/"), job.name, "output") if part)
        if job.request["OutputDataConfig"].get("CompressionType") == "NONE":
            raise DataError("ClientError: the stand-in uploads archives alone")
        for folder, archive in (("output/data", "output"), ("model", "model")):
            files = list(_files([host / folder for host in hosts]))
            if files:
                key = f"{below}/{archive}.tar.gz"
                self._client.put_object(Bucket=bucket, Key=key, Body=_archive(files))

    def _objects(self, job: Job, uri: str) -> list[str]:
        bucket, prefix = split(uri)
        try:
            keys = list(self._keys(bucket, prefix))
        except self._client.exceptions.NoSuchBucket:
            keys = []
        if not keys:
            raise DataError(
                f'ClientError: No S3 objects found under S3 URL "{uri}" given in input data source. Please ensure that the '
                f"bucket exists in the selected region ({job.region}), that objects exist under that S3 prefix, and that the "
                f'role "{job.request["RoleArn"]}" has "s3:ListBucket" permissions on bucket "{bucket}".'
            )
        return keys

    def _keys(self, bucket: str, prefix: str) -> Iterator[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        for page in pages:
            yield from (entry["Key"] for entry in page.get("Contents", ()))

    def _copy(self, uri: str, keys: Sequence[str], place: Path) -> None:
        """Relative to the prefix where it is a folder, else to the folder that it begins in."""
        bucket, prefix = split(uri)
        for key in keys:
            folder = prefix.rstrip("/") if prefix.endswith("/") or key.startswith(f"{prefix}/") else ""
            begin = folder or prefix.rpartition("/")[0]
            path = place / key[len(begin) :].lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            if not key.endswith("/"):
                path.write_bytes(self._client.get_object(Bucket=bucket, Key=key)["Body"].read())


def split(uri: str) -> tuple[str, str]:
    """Bucket and key of an s3:// URL."""
    bucket, _, key = uri.partition("://")[2].partition("/")
    return bucket, key


def _files(folders: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """What lies in them, by name: of two with one name the last host's stays (on AWS nobody says which)."""
    found = {str(path.relative_to(folder)): path for folder in folders for path in sorted(folder.rglob("*"))}
    return ((path, name) for name, path in found.items() if path.is_file() and not path.is_symlink())


def _archive(files: Sequence[tuple[Path, str]]) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz", compresslevel=1) as archive:
        for path, name in files:
            archive.add(path, name)
    return held.getvalue()
