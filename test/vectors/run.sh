#!/bin/sh
# run.sh PEPSI-VECTORS SOURCE TOPIC FILE...: runs one topic on the suite's files (patterns are allowed), or skips (77) with a line when the suite
# is not there. TOPIC may be TOPIC:FOLDER, where the files are not in the folder of that name.
# The suite is $PEPSI_VECTORS, else ../shared/vectors beside the source.
set -u
prog=$1 source=$2 topic=$3
shift 3
folder=${topic#*:} topic=${topic%%:*}
suite=${PEPSI_VECTORS:-$source/../shared/vectors}
for file; do
	shift
	for found in "$suite/$folder"/$file; do
		if [ ! -r "$found" ]; then
			echo "skipped: no $found (set PEPSI_VECTORS to the folder of the public vectors)"
			exit 77
		fi
		set -- "$@" "$found"
	done
done
exec "$prog" "$topic" "$@"
