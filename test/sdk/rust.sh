#!/bin/sh
# The Rust example, where cargo is installed. Nothing is downloaded: it has no dependencies.
#   sh rust.sh PREFIX SOURCE_DIR
set -eu
. "$(dirname "$0")/lib.sh"
command -v cargo >/dev/null || { echo "skipped: no cargo (Debian: cargo)"; exit 77; }
cp -R "$src/contrib/example-stage-rust" "$work/x"
rm -rf "$work/x/target" "$work/x"/*.so
CARGO_BUILD_JOBS=1 sh "$work/x/build.sh" "$work"
one_symbol "$work/pepsi-stage-plus-address.so"
sh "$work/x/test.sh" "$work/pepsi-stage-plus-address.so"
