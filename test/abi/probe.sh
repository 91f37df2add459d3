#!/bin/sh
# The recorded description of the stage ABI against today's header.
#   sh probe.sh CC SOURCE_DIR            compare; exit 77 when libabigail is not there
#   sh probe.sh CC SOURCE_DIR record     write test/abi/pepsi-stage-1.abi anew: after the minor was raised, the history written
set -eu
cc=$1 src=$2 mode=${3:-compare}
abi=$src/test/abi/pepsi-stage-1.abi
for tool in abidw abidiff readelf; do
	command -v $tool >/dev/null || { echo "skipped: no $tool (Debian: abigail-tools, binutils)"; exit 77; }
done
[ "$(uname -m)" = x86_64 ] || { echo "skipped: what is recorded is that of x86_64, this is $(uname -m)"; exit 77; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/pepsi-abi.XXXXXX")
trap 'rm -rf "$dir"' EXIT

probe() { # probe INCLUDE OUT
	"$cc" -std=c11 -g -O0 -fPIC -shared -fvisibility=hidden -Wl,-soname,probe.so -I"$1" -o "$2" "$src/test/abi/probe.c"
	# without debug information abidiff sees nothing, and says that nothing has changed
	readelf -S "$2" | grep -q '\.debug_info' || { echo "the probe has no debug information"; exit 1; }
}
differ() { # differ PROBE: true when abidiff sees any change at all
	! abidiff --no-added-syms "$abi" "$1" >"$dir/report" 2>&1
}

probe "$src/modules/include" "$dir/probe.so"
if [ "$mode" = record ]; then
	abidw --no-corpus-path --no-comp-dir-path --no-show-locs --type-id-style hash --out-file "$abi" "$dir/probe.so"
	echo "recorded $abi"
	exit 0
fi

# the gate itself must see: a member that was put in, one that was appended, another type
mutate() { # mutate NAME SED-SCRIPT
	mkdir -p "$dir/$1/pepsi"
	sed "$2" "$src/modules/include/pepsi/stage.h" >"$dir/$1/pepsi/stage.h"
	cmp -s "$dir/$1/pepsi/stage.h" "$src/modules/include/pepsi/stage.h" && { echo "mutant $1 is no mutant: mend this test"; exit 1; }
	probe "$dir/$1" "$dir/$1.so"
	differ "$dir/$1.so" || { echo "abidiff does not see the mutant $1"; exit 1; }
}
mutate append 's|^\tint32_t (\*pause_others).*|&\n\tint32_t (*appended)(struct pepsi_msg *);|'
mutate insert 's|^\tint64_t (\*id)(struct pepsi_msg \*);|\tint64_t (*inserted)(struct pepsi_msg *);\n&|'
mutate retype 's|^\tint32_t (\*pause)(struct pepsi_msg \*, const char \*state, uint32_t secs);|\tint32_t (*pause)(struct pepsi_msg *, const char *state, uint64_t secs);|'

if differ "$dir/probe.so"; then
	cat "$dir/report"
	cat <<'X'

<pepsi/stage.h> is not what test/abi/pepsi-stage-1.abi records. If the change was meant, and only appends:
  1. raise PEPSI_ABI_MINOR in modules/include/pepsi/stage.h, with "since 1.n" beside what is new
  2. add the line about 1.n to doc/abi-history.md, and "Stage ABI" to CHANGES.md
  3. add the AT lines and the new sizes to test/abi/offsets.c
  4. sh test/abi/probe.sh cc . record
Anything that is not an append is a new major version.
X
	exit 1
fi
major=$(sed -n 's/^#define PEPSI_ABI_MAJOR //p' "$src/modules/include/pepsi/stage.h")
minor=$(sed -n 's/^#define PEPSI_ABI_MINOR //p' "$src/modules/include/pepsi/stage.h")
grep -q "^| $major\.$minor |" "$src/doc/abi-history.md" || { echo "doc/abi-history.md has no line about $major.$minor"; exit 1; }
echo "stage ABI $major.$minor is what is recorded; three mutants were seen"
