# A training image of your own in which the checks can run: FROM the image that container/create-image.sh pushed. It brings
# what the checks need, and its label, by which `prelaunch plan` knows that it does. Linted, and never built by this project:
# see the head of container/Dockerfile. PRELAUNCH_IMAGE is what create-image.sh printed, by digest or with a tag:
#
#   docker build --platform linux/amd64 --build-arg PRELAUNCH_IMAGE=123456789012.dkr.ecr.us-east-1.amazonaws.com/prelaunch:1 \
#     --file deployments/examples/training.Dockerfile --tag 123456789012.dkr.ecr.us-east-1.amazonaws.com/training:1 .

ARG PRELAUNCH_IMAGE=the-prelaunch-image-is-not-named.invalid/prelaunch:1
FROM ${PRELAUNCH_IMAGE}

# What your training needs beside PyTorch, with its versions and checksums. Keep the PyTorch that is there: NCCL comes with it,
# and nccl-tests in the image is built for that NCCL.
COPY requirements.txt /opt/training/requirements.txt
RUN python3 -m pip install --no-cache-dir --require-hashes --requirement /opt/training/requirements.txt
COPY train.py /opt/training/train.py

# No ENTRYPOINT: the gate starts the agent of the base image, and the agent your [training] command.
