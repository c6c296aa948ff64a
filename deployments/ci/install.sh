#!/usr/bin/env bash
# Installs the Prelaunch of this very checkout, at the versions of constraints.txt, into a virtual environment of its own.
# GitHub's action calls it where no command is named.
#
#   PRELAUNCH_PYTHON   the interpreter, 3.11 or newer (python3)
#   PRELAUNCH_EXTRAS   such as torch, for gates whose nodes are this machine
#   RUNNER_TEMP        the folder of the environment
set -euo pipefail

python=${PRELAUNCH_PYTHON:-python3}
extras=${PRELAUNCH_EXTRAS:-}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
environment=${RUNNER_TEMP:-/tmp}/prelaunch-environment

if [[ ! $extras =~ ^([a-z]+(,[a-z]+)*)?$ ]]; then
    echo "prelaunch: extras are names with commas between them, such as torch,picture" >&2
    exit 2
fi
if [[ ! -f $root/pyproject.toml ]]; then
    echo "prelaunch: $root is not a checkout of Prelaunch, so nothing can be installed from it: name a command" >&2
    exit 2
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "prelaunch: $python is not Python 3.11 or newer: name another one, or run actions/setup-python before" >&2
    exit 2
fi
"$python" -m venv --clear "$environment"
install=("$environment/bin/python" -m pip install --quiet --disable-pip-version-check --constraint "$root/constraints.txt")
# PyTorch first and alone: together with the rest, a resolver may choose another build of it.
[[ ,$extras, == *,torch,* ]] && "${install[@]}" torch
"${install[@]}" "$root${extras:+[$extras]}"
echo "command=$environment/bin/prelaunch" >>"${GITHUB_OUTPUT:-/dev/null}"
