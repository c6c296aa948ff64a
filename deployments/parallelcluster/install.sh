#!/usr/bin/env bash
# Installs Prelaunch on a node of AWS ParallelCluster (docs/slurm.md). The cluster's configuration names it as OnNodeConfigured, as
# `prelaunch site parallelcluster` writes it; ParallelCluster runs it as root, and a node on which it fails is not put into service.
#   install.sh head REGION FOLDER SHA256 INSTANCE_TYPE [REMOTE_WRITE_URL]    the prolog of all nodes, in the folder that they share
#   install.sh compute REGION FOLDER SHA256 INSTANCE_TYPE                    the watch of this node
# FOLDER is the one in S3 that has prelaunch.pyz and prelaunch-watch.service. Never run on AWS yet.
set -euo pipefail

readonly ROOT="${DESTDIR:-}"
# Slurm's folder is on the head node, and every compute node mounts it. Slurm runs each file of prolog.d, the last in the alphabet first,
# so that ParallelCluster's own 90_pcluster_health_check_manager comes before ours.
readonly SHARED=/opt/slurm/etc
readonly PROLOGS="$SHARED/scripts/prolog.d"
readonly PROGRAM=prelaunch.pyz

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

fetch() { # NAME TARGET
    aws s3 cp --only-show-errors --region "$region" "$folder/$1" "$2" || fail "$folder/$1 cannot be read"
}

program() { # TARGET; it is there completely, or not at all
    local target="$ROOT$1"
    mkdir -p "$(dirname "$target")"
    fetch "$PROGRAM" "$target.new"
    echo "$sha256  $target.new" | sha256sum --check --status || fail "$folder/$PROGRAM is not the file that the configuration was written for"
    /usr/bin/python3 "$target.new" list >/dev/null || fail "$PROGRAM does not run: it needs Python 3.10"
    chmod 755 "$target.new"
    mv "$target.new" "$target"
}

head_node() {
    local url="${1:-}" prolog
    [[ -d "$ROOT$PROLOGS" ]] || fail "$PROLOGS is not there: ParallelCluster has it from 3.6.0 on"
    program "$SHARED/prelaunch/$PROGRAM"
    # Made elsewhere first, because Slurm would run a half written file.
    prolog="$ROOT$SHARED/prelaunch/prolog"
    cat >"$prolog" <<END
#!/bin/sh
# Slurm drains a node on which this ends with another code than 0, and ParallelCluster replaces it as soon as it is idle. So a fault that was
# measured ends with 1, and what could not be measured lets the job run: a gate refuses that itself, and destroys no node for it.
exec /usr/bin/python3 $SHARED/prelaunch/$PROGRAM prolog --instance-type $type --deadline-s 30 --cannot-tell pass
END
    chmod 755 "$prolog"
    mv "$prolog" "$ROOT$PROLOGS/50_prelaunch"
    if [[ -n $url ]]; then
        mkdir -p "$ROOT/etc/prelaunch"
        printf 'AMPREMOTEWRITEURL=%s\nAWS_REGION=%s\n' "$url" "$region" >"$ROOT/etc/prelaunch/monitoring.env"
    fi
}

compute_node() {
    local units="$ROOT/etc/systemd/system" address
    program "/opt/prelaunch/$PROGRAM"
    mkdir -p "$units/prelaunch-watch.service.d" "$ROOT/etc/prelaunch"
    fetch prelaunch-watch.service "$units/prelaunch-watch.service"
    cat >"$units/prelaunch-watch.service.d/program.conf" <<END
[Service]
ExecStart=
ExecStart=/usr/bin/python3 /opt/prelaunch/$PROGRAM watch --instance-type \${INSTANCE_TYPE} --listen \${LISTEN}
END
    address="$(hostname -I | cut -d ' ' -f 1)"
    printf 'INSTANCE_TYPE=%s\nLISTEN=%s:9402\n' "$type" "$address" >"$ROOT/etc/prelaunch/watch.env"
    systemctl daemon-reload
    systemctl enable --now prelaunch-watch
}

role="${1:?head or compute}" region="${2:?a region}" folder="${3:?a folder in S3}" sha256="${4:?the digest of $PROGRAM}" type="${5:?an instance type}"
shift 5
case "$role" in
    head) head_node "$@" ;;
    compute) compute_node ;;
    *) fail "the first word is head or compute" ;;
esac
