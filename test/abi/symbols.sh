#!/bin/sh
# Each of our modules shows exactly one symbol, needs nothing of the host, and no executable stack.
#   sh symbols.sh FOLDER
set -eu
command -v nm >/dev/null && command -v readelf >/dev/null || { echo "skipped: no nm (Debian: binutils)"; exit 77; }
n=0 bad=0
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
done
[ $n -gt 0 ] || { echo "no modules in $1"; exit 1; }
[ $bad = 0 ] && echo "$n modules, one symbol each"
exit $bad
