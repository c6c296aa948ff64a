"""A team's own ModelTrainer, as it would call train() on: a gate file names it instead of a command.

    [training]
    model_trainer = "model_trainer:trainer"   # PYTHONPATH=deployments/examples

The gate takes its request and starts the job itself, behind the checks, on the machines that passed. Needs
pip install 'prelaunch[sagemaker]'.
"""

from __future__ import annotations

from pathlib import Path

from sagemaker.core.training.configs import Compute, SourceCode, Tag
from sagemaker.train import ModelTrainer
from sagemaker.train.distributed import Torchrun

HERE = Path(__file__).parent

trainer = ModelTrainer(
    training_image="123456789012.dkr.ecr.us-east-1.amazonaws.com/training:2026-11",
    role="arn:aws:iam::123456789012:role/prelaunch-training",
    base_job_name="tiny",
    source_code=SourceCode(
        source_dir=str(HERE),
        entry_script="train_tiny.py",
        ignore_patterns=["*.toml", "model_trainer.py", "__pycache__"],
    ),
    distributed=Torchrun(process_count_per_node=1),
    compute=Compute(instance_type="ml.m5.large", instance_count=2, volume_size_in_gb=100),
    hyperparameters={"steps": 20, "checkpoints": "/opt/ml/checkpoints"},
    tags=[Tag(key="team", value="tiny")],
)

if __name__ == "__main__":
    trainer.train()
