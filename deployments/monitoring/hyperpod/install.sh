#!/usr/bin/env bash
# Installs the monitoring on a node of SageMaker HyperPod with Slurm (docs/watch.md). A lifecycle script calls it at the end, as root, on
# every node:
#   install.sh node INSTANCE_TYPE             the watch, and DCGM with the counters that the alerts need
#   install.sh controller GATE_FILE STACK     Prometheus, Alertmanager and the exporter of the gate file's store
# Prelaunch has to be in /opt/prelaunch/.venv. The exporters of node and EFA are those that HyperPod installs itself
# (enable_observability = True in config.py). Never run on HyperPod yet.
set -euo pipefail

HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
readonly HERE
readonly ROOT="${DESTDIR:-}"
readonly PRELAUNCH="${PRELAUNCH:-/opt/prelaunch/.venv/bin/prelaunch}"

fail() {
    echo "install.sh: $1" >&2
    exit 2
}

unit() {
    install -D -m 644 "$HERE/$1.service" "$ROOT/etc/systemd/system/$1.service"
}

setting() { # FILE, then lines
    local file="$ROOT$1"
    shift
    mkdir -p "$(dirname "$file")"
    (umask 077 && printf '%s\n' "$@" >"$file")
}

node() {
    local type="${1:?an instance type such as p5.48xlarge}" address
    # HyperPod calls it ml.p5.48xlarge; the machine is the same.
    type="${type#ml.}"
    address="$(hostname -I | cut -d ' ' -f 1)"
    setting /etc/prelaunch/watch.env "INSTANCE_TYPE=$type" "LISTEN=$address:9402"
    mkdir -p "$ROOT/var/lib/prometheus/node-exporter"
    unit prelaunch-watch
    systemctl daemon-reload
    systemctl enable --now prelaunch-watch
    if command -v nvidia-smi >/dev/null; then
        : "${DCGM_IMAGE:?the image of dcgm-exporter with its tag or digest}"
        install -D -m 644 "$HERE/dcgm-counters.csv" "$ROOT/etc/prelaunch/dcgm-counters.csv"
        docker rm --force prelaunch-dcgm-exporter >/dev/null 2>&1 || true
        docker run --detach --restart always --name prelaunch-dcgm-exporter --gpus all --network host --cap-add SYS_ADMIN \
            --volume /etc/prelaunch/dcgm-counters.csv:/etc/prelaunch/dcgm-counters.csv:ro "$DCGM_IMAGE" -f /etc/prelaunch/dcgm-counters.csv
    fi
}

output() { # of the stack
    local value
    value="$(aws cloudformation describe-stacks --stack-name "$1" --query "Stacks[0].Outputs[?OutputKey=='$2'].OutputValue" --output text)"
    [[ -n $value && $value != None ]] || fail "stack $1 has no output $2"
    echo "$value"
}

controller() {
    local gate="${1:?a gate file}" stack="${2:?the name of the stack}" url region nodes
    : "${ON_CALL:?the webhook of on-call}" "${OWNER:?the webhook of the owner}" "${HEARTBEAT:?the webhook that notices silence}"
    url="$(output "$stack" AMPRemoteWriteURL)"
    region="$(output "$stack" Region)"
    nodes="$(sinfo --noheader --Node --format %N | sort -u | paste -sd, -)"
    [[ -n $nodes ]] || fail "Slurm names no node"
    if ! command -v prometheus >/dev/null || ! command -v prometheus-alertmanager >/dev/null; then
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq prometheus prometheus-alertmanager
    fi
    mkdir -p "$ROOT/etc/prometheus/targets"
    "$PRELAUNCH" site monitoring config --out "$ROOT/etc/prometheus" --on-call "$ON_CALL" --owner "$OWNER" --heartbeat "$HEARTBEAT" \
        --slurm 127.0.0.1:9341 --remote-write "$url" --region "$region"
    chown prometheus: "$ROOT/etc/prometheus/alertmanager.yml"
    # Debian's own settings listen on every address, without a password and without a limit.
    setting /etc/default/prometheus-alertmanager \
        'ARGS="--web.listen-address=127.0.0.1:9093 --cluster.listen-address= --web.get-concurrency=16 --web.timeout=30s"'
    setting /etc/systemd/system/prometheus-alertmanager.service.d/prelaunch.conf '[Service]' 'MemoryMax=512M' 'TasksMax=256'
    "$PRELAUNCH" site monitoring targets "$gate" --nodes "$nodes" --out "$ROOT/etc/prometheus/targets/nodes.json"
    setting /etc/prelaunch/exporter.env "STORE=$gate" "AWS_REGION=$region"
    unit prelaunch-exporter
    unit prometheus
    systemctl daemon-reload
    systemctl enable --now prelaunch-exporter prometheus-alertmanager prometheus
    systemctl reload-or-restart prometheus-alertmanager prometheus
}

case "${1:-}" in
    node) shift && node "$@" ;;
    controller) shift && controller "$@" ;;
    *) fail "the first word is node or controller" ;;
esac
