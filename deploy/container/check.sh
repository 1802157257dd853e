#!/usr/bin/env bash
# Builds the container and tries it: check.sh CONTEXT. Takes buildah, and root, as it needs no daemon. It runs as its user without a right,
# becomes healthy by its own health check, and keeps its data over a restart. It is refused above 20 MB compressed.
set -euo pipefail
context=$1 repository=$(cd "$(dirname "$0")/../.." && pwd)
most=$((20 * 1000 * 1000))
work=$(mktemp -d)
image=quern-check-$$
store=(--storage-driver vfs --root "$work/root" --runroot "$work/run")
container=""
serving='^/quern serve --listen 127.0.0.1:17700 '
finish() {
	pkill -9 -f "$serving" && wait "$server" 2>/dev/null
	[ -z "$container" ] || buildah "${store[@]}" rm "$container" >/dev/null
	buildah "${store[@]}" rmi --all --force >/dev/null 2>&1
	rm -rf "$work"
}
trap 'finish || true' EXIT

buildah "${store[@]}" build --isolation chroot --format docker --quiet -t "$image" -f "$context/Containerfile" "$context" >/dev/null
buildah "${store[@]}" push --quiet "$image" "docker-archive:$work/image.tar"
size=$(gzip -9 <"$work/image.tar" | wc -c)
[ "$size" -le $most ] || { echo "container: $size bytes compressed; at most $most" >&2; exit 1; }
config=$(buildah "${store[@]}" inspect --type image "$image")
for want in '"User": "65532:65532"' '"health"' '"/data": {}'; do
	grep -q -- "$want" <<<"$config" || { echo "container: its configuration does not have $want" >&2; exit 1; }
done

container=$(buildah "${store[@]}" from --pull-never "$image")
inside() { buildah "${store[@]}" run --isolation chroot "$container" -- "$@"; }
start() {
	inside /quern serve --listen 127.0.0.1:17700 --metrics-listen 127.0.0.1:17701 --log-level error >"$work/out" 2>&1 &
	server=$!
	inside /quern health --server http://127.0.0.1:17701 --wait 30s >/dev/null || { cat "$work/out" >&2; exit 1; }
}
start
inside /quern submit --server http://127.0.0.1:17700 --count 3 --template 'chunk {index}' >/dev/null
pid=$(pgrep -f "$serving")
uid=$(awk '/^Uid:/ {print $2}' "/proc/$pid/status")
[ "$uid" = 65532 ] || { echo "container: the server runs as user $uid, want 65532" >&2; exit 1; }
kill -9 "$pid"
wait "$server" 2>/dev/null || true
start
ready=$(inside /quern stats --server http://127.0.0.1:17700 -o json | tr -d ' \n' | grep -o '"ready":[0-9]*' | head -1)
[ "$ready" = '"ready":3' ] || { echo "container: after a restart $ready, want 3 chunks" >&2; exit 1; }

# A plugin: the server compiles it in a child process, which has nothing here but this binary either.
quern=$(realpath "$context")/rootfs/quern
(cd "$work" && "$quern" plugin new oldest --lang go --sdk "$repository" && "$quern" plugin build oldest) >/dev/null
"$quern" plugin push "$work/oldest/oldest.wasm" --activate --server http://127.0.0.1:17700 >/dev/null
echo "the container is $size bytes compressed, runs as 65532, is healthy, compiles plugins, and kept its chunks over kill -9"
