#!/bin/sh
# An example out of tree, by pkg-config and make alone, with its own tests.
#   sh make.sh PREFIX SOURCE_DIR EXAMPLE COMPILER
set -eu
. "$(dirname "$0")/lib.sh"
example=$3
[ -n "${4:-}" ] || { echo "skipped: no compiler for $example"; exit 77; }
need make make
need pkg-config pkgconf
cp -R "$src/contrib/$example" "$work/x"
cd "$work/x"
rm -f *.so
make CC="$4" CXX="$4" EXTRA_CFLAGS="-Werror -pedantic" EXTRA_CXXFLAGS=-Werror check
for so in *.so; do one_symbol "$so"; done
# and from where modules are installed, by name
modules=$work/modules
mkdir "$modules"
cp *.so "$modules/"
printf '[pepsi]\nMODULE_PATH = %s\n' "$modules" >c.conf
"$PEPSI" -c c.conf stage list | grep "${so%.so} *1.0 *1.[0-9]" || { echo "stage list does not show ${so%.so}"; exit 1; }
"$PEPSI" -c c.conf --json stage describe "${so%.so}" | grep -q "\"name\":\"${so%.so}\"" || { echo "stage describe by name"; exit 1; }
