"""The configuration of a cluster of AWS ParallelCluster that is ready for a gate (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tasks.parallelcluster.settings import ClusterSettings

Value: TypeAlias = "str | bool | int | Sequence[Value] | Mapping[str, Value]"
QUEUE = "gate"
MOUNT = "/fsx"
INSTALLER, PROGRAM, WATCH_UNIT = "install.sh", "prelaunch.pyz", "prelaunch-watch.service"
# Where a replaced node's logs stay.
LOG_DAYS = 180
HEADING = """\
A cluster of AWS ParallelCluster for the gates of Prelaunch, written by `prelaunch cluster-config`. Change its variables or
options and write it again; docs/parallelcluster.md says what they are.

All nodes are static (MinCount is MaxCount). ParallelCluster replaces a static node as soon as it is drained and idle, whoever
drained it: copy what you need from a node before you drain it. Its system logs stay in CloudWatch.
"""


def cluster_yaml(settings: ClusterSettings, program_sha256: str) -> str:
    """The text of the configuration; without that digest a node does not run the file of `prelaunch node pack`."""
    comments = "".join(f"# {line}".rstrip() + "\n" for line in HEADING.splitlines())
    return comments + yaml_text(cluster_document(settings, program_sha256))


def yaml_text(document: Mapping[str, Value]) -> str:
    """The document; every parser of YAML 1.1 reads the same one from it."""
    import yaml  # 15 ms, for this command alone

    return yaml.safe_dump(document, sort_keys=False, width=120)


def cluster_document(settings: ClusterSettings, program_sha256: str) -> dict[str, Value]:
    """The configuration in the keys of ParallelCluster 3."""
    image: dict[str, Value] = {"Os": settings.os}
    if settings.ami:
        image["CustomAmi"] = settings.ami
    document: dict[str, Value] = {
        "Region": settings.region,
        "Image": image,
        "Imds": {"ImdsSupport": "v2.0"},
        "HeadNode": _head_node(settings, program_sha256),
        "Scheduling": _scheduling(settings, program_sha256),
        "Monitoring": {
            "Logs": {
                "CloudWatch": {"Enabled": True, "RetentionInDays": LOG_DAYS, "DeletionPolicy": "Retain"}
            },
            "Dashboards": {"CloudWatch": {"Enabled": True}},
        },
    }
    if settings.fsx_id or settings.fsx_gib:
        document["SharedStorage"] = [_file_system(settings)]
    return document


def _head_node(settings: ClusterSettings, program_sha256: str) -> dict[str, Value]:
    policies = [_managed(settings, "AmazonSSMManagedInstanceCore")]
    if settings.remote_write:
        policies.append(settings.write_policy or _managed(settings, "AmazonPrometheusRemoteWriteAccess"))
    node: dict[str, Value] = {
        "InstanceType": settings.head_instance_type,
        "Networking": {"SubnetId": settings.head_subnet},
        "LocalStorage": {"RootVolume": {"Size": 200}},
        "Iam": _iam(settings, policies),
    }
    if settings.key_pair:
        node["Ssh"] = {"KeyName": settings.key_pair}
    if settings.scripts:
        node["CustomActions"] = _install(settings, program_sha256, "head", settings.remote_write)
    return node


def _scheduling(settings: ClusterSettings, program_sha256: str) -> dict[str, Value]:
    resource: dict[str, Value] = {
        "Name": settings.instance_type.replace(".", "-"),
        "InstanceType": settings.instance_type,
        "MinCount": settings.nodes,
        "MaxCount": settings.nodes,
        "Efa": {"Enabled": bool(settings.instance.efa_devices)},
    }
    if settings.reservation:
        resource["CapacityReservationTarget"] = {"CapacityReservationId": settings.reservation}
    queue: dict[str, Value] = {
        "Name": QUEUE,
        "CapacityType": "CAPACITY_BLOCK" if settings.capacity_block else "ONDEMAND",
        "Networking": {"SubnetIds": [settings.subnet], "PlacementGroup": _placement(settings)},
        "ComputeSettings": {"LocalStorage": {"RootVolume": {"Size": 200}}},
        "Iam": _iam(settings, [_managed(settings, "AmazonSSMManagedInstanceCore")]),
        # ParallelCluster's own check runs the diagnostics of DCGM before each job. On large instances that can take longer than Slurm
        # waits for a prolog (aws/aws-parallelcluster issue 6777), so it is used only where there is no prolog of Prelaunch.
        "HealthChecks": {"Gpu": {"Enabled": bool(settings.instance.gpus) and not settings.scripts}},
        "ComputeResources": [resource],
    }
    if settings.scripts:
        queue["CustomActions"] = _install(settings, program_sha256, "compute")
    scheduling: dict[str, Value] = {"Scheduler": "slurm"}
    if settings.scripts:
        # The prolog runs on all nodes of a job as soon as it gets them. `Prolog` itself is refused here: it is in a folder.
        scheduling["SlurmSettings"] = {"CustomSlurmSettings": [{"PrologFlags": "Alloc"}]}
    return {**scheduling, "SlurmQueues": [queue]}


def _placement(settings: ClusterSettings) -> dict[str, Value]:
    """Instances of a reservation are where the reservation is; a group beside it can only make them unavailable."""
    if settings.placement_group:
        return {"Enabled": True, "Name": settings.placement_group}
    return {"Enabled": bool(settings.instance.efa_devices) and not settings.reservation}


def _iam(settings: ClusterSettings, policies: list[str]) -> dict[str, Value]:
    iam: dict[str, Value] = {"AdditionalIamPolicies": [{"Policy": policy} for policy in policies]}
    if settings.scripts:
        bucket, _, folder = settings.scripts.removeprefix("s3://").partition("/")
        access: dict[str, Value] = {"BucketName": bucket}
        if folder:
            access["KeyName"] = f"{folder}/*"
        iam["S3Access"] = [access]
    return iam


def _managed(settings: ClusterSettings, name: str) -> str:
    """The ARN of a policy that AWS itself has."""
    partition = "aws-us-gov" if settings.region.startswith("us-gov-") else "aws"
    return f"arn:{'aws-cn' if settings.region.startswith('cn-') else partition}:iam::aws:policy/{name}"


def _install(settings: ClusterSettings, program_sha256: str, role: str, *more: str) -> dict[str, Value]:
    arguments = [role, settings.region, settings.scripts, program_sha256, settings.instance_type, *more]
    return {
        "OnNodeConfigured": {
            "Sequence": [
                {"Script": f"{settings.scripts}/{INSTALLER}", "Args": [word for word in arguments if word]}
            ]
        }
    }


def _file_system(settings: ClusterSettings) -> dict[str, Value]:
    lustre: dict[str, Value]
    if settings.fsx_id:
        lustre = {"FileSystemId": settings.fsx_id}
    else:
        lustre = {
            "StorageCapacity": settings.fsx_gib,
            "DeploymentType": "PERSISTENT_2",
            "PerUnitStorageThroughput": 250,
            # It stays, and is billed, when the cluster is deleted: it may hold reports and checkpoints.
            "DeletionPolicy": "Retain",
        }
    if settings.data_repository:
        lustre["DataRepositoryAssociations"] = [
            {
                "Name": "data",
                "BatchImportMetaDataOnCreate": True,
                "DataRepositoryPath": settings.data_repository,
                "FileSystemPath": "/data",
                "AutoImportPolicy": ["NEW", "CHANGED", "DELETED"],
                # What is deleted in the file system stays in the bucket.
                "AutoExportPolicy": ["NEW", "CHANGED"],
            }
        ]
    return {"Name": "fsx", "MountDir": MOUNT, "StorageType": "FsxLustre", "FsxLustreSettings": lustre}
