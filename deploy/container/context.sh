#!/usr/bin/env bash
# Makes the folder that the container is built from: context.sh BINARY DIR. BINARY is a static one, of a release. Beside it there are only
# the certificates of public authorities, for the collector of traces.
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: context.sh BINARY DIR" >&2; exit 2; }
binary=$1 dir=$2
bundle=/etc/ssl/certs/ca-certificates.crt
[ -r "$bundle" ] || { echo "container: $bundle is missing; on Debian, install ca-certificates" >&2; exit 1; }
rm -rf "$dir"
mkdir -p "$dir"/rootfs/etc/ssl/certs "$dir"/data "$dir"/tmp
install -m 0755 "$binary" "$dir/rootfs/quern"
install -m 0644 "$bundle" "$dir/rootfs$bundle"
echo 'quern:x:65532:65532:Quern:/data:/quern' >"$dir/rootfs/etc/passwd"
echo 'quern:x:65532:' >"$dir/rootfs/etc/group"
cp "$(dirname "$0")/Containerfile" "$dir/Containerfile"
