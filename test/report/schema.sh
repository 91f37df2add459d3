#!/bin/sh
# schema.sh REPORT-RANDOM SOURCE: reports as report_write() makes them, held against the schema that was published with RFC 9990 (in the public
# vectors) and, where their values are those of our sender, against aggregate.xsd. Without xmllint or the vectors: skipped (77) with a line.
set -u
prog=$1 source=$2 seed=${PEPSI_SEED:-1} count=${PEPSI_REPORTS:-300}
own=$source/test/report/aggregate.xsd
published=${PEPSI_VECTORS:-$source/../shared/vectors}/dmarc-reports/xsd/dmarc-xml-0.2.xsd
command -v xmllint >/dev/null || { echo "skipped: no xmllint (libxml2-utils)"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
bad=0
# judge SCHEMA FILE...: prints what is not valid
judge() {
	schema=$1
	shift
	if ! xmllint --nonet --noout --huge --schema "$schema" "$@" >"$dir/out" 2>&1; then
		grep -v ' validates$' "$dir/out" | head -20
		bad=1
	fi
	echo "$(grep -c ' validates$' "$dir/out") of $# valid by ${schema##*/}"
}
"$prog" "$seed" "$count" "$dir" || exit 1
judge "$own" "$dir"/plain-*.xml
# the schema must be able to refuse
first=$(ls "$dir"/plain-*.xml | head -1)
sed 's,<disposition>[a-z]*<,<disposition>delete<,' "$first" >"$dir/wrong.xml"
for schema in "$own" "$published"; do
	if [ -r "$schema" ] && xmllint --nonet --noout --schema "$schema" "$dir/wrong.xml" >/dev/null 2>&1; then
		echo "${schema##*/} takes a disposition that is none"
		bad=1
	fi
done
if [ ! -r "$published" ]; then
	echo "skipped: no $published (set PEPSI_VECTORS to the folder of the public vectors)"
	[ "$bad" = 0 ] || exit 1
	exit 77
fi
judge "$published" "$dir"/plain-*.xml "$dir"/odd-*.xml
exit $bad
