#!/bin/sh
# sh test.sh MODULE.so        PEPSI: the program (default: pepsi along PATH)
set -u
module=$1
pepsi=${PEPSI:-pepsi}
failed=0
expect() { # NAME LINE OPTION…
	name=$1 line=$2
	shift 2
	out=$(printf 'Subject: x\n\nhello\n' | "$pepsi" stage run "$module" --message - --to a@x.test --to b@x.test --to c@x.test \
		--set HOLD=hold "$@" 2>&1)
	if printf '%s\n' "$out" | grep -qxF -e "$line"; then
		printf 'ok   %s\n' "$name"
	else
		printf 'FAIL %s: no line "%s" in\n%s\n' "$name" "$line" "$out"
		failed=1
	fi
}
expect few 'outcome    advance: move to stage next (pending)' --set MAX=3
expect many 'outcome    reroute: move to stage hold (pending)' --set MAX=2
expect log 'log        info: has 3 recipients, more than 2' --set MAX=2
expect exempt 'outcome    advance: move to stage next (pending)' --set MAX=2 --set 'EXEMPT=x@y.test news@list.test' --from news@list.test
expect null-sender 'outcome    reroute: move to stage hold (pending)' --set MAX=2 --set 'EXEMPT=x@y.test' --from '<>'
expect range 'log        fault: MAX: 0 is out of range: 1 to 100000' --set MAX=0
exit $failed
