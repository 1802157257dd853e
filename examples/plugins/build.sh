#!/usr/bin/env bash
# Builds the example plugins in Rust, C and AssemblyScript into the folder given, after installing missing tools on a Debian machine (as
# root), and runs their native tests. Go's are built by `go test ./examples/plugins`.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:?the folder for the modules}
mkdir -p "$out"
out=$(cd "$out" && pwd)
rm -f "$out"/*.wasm

packages() {
	echo "installing $*" >&2
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >&2
}

# A Rust that has the target's library: the one on the PATH, or Debian's.
has_target() { [ -d "$("$1" --print target-libdir --target wasm32-unknown-unknown 2>/dev/null)" ]; }
command -v clang >/dev/null && command -v wasm-ld >/dev/null || packages clang lld
command -v cc >/dev/null || packages gcc libc6-dev
if ! has_target rustc && ! has_target /usr/bin/rustc; then
	rustup target add wasm32-unknown-unknown 2>/dev/null || packages rustc cargo libstd-rust-dev-wasm32
fi
has_target rustc || export PATH=/usr/bin:$PATH
has_target rustc || { echo "rustc has no library for wasm32-unknown-unknown" >&2; exit 1; }
command -v cargo >/dev/null || packages cargo
command -v npm >/dev/null || packages npm

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

export CARGO_TARGET_DIR="$work/rust"
rust() { # folder, module
	(cd "$1" && cargo build --quiet --offline --release --target wasm32-unknown-unknown)
	cp "$work/rust/wasm32-unknown-unknown/release/${2//-/_}.wasm" "$out/$2.wasm"
}
echo "Rust: $(rustc --version)"
(cd sdk/rust && cargo test --quiet --offline)
(cd examples/plugins/warm-model && cargo test --quiet --offline)
rust examples/plugins/warm-model warm-model
rust examples/plugins/compare/rust compare-rust

c() { # source, module
	clang --target=wasm32 -std=c11 -Wall -Wextra -Werror -O3 -msimd128 -mbulk-memory -ffreestanding -nostdlib -Isdk/c \
		-Wl,--no-entry -Wl,-zstack-size=16384 -o "$out/$2.wasm" "$1"
}
native() { # test
	cc -std=c11 -Wall -Wextra -Werror -Isdk/c -o "$work/native" "$1"
	"$work/native"
}
echo "C: $(clang --version | head -n 1)"
native sdk/c/test/sdk_test.c
native examples/plugins/spread-domains/spread_domains_test.c
c examples/plugins/spread-domains/spread_domains.c spread-domains
c examples/plugins/compare/c/compare.c compare-c

assemblyscript() { # folder, module
	# A copy, because npm copies the SDK beside the plugin and would leave it there.
	mkdir -p "$work/as/$1" "$work/as/sdk"
	cp -r sdk/assemblyscript "$work/as/sdk/"
	(cd "$1" && tar -c --exclude=node_modules --exclude=build .) | tar -x -C "$work/as/$1"
	(cd "$work/as/$1" && npm install --no-package-lock --no-audit --no-fund --loglevel=error && npm run --silent build)
	cp "$work/as/$1/build/$2.wasm" "$out/"
}
echo "AssemblyScript: node $(node --version)"
assemblyscript examples/plugins/tenant-boost tenant-boost
assemblyscript examples/plugins/compare/assemblyscript compare-assemblyscript
# The smallest plugins that the document shows.
shown() { awk -v fence="\`\`\`$1" '$0 == fence {on = 1; next} $0 == "```" {on = 0} on' docs/GUESTS.md; }
mkdir -p "$work/smallest/src" "$work/smallest/.cargo"
sed 's/warm-model/smallest/; s#path = .*#path = "'"$PWD"'/sdk/rust" }#' examples/plugins/warm-model/Cargo.toml >"$work/smallest/Cargo.toml"
cp examples/plugins/warm-model/.cargo/config.toml "$work/smallest/.cargo/"
shown rust >"$work/smallest/src/lib.rs"
rust "$work/smallest" smallest && mv "$out/smallest.wasm" "$out/smallest-rust.wasm"
shown c >"$work/smallest.c"
c "$work/smallest.c" smallest-c
as=$work/as/examples/plugins/compare/assemblyscript
shown typescript >"$as/assembly/index.ts"
(cd "$as" && npm run --silent build)
cp "$as/build/compare-assemblyscript.wasm" "$out/smallest-assemblyscript.wasm"
ls -l "$out"
