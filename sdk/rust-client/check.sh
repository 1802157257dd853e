#!/usr/bin/env bash
# Everything that must hold of the Rust client: it builds without a warning, its tests, and the conformance suite. Run by `make clients`; $1 is
# the quern binary.
set -euo pipefail
QUERN_BINARY=$(realpath "$1"); export QUERN_BINARY
cd "$(dirname "$0")"
export RUSTFLAGS="-D warnings" CARGO_NET_OFFLINE=true
CARGO_TARGET_DIR=$(realpath -m ../../bin/rust-client); export CARGO_TARGET_DIR

echo "== $(rustc --version)"
if cargo fmt --version >/dev/null 2>&1; then cargo fmt --check; fi # Debian has it in a package of its own
timeout 5m cargo test --quiet # a thread that waits for ever would keep it from ending
go build -o "$CARGO_TARGET_DIR/conformance" ../conformance
"$CARGO_TARGET_DIR/conformance" -at-once 5 -timeout 1m "$CARGO_TARGET_DIR/debug/examples/conform"
