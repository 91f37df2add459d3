#!/bin/sh
# pepsi stage run as its users see it: text and JSON, what it refuses, and that nothing of a message reaches the terminal raw.
#   sh run.sh PEPSI BAD_STAGES_DIR
set -u
pepsi=$1 bad=$2
unset PEPSI_CONFIG
work=$(mktemp -d "${TMPDIR:-/tmp}/pepsi-sdk.XXXXXX")
trap 'rm -rf "$work"' EXIT
failed=0
cd "$work" || exit 1
printf 'Subject: hi\nFrom: a@b.test\n\nbody\n' >m.eml

# t NAME STATUS WANT COMMAND… : WANT is a piece of the output
t() {
	name=$1 status=$2 want=$3
	shift 3
	out=$("$@" 2>&1)
	rc=$?
	case $out in *"$want"*) found=1 ;; *) found=0 ;; esac
	if [ $rc != "$status" ] || [ $found = 0 ]; then
		printf 'FAIL %s: exit %s, wanted %s and "%s" in\n%s\n' "$name" $rc "$status" "$want" "$out"
		failed=1
	else
		printf 'ok   %s\n' "$name"
	fi
}
run() { "$pepsi" stage run "$@"; }
good=$bad/pepsi-stage-bad-good.so

t good 0 'outcome    advance_or_finish: move to stage next (pending)' run "$good" --message m.eml --set DEPTH=1
t finish 0 'outcome    advance_or_finish: finish, counted as delivered' run "$good" --message m.eml --set DEPTH=1 --set NEXT_STAGE=
t stdin 0 'recipients x@y.test, z@y.test' sh -c '"$0" stage run "$1" --message - --set DEPTH=1 --to "<x@y.test>" --to z@y.test <m.eml' "$pepsi" "$good"
t json 0 '"outcome":"move","terminal":"advance_or_finish","returned":0,"stage":"next","status":"pending"' "$pepsi" --json stage run "$good" --message m.eml --set DEPTH=1
t no-message 2 'which message?' run "$good"
t no-file 1 'nothing.eml: No such file' run "$good" --message nothing.eml --set DEPTH=1
t no-module 1 'No such file' run ./nothing.so --message m.eml
t no-name 1 'no pepsi-stage-nowhere.so along MODULE_PATH' run pepsi-stage-nowhere --message m.eml
t by-name 0 'outcome    finish, counted as discarded' run pepsi-stage-discard --message m.eml
t required 1 'fault: DEPTH: is required and not set' run "$good" --message m.eml
t value 1 'fault: DEPTH: expected a number' run "$good" --message m.eml --set DEPTH=x
t typo 1 'has no option DEPHT (did you mean DEPTH?)' run "$good" --message m.eml --set DEPHT=1
t set 2 '"DEPTH" is not NAME=VALUE' run "$good" --message m.eml --set DEPTH
t state 2 '--state: here it is the state of the message' run "$good" --message m.eml --set DEPTH=1 --state /var/lib/pepsi
t state-json 0 'outcome' run "$good" --message m.eml --set DEPTH=1 --state '{"a":1}'
t address 2 '--to: the address is empty' run "$good" --message m.eml --set DEPTH=1 --to ''
t address-control 2 '--from: the address holds a control character' run "$good" --message m.eml --set DEPTH=1 --from "$(printf 'a\001@b')"
printf 'Subject: a\rb\n\nx\n' >cr.eml
t bare-cr 1 'a bare CR, which no listener lets in' run "$good" --message cr.eml --set DEPTH=1
t validate 1 'log        fault: COLOUR: no such colour' run "$bad/pepsi-stage-bad-validate.so" --message m.eml --set DEPTH=1
t two-terminals 1 'reason     finish() was called after a terminal' run "$bad/pepsi-stage-bad-two-terminals.so" --message m.eml --set DEPTH=1
t none 1 'outcome    misuse' run "$bad/pepsi-stage-bad-none.so" --message m.eml --set DEPTH=1
t exit 1 'trouble    the module ended its process in process(), exit status 0' run "$bad/pepsi-stage-bad-exit.so" --message m.eml --set DEPTH=1
t hang 1 'trouble    the module was still in process() after 1.0 s and was killed (MAX_RUNTIME)' run "$bad/pepsi-stage-bad-hang.so" --message m.eml --set DEPTH=1 --set MAX_RUNTIME=1
t crash 1 'trouble    the module ' run "$bad/pepsi-stage-bad-crash.so" --message m.eml --set DEPTH=1
t crash-json 1 '"during":"process"' "$pepsi" --json stage run "$bad/pepsi-stage-bad-crash.so" --message m.eml --set DEPTH=1
t major 1 'the module needs a newer pepsi' run "$bad/pepsi-stage-bad-major.so" --message m.eml --set DEPTH=1
cp m.eml m.so
t not-an-object 1 'cannot be loaded' run ./m.so --message m.eml

# with a configuration: the options of a stage, and stage names that are held against it
printf '[stage-here]\nPROGRAM = pepsi-stage-bad-good\nDEPTH = 3\nNEXT_STAGE = there\n[stage-there]\nPROGRAM = pepsi-stage-discard\n' >c.conf
t config 0 'move to stage there (pending)' "$pepsi" -c c.conf stage run "$good" --message m.eml --stage here
t config-set 1 'fault: DEPTH: expected a number' "$pepsi" -c c.conf stage run "$good" --message m.eml --stage here --set DEPTH=deep
t config-broken 1 'nothing.conf' "$pepsi" -c nothing.conf stage run "$good" --message m.eml --stage here

# what a filter writes into headers is shown, not obeyed
printf '#!/bin/sh\ncat >/dev/null\nprintf "{\\"action\\":\\"defer\\",\\"text\\":\\"a\\\\u202eb\\"}"\n' >defer.sh
chmod +x defer.sh
t harmless 0 'a\u{202e}b' run pepsi-stage-pipe --message m.eml --set "COMMAND=$work/defer.sh"
printf 'Subject: \033[31mred\nX-Raw: \377\n\nx\n' >esc.eml
printf '#!/bin/sh\ncat >/dev/null\necho "{\\"action\\":\\"accept\\",\\"remove_headers\\":[\\"subject\\",\\"x-raw\\"]}"\n' >drop.sh
chmod +x drop.sh
t escape 0 '-Subject: \x1b[31mred' run pepsi-stage-pipe --message esc.eml --set "COMMAND=$work/drop.sh"
t escape-json 0 '-X-Raw: \\xff' "$pepsi" --json stage run pepsi-stage-pipe --message esc.eml --set "COMMAND=$work/drop.sh"
t pipe-bounce 0 '"enhanced_status":"5.7.1"' sh -c 'printf "#!/bin/sh\necho {\\\"action\\\":\\\"reject\\\"}\n" >r.sh; chmod +x r.sh
	"$0" stage run pepsi-stage-pipe --message m.eml --set "COMMAND=$PWD/r.sh"' "$pepsi"

# several messages: one after the other, or in batches as a worker would bring them
printf 'Subject: two\n\n2\n' >two.eml
t several 0 'message    2, 4 of two.eml' run "$good" --message m.eml --message two.eml --repeat 2 --set DEPTH=1
t several-alike 0 'message    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ... (120 alike) of m.eml' run "$good" --message m.eml --repeat 120 --set DEPTH=1
t several-time 0 ' ms for 4 messages' run "$good" --message m.eml --message two.eml --repeat 2 --set DEPTH=1
t several-json 0 '"message":4,"file":"two.eml"}],"module":"pepsi-stage-bad-good","end":"done"' "$pepsi" --json stage run "$good" --message m.eml \
	--message two.eml --repeat 2 --set DEPTH=1
t several-hang 1 'in process() after 1.0 s and was killed (MAX_RUNTIME), message 1 of 3' run "$bad/pepsi-stage-bad-hang.so" --message m.eml --repeat 3 \
	--set DEPTH=1 --set MAX_RUNTIME=1
t repeat 2 '--repeat: "0" is not a whole number from 1 to 10000' run "$good" --message m.eml --repeat 0 --set DEPTH=1
t too-many 2 'more than 10000 messages' run "$good" --message m.eml --message two.eml --repeat 5001 --set DEPTH=1
t stdin-twice 2 'standard input can be read once' run "$good" --message - --message - --set DEPTH=1
t stdin-repeat 0 'message    1, 2 of -' sh -c '"$0" stage run "$1" --message - --repeat 2 --set DEPTH=1 <m.eml' "$pepsi" "$good"
t second-missing 1 'nothing.eml: No such file' run "$good" --message m.eml --message nothing.eml --set DEPTH=1
t second-bad 1 'cr.eml: the message holds a bare CR' run "$good" --message m.eml --message cr.eml --set DEPTH=1
batch=$bad/pepsi-stage-step-batch.so
t batch 0 'outcome    pause, at stage run (paused 60 s)' run "$batch" --message m.eml --repeat 5
t batch-place 0 'message    5, 10 of m.eml
outcome    finish, counted as discarded' run "$batch" --message m.eml --repeat 10
t batch-of-one 0 'outcome    advance: move to stage next (pending)' run "$batch" --message m.eml
t batch-silent 1 'reason     process_batch() gave no status for a message' run "$bad/pepsi-stage-hook-silent.so" --message m.eml --repeat 2
t batch-crash 1 'crashed in process_batch() with signal 9 (Killed), message 51 of 60' run "$bad/pepsi-stage-hook-crash.so" --message m.eml --repeat 60
t batch-retry 0 'outcome    retry, at stage run (paused' run "$bad/pepsi-stage-hook-refuses.so" --message m.eml --repeat 3
t batch-log 0 'log        warn: message 2: one by one' run "$bad/pepsi-stage-hook-refuses.so" --message m.eml --repeat 3

# as the stage before would bring it: can_fuse(), then process()
t fused 0 'can_fuse   yes
outcome    advance_or_finish: move to stage next (pending)' run "$batch" --message m.eml --fused
t fused-no 0 'outcome    declined
reason     can_fuse() does not take it: it comes through the queue' run "$batch" --message m.eml --fused --set FUSE=NO
t fused-json 0 '{"outcome":"declined","can_fuse":false,' "$pepsi" --json stage run "$batch" --message m.eml --fused --set FUSE=NO
t fused-some 0 'message    1 of m.eml' run "$bad/pepsi-stage-hook-silent.so" --message m.eml --message two.eml --fused
t fused-writes 1 'reason     can_fuse() may only read: merge_state() was called' run "$bad/pepsi-stage-hook-fuse-writes.so" --message m.eml --fused
t fused-crash 1 'crashed in can_fuse() with signal 9' run "$bad/pepsi-stage-hook-crash.so" --message m.eml --fused
t fused-no-hook 0 'can_fuse   yes' run "$good" --message m.eml --fused --set DEPTH=1

# fan-out: clones with their recipients
t clones 0 'clone      b (pending): y@b.test' run pepsi-stage-route --message m.eml --set 'ROUTE_1=a.test a' --set 'ROUTE_2=b.test b' --set DEFAULT=d --to x@a.test --to y@b.test
exit $failed
