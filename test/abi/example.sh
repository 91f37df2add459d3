#!/bin/sh
# Gate 3: a module that was built for an older header of this major version works in today's host. A binary of that time cannot be
# kept in the tree, so the example is built against each header that was recorded.
#   sh example.sh CC SOURCE_DIR PEPSI
set -eu
cc=$1 src=$2 PEPSI=$3
export PEPSI
dir=$(mktemp -d "${TMPDIR:-/tmp}/pepsi-abi.XXXXXX")
trap 'rm -rf "$dir"' EXIT
n=0
for header in "$src"/test/abi/stage-*.h; do
	version=${header##*/stage-}
	version=${version%.h}
	mkdir -p "$dir/$version/pepsi"
	cp "$header" "$dir/$version/pepsi/stage.h"
	echo "built for $version:"
	so=$dir/$version/pepsi-stage-header-filter.so
	"$cc" -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -I"$dir/$version" -shared -Wl,-z,defs \
		-Wl,--version-script="$src/modules/sdk/pepsi-stage.map" -o "$so" "$src/contrib/example-stage/header-filter.c"
	[ "$("$PEPSI" stage describe "$so" | sed -n 's/^abi *//p')" = "$version" ] || { echo "does not say that it is $version"; exit 1; }
	sh "$src/contrib/example-stage/test.sh" "$so"
	n=$((n + 1))
done
[ $n -gt 0 ] || { echo "no header was recorded"; exit 1; }
