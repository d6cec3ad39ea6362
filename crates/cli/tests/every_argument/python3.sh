#!/bin/sh
# Installs as pip does: the library for TPUs, of the folder of wheels where one is named, in the version that is requested.
library=libtpu.so version=1.0
while [ $# -gt 0 ]; do
    case "$1" in
    --target) target=$2 && shift ;;
    --find-links) library=$2/libtpu.so version=from-wheels && shift ;;
    *==*) version=${1#*==} ;;
    esac
    shift
done
[ -n "$target" ] || exit 0
mkdir -p "$target/libtpu" "$target/libtpu-$version.dist-info"
cp "$library" "$target/libtpu/libtpu.so"
