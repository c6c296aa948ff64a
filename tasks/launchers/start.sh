#!/bin/sh
# Starts the gate's agent in an image that does not have it: unpacks it from the input channel, and becomes it.
# The arguments are the agent's. Where that cannot be, the reason is in SageMaker's failure file, nothing else was
# started, and the exit code is 2.
set -eu

root=${PRELAUNCH_ROOT:-/opt/ml}
archive=$(dirname "$0")/prelaunch.tar.gz

refuse() {
    echo "prelaunch: $1" >&2
    mkdir -p "$root/output" 2>/dev/null || :
    printf '%s\n' "$1" 2>/dev/null >"$root/output/failure" || :
    exit 2
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1
}

# The image's own first, so that the agent finds the boto3 that is there.
find_python() {
    for candidate in python3 python /opt/conda/bin/python3 "${PRELAUNCH_PYTHON:-}" \
        python3.14 python3.13 python3.12 python3.11 python3.10; do
        if [ -n "$candidate" ] && is_new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

python=$(find_python) ||
    refuse "this image has no Python >= 3.10, which the checks need. Add one, or name it: [cluster.options] python."

code=$("$python" -W ignore -c '
import fcntl, os, sys, tarfile, tempfile
folder = tempfile.mkdtemp(prefix="prelaunch-code.")
try:
    fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_SH)
except OSError:
    folder = tempfile.mkdtemp(prefix="prelaunch-")
with tarfile.open(sys.argv[1]) as archive:
    archive.extractall(folder)
print(folder)
' "$archive") || refuse "the checks could not be unpacked from $archive: see the log, and the free space of /tmp."

# A shell sets variables by itself, such as PWD. The training gets none of them: these are the names that the engine set.
given=$("$python" -c '
import os, sys
with open(f"/proc/{sys.argv[1]}/environ", "rb") as file:
    print("=".join(os.fsdecode(row.partition(b"=")[0]) for row in file.read().split(b"\0")))
' "$$" 2>/dev/null) || given=

# -m would look into the working folder first, and an image may have a checks/ of its own there. It is kept: it is the
# training's, and so is PYTHONPATH.
exec "$python" -u -c '
import os, sys
sys.path.remove("") if "" in sys.path else None
sys.path.insert(0, sys.argv.pop(1))
if given := sys.argv.pop(1):
    for name in set(os.environ) - set(given.split("=")):
        del os.environ[name]
import atexit, fcntl, runpy, shutil
try:  # for as long as this process lives: a later agent removes what nobody holds (container/agent/files/scratch.py)
    fcntl.flock(os.open(sys.path[0], os.O_RDONLY), fcntl.LOCK_SH)
except OSError:
    pass
atexit.register(shutil.rmtree, sys.path[0], ignore_errors=True)
runpy.run_module("container.agent", run_name="__main__", alter_sys=True)
' "$code" "$given" "$@"
