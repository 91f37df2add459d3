#!/bin/sh
# An example out of tree, by find_package(pepsi-stage) and pepsi_add_stage(), installed with cmake --install.
#   sh cmake.sh PREFIX SOURCE_DIR EXAMPLE COMPILER CMAKE
set -eu
. "$(dirname "$0")/lib.sh"
example=$3 cmake=$5
[ -n "${4:-}" ] || { echo "skipped: no compiler for $example"; exit 77; }
cp -R "$src/contrib/$example" "$work/x"
"$cmake" -S "$work/x" -B "$work/b" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$4" -DCMAKE_CXX_COMPILER="$4" >"$work/log" 2>&1 &&
	"$cmake" --build "$work/b" >>"$work/log" 2>&1 || { tail -30 "$work/log"; exit 1; }
so=$(find "$work/b" -name 'pepsi-stage-*.so')
one_symbol "$so"
sh "$work/x/test.sh" "$so"
DESTDIR="$work/dest" "$cmake" --install "$work/b" >>"$work/log" 2>&1 || { tail -30 "$work/log"; exit 1; }
[ -e "$work/dest$prefix/lib/pepsi/modules/${so##*/}" ] || { echo "it was not installed to the module folder"; find "$work/dest"; exit 1; }
# a version that does not exist yet is refused, and so is a name that is none
printf 'cmake_minimum_required(VERSION 3.16)\nproject(x LANGUAGES C)\nfind_package(pepsi-stage 2.0 REQUIRED)\n' >"$work/x/CMakeLists.txt"
if "$cmake" -S "$work/x" -B "$work/b2" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$4" -DCMAKE_CXX_COMPILER="$4" >"$work/log" 2>&1; then
	echo "find_package(pepsi-stage 2.0) found version 1"
	exit 1
fi
