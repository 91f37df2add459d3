#!/bin/sh
# What pepsi-stage.pc and pepsi-proto.pc say, and that it is true.
#   sh pkg_config.sh PREFIX SOURCE_DIR CC
set -eu
. "$(dirname "$0")/lib.sh"
cc=$3
need pkg-config pkgconf
header=$prefix/include/pepsi/stage.h
same() { [ "$2" = "$3" ] || { echo "$1: \"$2\" instead of \"$3\""; exit 1; }; }
major=$(sed -n 's/^#define PEPSI_ABI_MAJOR //p' "$header") minor=$(sed -n 's/^#define PEPSI_ABI_MINOR //p' "$header")
same abi_major "$(pkg-config --variable=abi_major pepsi-stage)" "$major"
same abi_minor "$(pkg-config --variable=abi_minor pepsi-stage)" "$minor"
same version "$(pkg-config --modversion pepsi-stage)" "$major.$minor"
same libs "$(pkg-config --libs pepsi-stage)" ""
modules=$(pkg-config --variable=moduledir pepsi-stage)
[ -e "$modules/pepsi-stage-discard.so" ] || { echo "moduledir $modules holds no modules"; exit 1; }
[ -e "$(pkg-config --variable=version_script pepsi-stage)" ] || { echo "the version script is not there"; exit 1; }

# the protocol library: each header that is installed compiles by itself, and what it declares is there
cd "$work"
for h in $(cd "$prefix/include/pepsi-proto" && find . -name '*.h' | sed 's|^\./||' | sort); do
	printf '#include "%s"\n' "$h" >one.c
	"$cc" -std=gnu11 -D_GNU_SOURCE -Wall -Werror -fsyntax-only $(pkg-config --cflags pepsi-proto) one.c || { echo "$h does not stand alone"; exit 1; }
done
cat >use.c <<'X'
#include "base/buf.h"
#include "proto/mail/header.h"
#include <stdio.h>
int main(void)
{
	struct buf b = BUF_INIT(1000);
	mail_field_write(&b, STR("Subject"), STR("hello"));
	fputs(buf_z(&b), stdout);
	buf_free(&b);
	return 0;
}
X
if [ "${PEPSI_SANITIZED:-}" != 1 ]; then # a sanitized library wants a sanitized program
	"$cc" -std=gnu11 -D_GNU_SOURCE -o use use.c $(pkg-config --cflags --libs pepsi-proto)
	same output "$(LD_LIBRARY_PATH=$(pkg-config --variable=libdir pepsi-proto) ./use | tr -d '\r')" "Subject: hello"
fi
echo "ok"
