#!/bin/sh
# sh test.sh MODULE.so        PEPSI: the program (default: pepsi along PATH)
set -u
module=$1
pepsi=${PEPSI:-pepsi}
failed=0
expect() { # NAME LINE OPTION…
	name=$1 line=$2
	shift 2
	out=$(printf 'Subject: x\n\nhello\n' | "$pepsi" stage run "$module" --message - "$@" 2>&1)
	if printf '%s\n' "$out" | grep -qxF -e "$line"; then
		printf 'ok   %s\n' "$name"
	else
		printf 'FAIL %s: no line "%s" in\n%s\n' "$name" "$line" "$out"
		failed=1
	fi
}
expect plain 'recipients joe@A.test, x+y@b.test, joe@a.test' --set DOMAINS=a.test --to joe+shop@A.test --to x+y@b.test --to joe@a.test --to joe+2@a.test
expect case 'recipients joe@A.test' --set 'DOMAINS=b.test a.test' --to joe+shop@A.test
expect local-domains 'recipients joe@c.test' --set pepsi.LOCAL_DOMAINS=c.test --to joe+a+b@c.test
expect quoted 'recipients "a+b"@a.test, +x@a.test' --set DOMAINS=a.test --to '"a+b"@a.test' --to +x@a.test
expect separator 'recipients joe@a.test' --set DOMAINS=a.test --set SEPARATOR=-- --to joe--x@a.test
expect outcome 'outcome    advance: move to stage next (pending)' --set DOMAINS=a.test --to joe+shop@a.test
expect wrong 'log        fault: SEPARATOR: must not be empty nor hold an @' --set SEPARATOR=a@b
exit $failed
