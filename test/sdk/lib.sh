# For the tests of the SDK: the environment of somebody who has the installed package and no source tree.
prefix=$1 src=$2
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name pepsi-stage.pc)")
PEPSI=$prefix/bin/pepsi
export PKG_CONFIG_PATH PEPSI
unset PEPSI_CONFIG CFLAGS CXXFLAGS LDFLAGS CPPFLAGS MAKEFLAGS MAKELEVEL
work=$(mktemp -d "${TMPDIR:-/tmp}/pepsi-sdk.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

need() { # need PROGRAM PACKAGE
	command -v "$1" >/dev/null || { echo "skipped: no $1 (Debian: $2)"; exit 77; }
}
one_symbol() {
	seen=$(nm -D --defined-only "$1" | sed 's/.* //')
	[ "$seen" = pepsi_stage_descriptor ] || { echo "$1 shows $(echo $seen)"; exit 1; }
}
