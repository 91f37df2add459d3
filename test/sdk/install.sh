#!/bin/sh
# Installs the build tree into an empty prefix, as a package would, for the tests that use nothing else.
#   sh install.sh CMAKE BUILD_DIR PREFIX
set -eu
cmake=$1 build=$2 prefix=$3
rm -rf "$prefix"
DESTDIR= "$cmake" --install "$build" --prefix "$prefix" >"$prefix.log" 2>&1 || { tail -20 "$prefix.log"; exit 1; }
pc=$(find "$prefix" -name pepsi-stage.pc)
[ -n "$pc" ] || { echo "pepsi-stage.pc was not installed"; exit 1; }
for f in bin/pepsi include/pepsi/stage.h share/pepsi/pepsi-stage.map; do
	[ -e "$prefix/$f" ] || { echo "$f was not installed"; exit 1; }
done
echo "installed below $prefix"
