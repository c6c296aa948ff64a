#!/bin/bash
# Builds Kubernetes 1.20.2 (API server, controllers, scheduler, kubelet) from Debian 12's source package into a folder, and unpacks etcd,
# containerd and Go beside it; nothing is installed. It takes 10 minutes and more, and 6 GB until it has ended. A second run finds what is there.
#
#   kubernetes_build.sh build/kubernetes
#
# Newer servers are in no package of Debian: from version 1.22 on its source has kubectl alone.
set -euo pipefail

readonly VERSION=1.20.2
readonly COMMANDS=(kube-apiserver kube-controller-manager kube-scheduler kubelet)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
readonly folder
complete=true
for name in "${COMMANDS[@]}" etcd containerd; do
    [[ -x $folder/bin/$name ]] || complete=false
done
$complete && exit 0

work=$folder/work
mkdir -p "$work/parts" "$work/lists/partial" "$work/debs" "$folder/bin"
cat >"$work/parts/source.list" <<LIST
deb http://deb.debian.org/debian bookworm main
deb-src http://deb.debian.org/debian bookworm main
LIST
apt=(-o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$work/parts" -o "Dir::State::lists=$work/lists" -o APT::Sandbox::User=root)
apt-get "${apt[@]}" update -qq

cd "$work/debs"
apt-get "${apt[@]}" download -qq etcd-server containerd runc containernetworking-plugins golang-1.19-go golang-1.19-src
for package in *.deb; do
    dpkg-deb --extract "$package" "$work/files"
done
install -t "$folder/bin" "$work"/files/usr/bin/{etcd,containerd,containerd-shim-runc-v2,ctr} "$work/files/usr/sbin/runc"
mkdir -p "$folder/cni"
install -t "$folder/cni" "$work"/files/usr/lib/cni/{bridge,host-local,loopback,ptp}

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
# The links in it lead to where Go would be if it were installed.
find "$GOROOT" "$work/files/usr/share/go-1.19" -type l -lname '/*' -exec sh -c 'ln -sfn "$1$(readlink "$2")" "$2"' _ "$work/files" {} \;
cd "$source"
# Of the code that generators write only this file is not in the package.
generated=pkg/generated/openapi/zz_generated.openapi.go
if [[ ! -s $generated ]]; then
    inputs=$(grep -rl --include=doc.go '+k8s:openapi-gen=true' cmd pkg staging/src vendor/k8s.io/kube-aggregator 2>/dev/null |
        xargs -n1 dirname | sed -e 's,^staging/src/,,' -e 's,^vendor/,,' -e 's,^\(cmd\|pkg\)/,k8s.io/kubernetes/\1/,' | sort -u | paste -sd,)
    go build -o "$work/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
    "$work/openapi-gen" --logtostderr --go-header-file /dev/null --input-dirs "$inputs" --output-base "$work/go/src" \
        --output-package k8s.io/kubernetes/pkg/generated/openapi --output-file-base zz_generated.openapi --report-filename "$work/violations"
fi
flags="-s -w -X k8s.io/kubernetes/vendor/k8s.io/component-base/version.gitVersion=v$VERSION -X k8s.io/kubernetes/vendor/k8s.io/component-base/version.gitMajor=1"
flags+=" -X k8s.io/kubernetes/vendor/k8s.io/component-base/version.gitMinor=20 -X k8s.io/kubernetes/vendor/k8s.io/client-go/pkg/version.gitVersion=v$VERSION"
for name in "${COMMANDS[@]}"; do
    go build -ldflags "$flags" -o "$folder/bin/$name.part" "./cmd/$name"
    mv "$folder/bin/$name.part" "$folder/bin/$name"
done
rm -rf "$work"
