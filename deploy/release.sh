#!/usr/bin/env bash
# Builds the files of a release: release.sh VERSION DIR [ARCH...]. For linux on amd64 and arm64, unless ARCH names some: static binaries
# without symbols, quern and quern-objects, their bills of materials (CycloneDX), Debian packages, manual pages and completions, and the
# sums of all. The same sources, version and compilers are to make the same bytes, which `make release-check` compares.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 2 ] || { echo "usage: release.sh VERSION DIR [ARCH...]" >&2; exit 2; }
version=$1 dir=$2
shift 2
[ $# -gt 0 ] || set -- amd64 arm64

# SQLite is C, so that another processor than this one takes a compiler for it.
compiler() {
	local name=CC_$1
	if [ -n "${!name:-}" ]; then echo "${!name}"; return; fi
	if [ "$1" = "$(go env GOHOSTARCH)" ]; then echo gcc; return; fi
	case $1 in
	arm64) echo aarch64-linux-gnu-gcc ;;
	amd64) echo x86_64-linux-gnu-gcc ;;
	*) echo "release: there is no compiler for linux/$1: name one with CC_$1=..." >&2; return 1 ;;
	esac
}

# The modules that the linker wrote into a binary, with their sums. Without time and serial number, so that the same binary has the same list.
sbom() {
	CGO_ENABLED=0 GOFLAGS=-trimpath go tool -modfile=internal/tools/go.mod cyclonedx-gomod bin -json -noserial -notimestamp -std \
		-output-version 1.5 -version "$version" -output "$1.cdx.json" "$1"
}

vcs=false # the revision goes into the binary where git can tell it
if git rev-parse --quiet --verify HEAD >/dev/null 2>&1; then vcs=true; fi
rm -rf "$dir"
mkdir -p "$dir"
for arch in "$@"; do
	cc=$(compiler "$arch")
	command -v "$cc" >/dev/null || {
		echo "release: $cc is not installed, which SQLite is compiled with for linux/$arch. On Debian gcc-aarch64-linux-gnu or" \
			"gcc-x86-64-linux-gnu has it; name another one with CC_$arch=..., or leave $arch out: make release ARCHES=..." >&2
		exit 1
	}
	binary=$dir/quern-$version-linux-$arch
	# The C library's look-ups of names and users, and SQLite's of extensions, would need the library's files at run time.
	CGO_ENABLED=1 CGO_CFLAGS="-O2 -g -DHAVE_FDATASYNC" GOOS=linux GOARCH=$arch CC=$cc go build -trimpath -buildvcs=$vcs -tags netgo,osusergo,sqlite_omit_load_extension \
		-ldflags "-s -w -buildid= -X main.release=$version -linkmode external -extldflags -static" -o "$binary" ./cmd/quern
	sbom "$binary"
	objects=$PWD/$dir/quern-objects-$version-linux-$arch
	[ "${dir#/}" = "$dir" ] || objects=$dir/quern-objects-$version-linux-$arch
	(cd sdk/objects && CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -trimpath -buildvcs=$vcs -ldflags "-s -w -buildid=" -o "$objects" \
		./cmd/quern-objects)
	sbom "$objects"
done

# Files that do not depend on the processor are made by a binary that runs here.
native=$dir/quern-$version-linux-$(go env GOHOSTARCH)
if [ -x "$native" ]; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	"$native" man "$work/man1" >/dev/null
	mkdir "$work/completions"
	for shell in bash zsh fish; do "$native" completion $shell >"$work/completions/quern.$shell"; done
	"$native" config example >"$work/quern.yaml"
	for arch in "$@"; do deploy/debian/build.sh "$version" "$arch" "$dir/quern-$version-linux-$arch" "$work" "$dir" >/dev/null; done
	tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$work" -c man1 completions quern.yaml | gzip -n >"$dir/quern-$version-shell.tar.gz"
fi
(cd "$dir" && sha256sum -- * >../.sums.$$ && mv ../.sums.$$ SHA256SUMS)
ls -l "$dir"
