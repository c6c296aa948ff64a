"""What IAM knows of the actions that our policies grant: which resources they apply to, and which condition keys.

From the tables "Actions, resources, and condition keys" of the Service Authorization Reference (Amazon SageMaker AI, S3, ECR,
CloudWatch Logs, EC2, IAM, KMS, Service Quotas, CloudWatch), as parliament 1.6.4 carries them; only what is used here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SAGEMAKER = r"arn:aws:sagemaker:@REGION@:@ACCOUNT@:"
JOB = SAGEMAKER + r"training-job/.+"
TRAINING_PLAN = SAGEMAKER + r"training-plan/.+"
RESERVED = SAGEMAKER + r"reserved-capacity/.+"
BUCKET, OBJECT = r"arn:aws:s3:::@(DATA_)?BUCKET@", r"arn:aws:s3:::@(DATA_)?BUCKET@/.+"
REPOSITORY = r"arn:aws:ecr:(@REGION@:@ACCOUNT@|\*:\d{12}):repository/.+"
ROLE = r"arn:aws:iam::@ACCOUNT@:role/.+"
GROUP = r"arn:aws:logs:@REGION@:@ACCOUNT@:log-group:[^:]+(:\*)?"
STREAM = r"arn:aws:logs:@REGION@:@ACCOUNT@:log-group:[^:]+:log-stream:.+"
INTERFACE = r"arn:aws:ec2:@REGION@:@ACCOUNT@:network-interface/.+"
SUBNET = r"arn:aws:ec2:@REGION@:@ACCOUNT@:subnet/.+"
SECURITY_GROUP = r"arn:aws:ec2:@REGION@:@ACCOUNT@:security-group/.+"
KEY = r"arn:aws:kms:@REGION@:@ACCOUNT@:key/.+"


@dataclass(frozen=True)
class Action:
    """`on` are patterns of the ARNs; () is an action without resources, for which "*" is the only way to write it."""

    on: tuple[str, ...] = ()
    keys: frozenset[str] = frozenset()

    def takes(self, arn: str) -> bool:
        """Whether a policy may name this ARN for it."""
        return arn == "*" if not self.on else any(re.fullmatch(one, arn) for one in self.on)


def _on(*arns: str, keys: str = "") -> Action:
    return Action(arns, frozenset(keys.split()))


ACTIONS = {
    "sagemaker:CreateTrainingJob": _on(
        JOB,
        TRAINING_PLAN,
        RESERVED,
        keys="aws:RequestTag/${TagKey} aws:TagKeys sagemaker:InstanceTypes sagemaker:InterContainerTrafficEncryption "
        "sagemaker:KeepAlivePeriod sagemaker:MaxRuntimeInSeconds sagemaker:NetworkIsolation sagemaker:OutputKmsKey "
        "sagemaker:VolumeKmsKey sagemaker:VpcSecurityGroupIds sagemaker:VpcSubnets",
    ),
    "sagemaker:AddTags": _on(
        JOB, TRAINING_PLAN, RESERVED, keys="aws:RequestTag/${TagKey} aws:TagKeys sagemaker:TaggingAction"
    ),
    "sagemaker:DescribeTrainingJob": _on(JOB),
    "sagemaker:StopTrainingJob": _on(JOB),
    "sagemaker:UpdateTrainingJob": _on(JOB, keys="sagemaker:InstanceTypes sagemaker:KeepAlivePeriod"),
    "iam:PassRole": _on(ROLE, keys="iam:AssociatedResourceArn iam:PassedToService"),
    "iam:GetRole": _on(ROLE),
    "iam:SimulatePrincipalPolicy": _on(ROLE),
    "s3:GetObject": _on(OBJECT),
    "s3:PutObject": _on(OBJECT),
    "s3:DeleteObject": _on(OBJECT),
    "s3:AbortMultipartUpload": _on(OBJECT),
    "s3:ListBucket": _on(BUCKET, keys="s3:prefix s3:delimiter"),
    "ecr:GetAuthorizationToken": _on(),
    "ecr:BatchCheckLayerAvailability": _on(REPOSITORY),
    "ecr:BatchGetImage": _on(REPOSITORY),
    "ecr:CompleteLayerUpload": _on(REPOSITORY),
    "ecr:CreateRepository": _on(REPOSITORY),
    "ecr:DescribeImages": _on(REPOSITORY),
    "ecr:DescribeRepositories": _on(REPOSITORY),
    "ecr:GetDownloadUrlForLayer": _on(REPOSITORY),
    "ecr:InitiateLayerUpload": _on(REPOSITORY),
    "ecr:PutImage": _on(REPOSITORY),
    "ecr:UploadLayerPart": _on(REPOSITORY),
    "logs:CreateLogGroup": _on(GROUP),
    "logs:DescribeLogStreams": _on(GROUP),
    "logs:CreateLogStream": _on(STREAM),
    "logs:PutLogEvents": _on(STREAM),
    "logs:GetLogEvents": _on(STREAM),
    "cloudwatch:PutMetricData": _on(keys="cloudwatch:namespace"),
    "ec2:CreateNetworkInterface": _on(INTERFACE, SUBNET, SECURITY_GROUP, keys="ec2:Region ec2:Subnet"),
    "ec2:CreateNetworkInterfacePermission": _on(INTERFACE, keys="ec2:Region ec2:AuthorizedService"),
    "ec2:DeleteNetworkInterface": _on(INTERFACE, keys="ec2:Region"),
    "ec2:DeleteNetworkInterfacePermission": _on(INTERFACE, keys="ec2:Region"),
    "ec2:DescribeDhcpOptions": _on(keys="ec2:Region"),
    "ec2:DescribeNetworkInterfaces": _on(keys="ec2:Region"),
    "ec2:DescribeSecurityGroups": _on(keys="ec2:Region"),
    "ec2:DescribeSubnets": _on(keys="ec2:Region"),
    "ec2:DescribeVpcs": _on(keys="ec2:Region"),
    "servicequotas:ListServiceQuotas": _on(),
    "servicequotas:ListAWSDefaultServiceQuotas": _on(),
    "kms:CreateGrant": _on(KEY, keys="kms:GrantIsForAWSResource kms:ViaService"),
    "kms:Decrypt": _on(KEY, keys="kms:ViaService"),
    "kms:DescribeKey": _on(KEY, keys="kms:ViaService"),
    "kms:Encrypt": _on(KEY, keys="kms:ViaService"),
    "kms:GenerateDataKey": _on(KEY, keys="kms:ViaService"),
    # A trust policy's: it says who, and no resource; its keys are IAM's global ones ("The confused deputy problem").
    "sts:AssumeRole": _on(keys="aws:SourceAccount aws:SourceArn"),
}
# "IAM JSON policy elements: Condition operators".
OPERATORS = {"StringEquals", "StringLike", "NumericLessThanEquals", "Bool", "ArnLike"}
