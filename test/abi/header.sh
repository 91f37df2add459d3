#!/bin/sh
# Gate 4: the header alone, in the languages it promises, without a warning.
#   sh header.sh HEADER CC CXX        CXX may be empty: C only
set -eu
header=$1 cc=$2 cxx=${3:-}
flags='-Wall -Wextra -Wshadow -pedantic -Werror -fsyntax-only'
dir=$(mktemp -d "${TMPDIR:-/tmp}/pepsi-abi.XXXXXX")
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/pepsi"
cp "$header" "$dir/pepsi/stage.h"
printf '#include <pepsi/stage.h>\n#include <pepsi/stage.h>\nint use(const struct pepsi_host *h);\nint use(const struct pepsi_host *h) { return PEPSI_HAS(h, log) != 0; }\n' >"$dir/use.c"
cp "$dir/use.c" "$dir/use.cpp"
# the macros of the descriptor are C
cat >"$dir/stage.c" <<'X'
#include <pepsi/stage.h>
static int32_t process(void *w, const struct pepsi_host *h, struct pepsi_msg *m)
{
	(void)w;
	return h->advance(m);
}
static const struct pepsi_option options[] = { { .name = "X", .type = PEPSI_OPT_INT } };
PEPSI_STAGE(.name = "pepsi-stage-x", .version = "1", .license = "none", .summary = "x", .load_class = PEPSI_LOAD_METADATA,
    PEPSI_OPTIONS(options), .process = process);
X
for std in c11 c17 gnu11; do
	"$cc" -std=$std $flags -Wstrict-prototypes -Wmissing-prototypes -I"$dir" "$dir/use.c" "$dir/stage.c"
	echo "ok $std"
done
case $cxx in *-NOTFOUND) cxx= ;; esac
[ -n "$cxx" ] || { echo "no C++ compiler: C++ not looked at"; exit 0; }
for std in c++17 c++20; do
	"$cxx" -std=$std $flags -I"$dir" "$dir/use.cpp"
	echo "ok $std"
done
