#!/bin/sh
# Builds pepsi-stage-plus-address.so into the folder given (default: here). Cargo names libraries its own way, the host wants
# the module's name.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here}
command -v cargo >/dev/null || { echo "cargo is not installed: the Rust example is not built" >&2; exit 77; }
cargo build --quiet --release --offline --manifest-path "$here/Cargo.toml" --target-dir "$out/target"
cp "$out/target/release/libpepsi_stage_plus_address.so" "$out/pepsi-stage-plus-address.so"
