#!/bin/sh
# Tests of the header filter: `pepsi stage run` needs neither daemon nor database.
#   sh test.sh MODULE.so        PEPSI: the program (default: pepsi along PATH)
set -u
module=$1
here=$(cd "$(dirname "$0")" && pwd)
pepsi=${PEPSI:-pepsi}
failed=0

# run MESSAGE OPTION… ; the output is in $out, the exit status in $rc
run() {
	message=$1
	shift
	out=$("$pepsi" stage run "$module" --message "$here/test/$message" "$@" 2>&1)
	rc=$?
}
# check NAME STATUS LINE… : each LINE is a whole line of the output, or with ! in front must not be one
check() {
	name=$1 want=$2
	shift 2
	if [ "$rc" != "$want" ]; then
		printf 'FAIL %s: exit status %s\n%s\n' "$name" "$rc" "$out"
		failed=1
		return
	fi
	for line in "$@"; do
		case $line in
		!*) if ! printf '%s\n' "$out" | grep -qxF -e "${line#!}"; then continue; fi ;;
		*) if printf '%s\n' "$out" | grep -qxF -e "$line"; then continue; fi ;;
		esac
		printf 'FAIL %s: %s\n%s\n' "$name" "$line" "$out"
		failed=1
		return
	done
	printf 'ok   %s\n' "$name"
}

run plain.eml --set 'RULE_1=Subject: *invoice* => tag [invoice?]'
check tag 0 'outcome    advance: move to stage next (pending)' '-Subject: your' '+Subject: [invoice?] your' 'body       unchanged, 17 octets'

run plain.eml --set 'RULE_1=Subject: *receipt* => tag [receipt?]'
check no-match 0 'outcome    advance: move to stage next (pending)' 'headers    unchanged'

run plain.eml --set 'RULE_1=Subject: *invoice* => tag your'
check tagged-before 0 'headers    unchanged'

run plain.eml --set 'RULE_1=precedence: BULK => add X-Bulk: yes' --set 'RULE_2=From: *alice@* => tag [alice]'
check two-rules 0 '+X-Bulk: yes' '+Subject: [alice] your'

run program.eml --set 'RULE_1=Content-Type: *name=*.exe* => reject no "programs" here'
check reject 0 'outcome    reroute: move to stage bounce (pending)' 'reason     no "programs" here' \
	'state      {"bounce":{"kind":"permanent","phase":"data","enhanced_status":"5.7.1","diagnostic":"no \"programs\" here"}}'

run program.eml --set 'RULE_1=Content-Type: *name=*.exe* => reject no' --set BOUNCE_STAGE=
check reject-without-bounce 0 'outcome    fail, at stage run (failed)' 'reason     no'

run plain.eml --set 'RULE_1=Precedence: b??k => stage slow' --set 'RULE_2=From: * => reject never'
check stage 0 'outcome    advance_to: move to stage slow (pending)'

run plain.eml --set 'RULE_1=Precedence: bulk' --set 'RULE_2=X Y: * => tag t' --set 'RULE_3=From: * => jump far' --set 'RULE_4=From: * => add nonsense'
check wrong-rules 1 'log        fault: RULE_1: is not FIELD: PATTERN => ACTION ARGUMENT' 'log        fault: RULE_2: names no header field' \
	'log        fault: RULE_3: has an action that is none of tag, add, stage, reject' \
	'log        fault: RULE_4: adds something that is not FIELD: VALUE'

run plain.eml
check no-rules 1 'log        fault: RULE_*: is required and not set'

# a pattern made to be slow is not
run plain.eml --set "RULE_1=Subject: $(printf '*a%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20)*z => tag t" --set MAX_RUNTIME=2
check slow-pattern 0 'headers    unchanged'

exit $failed
