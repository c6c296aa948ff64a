#!/usr/bin/env bash
# fetch.sh NAME URL SHA256 FILE      download what is pinned, or fail; FOLDER/ takes the URL's own name
# fetch.sh --check NAME=SHA256...    say which pins are empty
set -euo pipefail

die() {
    echo "fetch.sh: $*" >&2
    exit 1
}

# require_pin NAME SHA256
require_pin() {
    [[ "$2" =~ ^[0-9a-f]{64}$ ]] || die "$1 has no sha256 in container/pins.toml (found '$2')." \
        "Run create-image.sh --record where there is internet."
}

if [[ "${1:-}" == --check ]]; then
    for pair in "${@:2}"; do
        require_pin "${pair%%=*}" "${pair#*=}"
    done
    exit 0
fi

name="${1:?NAME}" url="${2?URL}" sha256="${3?SHA256}" file="${4:?FILE}"
if [[ "$file" == */ ]]; then
    file+="$(basename "${url//%2B/+}")"
fi
readonly name url sha256 file

require_pin "$name" "$sha256"
[[ -n "$url" ]] || die "$name has no URL. Build with container/create-image.sh, which reads container/pins.toml."
curl --fail --silent --show-error --location --retry 3 --output "$file" "$url" || die "$name: $url cannot be downloaded"
echo "$sha256  $file" | sha256sum --check --status - || {
    found="$(sha256sum "$file" | cut -d ' ' -f 1)"
    rm -f "$file"
    die "$name: $url has the sha256 $found, not the pinned $sha256. Find out why before you change the pin."
}
