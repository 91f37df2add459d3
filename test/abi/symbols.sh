#!/bin/sh
# Each of our modules shows exactly one symbol, needs nothing of the host, and no executable stack; and no library that a module brings along has a
# function of a name that libpepsi-proto has too: one of them would get the calls of both.
#   sh symbols.sh FOLDER
set -eu
command -v nm >/dev/null && command -v readelf >/dev/null || { echo "skipped: no nm (Debian: binutils)"; exit 77; }
n=0 bad=0
proto=$(ls "$1"/../../libpepsi-proto.so.0 "$1"/../../*/libpepsi-proto.so.0 2>/dev/null | head -1)
names=$(mktemp)
trap 'rm -f "$names"' EXIT
[ -z "$proto" ] || nm -D --defined-only "$proto" | sed 's/.* //; /^_/d' | sort -u >"$names"
for so in "$1"/*.so; do
	[ -e "$so" ] || continue
	n=$((n + 1))
	seen=$(nm -D --defined-only "$so" | sed 's/.* //')
	if [ "$seen" != pepsi_stage_descriptor ]; then
		echo "$so shows other symbols than pepsi_stage_descriptor: $(echo $seen)"
		bad=1
	fi
	if readelf -lW "$so" | grep 'GNU_STACK' | grep -q 'RWE'; then
		echo "$so wants an executable stack"
		bad=1
	fi
	[ -e "$proto" ] || continue
	for lib in $(ldd "$so" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p' | grep -v libpepsi-proto); do
		twice=$(nm -D --defined-only "$lib" | sed 's/.* //; s/@.*//; /^_/d' | sort -u | comm -12 - "$names")
		if [ -n "$twice" ]; then
			echo "$so: libpepsi-proto and $lib both have: $(echo $twice)"
			bad=1
		fi
	done
done
[ $n -gt 0 ] || { echo "no modules in $1"; exit 1; }
[ $bad = 0 ] && echo "$n modules, one symbol each"
exit $bad
