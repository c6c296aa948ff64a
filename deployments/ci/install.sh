#!/usr/bin/env bash
# Installs Prelaunch into a virtual environment of its own: that of this very checkout, at the versions of constraints.txt, or, where
# this file was copied out of one, the release that copied it. GitHub's action calls it where no command is named.
#
#   PRELAUNCH_PYTHON   the interpreter, 3.11 or newer (python3)
#   PRELAUNCH_EXTRAS   such as torch, for gates whose nodes are this machine
#   PRELAUNCH_PACKAGE  what pip is asked for instead, such as the path of a wheel
#   RUNNER_TEMP        the folder of the environment
set -euo pipefail

release=0.2.0
python=${PRELAUNCH_PYTHON:-python3}
extras=${PRELAUNCH_EXTRAS:-}
package=${PRELAUNCH_PACKAGE:-}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
environment=${RUNNER_TEMP:-/tmp}/prelaunch-environment

if [[ ! $extras =~ ^([a-z]+(,[a-z]+)*)?$ ]]; then
    echo "prelaunch: extras are names with commas between them, such as torch,kubernetes" >&2
    exit 2
fi
if [[ -n $package && -n $extras ]]; then
    echo "prelaunch: a package names its extras itself, such as ./wheels/prelaunch-$release-py3-none-any.whl[$extras]" >&2
    exit 2
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "prelaunch: $python is not Python 3.11 or newer: name another one, or run actions/setup-python before" >&2
    exit 2
fi
"$python" -m venv --clear "$environment"
install=("$environment/bin/python" -m pip install --quiet --disable-pip-version-check)
wanted=("${package:-prelaunch${extras:+[$extras]}==$release}")
if [[ -z $package && -f $root/pyproject.toml && -f $root/constraints.txt ]]; then
    install+=(--constraint "$root/constraints.txt")
    wanted=("$root${extras:+[$extras]}")
    # PyTorch first and alone: together with the rest, a resolver may choose another build of it.
    [[ ,$extras, != *,torch,* ]] || wanted=(torch "${wanted[@]}")
fi
for one in "${wanted[@]}"; do
    if ! "${install[@]}" "$one"; then
        echo "prelaunch: pip could not install $one. Name a package (package, PRELAUNCH_PACKAGE), such as the path of a wheel, or a command" \
            "that is installed already (command): docs/pipelines.md" >&2
        exit 2
    fi
done
echo "command=$environment/bin/prelaunch" >>"${GITHUB_OUTPUT:-/dev/null}"
