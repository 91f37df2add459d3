# For the tests of the SDK: the environment of somebody who has the installed package and no source tree.
prefix=$1 src=$2
unset PEPSI_CONFIG CFLAGS CXXFLAGS LDFLAGS CPPFLAGS MAKEFLAGS MAKELEVEL
work=$(mktemp -d "${TMPDIR:-/tmp}/pepsi-sdk.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
case $prefix in
*[!A-Za-z0-9/._+-]*) # pkg-config escapes blanks, which the shell does not undo: an installed prefix has none
	ln -s "$prefix" "$work/prefix"
	prefix=$work/prefix
	;;
esac
PKG_CONFIG_PATH=$(dirname "$(find "$prefix/" -name pepsi-stage.pc)")
PEPSI=$prefix/bin/pepsi
export PKG_CONFIG_PATH PEPSI

need() { # need PROGRAM PACKAGE
	command -v "$1" >/dev/null || { echo "skipped: no $1 (Debian: $2)"; exit 77; }
}
one_symbol() {
	seen=$(nm -D --defined-only "$1" | sed 's/.* //')
	[ "$seen" = pepsi_stage_descriptor ] || { echo "$1 shows $(echo $seen)"; exit 1; }
}
