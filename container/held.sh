#!/usr/bin/env bash
# held.sh NAME HELD PINNED    exit code 0 where the base image holds the pinned version or a newer one, 1 where it is to be installed
#
# HELD is "" where the base has none. Versions are compared as `sort -V` does.
set -euo pipefail

name="${1:?NAME}" held="${2?HELD}" pinned="${3:?PINNED}"
newest="$(printf '%s\n' "$held" "$pinned" | sort -V | tail -n 1)"
if [[ "$held" == "$newest" ]]; then
    echo "held.sh: the base image holds $name $held; it stays, $pinned is pinned" >&2
else
    echo "held.sh: $name $pinned is installed, the base image holds ${held:-none}" >&2
    exit 1
fi
