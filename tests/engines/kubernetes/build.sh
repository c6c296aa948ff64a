#!/bin/bash
# Builds Kubernetes 1.20.2 (API server, controllers, scheduler, kubelet) from Debian 12's source package into a folder, and unpacks etcd,
# containerd and Go beside it; nothing is installed. It takes 8 minutes and more, and 6 GB until it has ended. A second run finds what is there.
#
#   tests/engines/kubernetes/build.sh build/kubernetes
#
# Newer servers are in no package of Debian: from version 1.22 on its source has kubectl alone.
set -euo pipefail

readonly VERSION=1.20.2
readonly COMMANDS=(kube-apiserver kube-controller-manager kube-scheduler kubelet)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
readonly folder
lacks() {
    local name
    for name in "$@"; do [[ -x $folder/bin/$name ]] || return 0; done
    return 1
}
lacks "${COMMANDS[@]}" etcd containerd busybox || exit 0

work=$folder/work
mkdir -p "$work/parts" "$work/lists/partial" "$work/debs" "$folder/bin" "$folder/cni"
cat >"$work/parts/source.list" <<LIST
deb http://deb.debian.org/debian bookworm main
deb-src http://deb.debian.org/debian bookworm main
LIST
apt=(-o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$work/parts" -o "Dir::State::lists=$work/lists" -o APT::Sandbox::User=root)
apt-get "${apt[@]}" update -qq

fetch() { # packages, unpacked into $work/files
    rm -rf "$work/debs" && mkdir "$work/debs"
    (cd "$work/debs" && apt-get "${apt[@]}" download -qq "$@")
    for package in "$work"/debs/*.deb; do dpkg-deb --extract "$package" "$work/files"; done
}

if lacks etcd containerd busybox; then
    fetch etcd-server containerd runc containernetworking-plugins busybox-static
    install -t "$folder/bin" "$work"/files/usr/bin/{etcd,containerd,containerd-shim-runc-v2,ctr} "$work/files/usr/sbin/runc" \
        "$work/files/bin/busybox"
    install -t "$folder/cni" "$work"/files/usr/lib/cni/{bridge,host-local,loopback}
fi
lacks "${COMMANDS[@]}" || { rm -rf "$work" && exit 0; }

fetch golang-1.19-go golang-1.19-src
source=$work/go/src/k8s.io/kubernetes
if [[ ! -d $source ]]; then
    cd "$work"
    apt-get "${apt[@]}" source -qq --download-only kubernetes
    dpkg-source --no-check -x kubernetes_*.dsc source.part >"$work/unpack.log"
    mkdir -p "$(dirname "$source")"
    mv source.part "$source"
fi

# As its own Makefile does it: in GOPATH, where go.mod is not read.
export GOROOT=$work/files/usr/lib/go-1.19 GO111MODULE=off GOFLAGS="" GOPROXY=off GOCACHE=$work/cache GOPATH=$work/go CGO_ENABLED=0
export PATH=$GOROOT/bin:$PATH
cd "$source"
# Of the code that generators write only this file is not in the package.
generated=pkg/generated/openapi/zz_generated.openapi.go
if [[ ! -s $generated ]]; then
    # Whole packages are marked in doc.go, single types where they are.
    inputs=$(grep -rl --include='*.go' --exclude='*_test.go' --exclude-dir=testdata --exclude-dir=code-generator --exclude-dir='sample-*' \
        '+k8s:openapi-gen=true' cmd pkg staging/src | xargs -n1 dirname |
        sed -e 's,^staging/src/,,' -e 's,^\(cmd\|pkg\)/,k8s.io/kubernetes/\1/,' | sort -u | paste -sd,)
    go build -o "$work/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
    "$work/openapi-gen" --logtostderr --go-header-file /dev/null --input-dirs "$inputs" --output-base "$work/go/src" \
        --output-package k8s.io/kubernetes/pkg/generated/openapi --output-file-base zz_generated.openapi --report-filename "$work/violations"
fi
flags="-s -w -X k8s.io/kubernetes/vendor/k8s.io/component-base/version.gitVersion=v$VERSION -X k8s.io/kubernetes/vendor/k8s.io/component-base/version.gitMajor=1"
flags+=" -X k8s.io/kubernetes/vendor/k8s.io/component-base/version.gitMinor=20 -X k8s.io/kubernetes/vendor/k8s.io/client-go/pkg/version.gitVersion=v$VERSION"
for name in "${COMMANDS[@]}"; do
    [[ -x $folder/bin/$name ]] && continue
    go build -ldflags "$flags" -o "$folder/bin/$name.part" "./cmd/$name"
    mv "$folder/bin/$name.part" "$folder/bin/$name"
done
rm -rf "$work"
