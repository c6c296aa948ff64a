#!/usr/bin/env bash
# Builds the container and pushes it to Amazon ECR, or to another registry.
set -euo pipefail

usage() {
    cat <<'END'
usage: container/create-image.sh [OPTIONS] NAME [TAG]

Builds container/Dockerfile as NAME:TAG (TAG: latest), creates the ECR repository NAME if it is missing, logs in, pushes.

  --target image|checks    image: GPU base and all tools (default); checks: checks/ and the agent alone
  --base aws|scratch       what `image` stands on (default aws)
  --base-image REFERENCE   instead of the base of pins.toml, such as localhost/my-base:1
  --engine NAME            docker, podman or buildah; default: the first of them that works
  --region REGION          of the ECR repository; default AWS_REGION, else what `aws configure` says
  --account ID             of the ECR repository; default: the caller's
  --registry HOST[/PATH]   push to this registry instead of ECR; log in to it before, with `docker login HOST`
  --no-push                build only
  --pins FILE              default container/pins.toml
  --record                 build nothing: download what has no checksum yet, pull the base, write both into the pins
  --dry-run                print the commands, run none of them
  --help

Without internet access, PIP_INDEX_URL and APT_MIRROR name mirrors for the build (an index of Python packages; the URL of a mirror of the
base's Debian or Ubuntu archive), --base-image the base in your registry, and --pins a copy of pins.toml with the URLs of your copies: a file
is taken only with its checksum. The target `checks` loads nothing but its base.

Exit codes: 0 done; 1 a command failed, or a pin is empty; 2 usage.
END
}

die() {
    echo "create-image.sh: $*" >&2
    exit 1
}

misused() {
    echo "create-image.sh: $* (--help says more)" >&2
    exit 2
}

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
target=image base=aws base_image="" engine="" registry="" region="${AWS_REGION:-}" account="" pins="$here/pins.toml"
push=yes record=no dry=no
platform=linux/amd64 # of every machine with NVIDIA GPUs that the gate files name, whatever this one is
words=()

parse() {
    while [[ $# -gt 0 ]]; do
        case "$1" in
        --target | --base | --base-image | --engine | --registry | --region | --account | --pins)
            [[ $# -ge 2 && -n "$2" ]] || misused "$1 needs a value"
            local name="${1#--}"
            printf -v "${name//-/_}" '%s' "$2"
            shift
            ;;
        --no-push) push=no ;;
        --record) record=yes ;;
        --dry-run) dry=yes ;;
        --help) usage && exit 0 ;;
        -*) misused "unknown option $1" ;;
        *) words+=("$1") ;;
        esac
        shift
    done
    [[ "$target" == image || "$target" == checks ]] || misused "--target is image or checks, not $target"
    [[ "$base" == aws || "$base" == scratch ]] || misused "--base is aws or scratch, not $base"
    [[ -z "$engine" || "$engine" =~ ^(docker|podman|buildah)$ ]] || misused "--engine is docker, podman or buildah"
    [[ -z "$registry" || "$registry" =~ ^[A-Za-z0-9.-]+(:[0-9]+)?(/[a-z0-9][a-z0-9._/-]*)?$ ]] ||
        misused "--registry is HOST, HOST:PORT or HOST/PATH, not $registry"
    [[ -z "$registry" || "$push" == yes ]] || misused "--registry and --no-push contradict each other"
    [[ -f "$pins" ]] || misused "there is no $pins"
    [[ "$record" == yes || (${#words[@]} -ge 1 && ${#words[@]} -le 2) ]] || misused "give NAME, and TAG if you like"
    [[ "${words[0]:-x}" =~ ^[a-z0-9][a-z0-9._/-]*$ ]] || misused "${words[0]} cannot be a repository's name"
    [[ "${words[1]:-x}" =~ ^[A-Za-z0-9_][A-Za-z0-9._-]*$ ]] || misused "${words[1]} cannot be a tag"
}

# pin SECTION KEY: the value in the pins, "" where there is none.
pin() {
    awk -v section="[$1]" -v key="$2" '
        /^\[/ { inside = ($1 == section) }
        inside && $1 == key && $2 == "=" { sub(/^[^"]*"/, ""); sub(/".*$/, ""); print; exit }' "$pins"
}

# write_pin SECTION KEY VALUE: only where the pin is empty.
write_pin() {
    local new
    new="$(mktemp "$pins.XXXXXX")"
    awk -v section="[$1]" -v key="$2" -v value="$3" '
        /^\[/ { inside = ($1 == section) }
        inside && $0 == key " = \"\"" { $0 = key " = \"" value "\"" }
        { print }' "$pins" >"$new"
    cat "$new" >"$pins"
    rm -f "$new"
    echo "recorded: $1 $2 $3"
}

# run COMMAND...: say it and do it, or, in a dry run, only say it.
run() {
    if [[ "$dry" == yes ]]; then
        show "$@"
    else
        show "$@" >&2
        "$@"
    fi
}

# A line that a shell would read back as this command.
show() {
    local line
    printf -v line '%q ' "$@"
    echo "${line% }"
}

image_section() { if [[ "$target" == checks ]]; then echo image.checks; else echo "image.$base"; fi; }

artefacts() {
    [[ "$target" == checks ]] && return
    echo efa gdrcopy nccl_tests dcgm_core dcgm_cuda
    if [[ "$base" == scratch ]]; then echo torch; fi
}

empty_pins() {
    local section
    for section in $(artefacts); do
        [[ -n "$(pin "$section" sha256)" ]] || echo "$section.sha256"
    done
    [[ -n "$base_image" || -n "$(pin "$(image_section)" digest)" ]] || echo "$(image_section).digest"
}

base_reference() {
    local section
    section="$(image_section)"
    if [[ -n "$base_image" ]]; then echo "$base_image"; else echo "$(pin "$section" name)@$(pin "$section" digest)"; fi
}

find_engine() {
    local name
    for name in ${engine:-docker podman buildah}; do
        command -v "$name" >/dev/null || continue
        # docker's client is often there without its daemon.
        if [[ "$dry" == yes || "$name" != docker ]] || docker info >/dev/null 2>&1; then
            engine="$name"
            return
        fi
    done
    if [[ "$dry" == yes ]]; then engine="${engine:-docker}" && return; fi
    die "none of ${engine:-docker, podman, buildah} works here. Install one, or start docker's daemon."
}

build() {
    local reference="$1" section
    local arguments=(--platform "$platform" --file "$here/Dockerfile" --target "$target" --tag "$reference"
        --build-arg "BASE=$base" --build-arg "BASE_IMAGE=$(base_reference)")
    for section in $(artefacts); do
        arguments+=(--build-arg "${section^^}_URL=$(pin "$section" url)"
            --build-arg "${section^^}_SHA256=$(pin "$section" sha256)"
            --build-arg "${section^^}_VERSION=$(pin "$section" version)")
    done
    local mirror
    for mirror in PIP_INDEX_URL APT_MIRROR; do # by name: a URL may contain a password, which the engine takes from the environment
        if [[ -n "${!mirror:-}" ]]; then arguments+=(--build-arg "$mirror"); fi
    done
    case "$engine" in
    docker) run env DOCKER_BUILDKIT=1 docker build "${arguments[@]}" "$(dirname "$here")" ;;
    *) run "$engine" build --ignorefile "$here/Dockerfile.dockerignore" "${arguments[@]}" "$(dirname "$here")" ;;
    esac
}

# log_in REGISTRY REGION: the password goes from one process to the other and is never shown.
log_in() {
    local get=(aws ecr get-login-password --region "$2") put=("$engine" login --username AWS --password-stdin "$1")
    if [[ "$dry" == yes ]]; then
        echo "$(show "${get[@]}") | $(show "${put[@]}")"
    else
        "${get[@]}" | "${put[@]}" >&2
    fi
}

# The AWS base is pulled from a registry that wants a login too.
log_in_to_base() {
    local registry
    registry="$(pin "$(image_section)" name)"
    registry="${registry%%/*}"
    [[ -z "$base_image" && "$registry" =~ ^[0-9]+\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com ]] || return 0
    log_in "$registry" "${BASH_REMATCH[1]}"
}

find_registry() {
    [[ -n "$region" || "$dry" == yes ]] || region="$(aws configure get region || true)"
    [[ -n "$region" ]] || misused "no region: give --region or set AWS_REGION"
    if [[ -z "$account" ]]; then
        local asking=(aws sts get-caller-identity --query Account --output text)
        if [[ "$dry" == yes ]]; then
            echo "# ACCOUNT is what this prints: $(show "${asking[@]}")"
            account=ACCOUNT
        else
            account="$("${asking[@]}")" || die "AWS does not say whose credentials these are. Log in, or give --account."
        fi
    fi
    registry="$account.dkr.ecr.$region.amazonaws.com"
}

ensure_repository() {
    local about=(--repository-name "$1" --region "$region") said
    local look=(aws ecr describe-repositories --repository-names "$1" --region "$region")
    if [[ "$dry" == yes ]]; then
        echo "$(show "${look[@]}") || $(show aws ecr create-repository "${about[@]}")"
    elif ! said="$("${look[@]}" 2>&1)"; then
        [[ "$said" == *RepositoryNotFoundException* ]] || die "ECR does not answer for repository $1: $said"
        run aws ecr create-repository "${about[@]}" >&2
    fi
}

push_image() {
    case "$engine" in
    buildah) run buildah push "$1" "docker://$1" ;;
    *) run "$engine" push "$1" ;;
    esac
}

record_pins() {
    local section url loaded failed=0
    loaded="$(mktemp)"
    # shellcheck disable=SC2064
    trap "rm -f '$loaded'" EXIT
    for section in $(artefacts); do
        [[ -z "$(pin "$section" sha256)" ]] || continue
        url="$(pin "$section" url)"
        if run curl --fail --silent --show-error --location --retry 3 --output "$loaded" "$url"; then
            [[ "$dry" == yes ]] || write_pin "$section" sha256 "$(sha256sum "$loaded" | cut -d ' ' -f 1)"
        else
            echo "create-image.sh: $section: $url cannot be downloaded; its pin stays empty" >&2
            failed=1
        fi
    done
    section="$(image_section)"
    if [[ -z "$base_image" && -z "$(pin "$section" digest)" ]]; then
        record_digest "$section" || failed=1
    fi
    return "$failed"
}

record_digest() {
    local reference digest
    reference="$(pin "$1" name):$(pin "$1" tag)"
    find_engine
    log_in_to_base
    run "$engine" pull --platform "$platform" "$reference" >&2 || return 1
    local asking=("$engine" image inspect --format '{{index .RepoDigests 0}}' "$reference")
    [[ "$engine" != buildah ]] || asking=(buildah inspect --type image --format '{{.FromImageDigest}}' "$reference")
    if [[ "$dry" == yes ]]; then show "${asking[@]}" && return; fi
    digest="$("${asking[@]}")"
    digest="${digest##*@}"
    [[ "$digest" =~ ^sha256:[0-9a-f]{64}$ ]] || die "$engine knows no digest of $reference"
    write_pin "$1" digest "$digest"
}

main() {
    parse "$@"
    if [[ "$record" == yes ]]; then
        record_pins || die "not everything could be recorded"
        return
    fi
    local empty reference="${words[0]}:${words[1]:-latest}" ours="$registry"
    empty="$(empty_pins)"
    if [[ -n "$empty" ]]; then
        [[ "$dry" == yes ]] || die "empty in $pins: ${empty//$'\n'/, }. Run create-image.sh --record where there is internet."
        echo "create-image.sh: this build would fail, empty in $pins: ${empty//$'\n'/, }" >&2
    fi
    find_engine
    if [[ "$push" == yes ]]; then
        [[ -n "$ours" ]] || find_registry
        reference="$registry/$reference"
    fi
    log_in_to_base
    build "$reference"
    if [[ "$push" == yes ]]; then
        if [[ -z "$ours" ]]; then
            ensure_repository "${words[0]}"
            log_in "$registry" "$region"
        fi
        push_image "$reference"
    fi
    echo "$reference"
}

main "$@"
