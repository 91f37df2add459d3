#!/usr/bin/env python3
"""Which keys of pepsi.workqueue.state the sources write and read, held against pepsi.state(7).

    keys.py SOURCE_DIR

Every key that C or SQL puts into a JSON object is found in the sources themselves: calls of json-c and of the writers of our
own (whatever function hands a parameter on to one is a writer, too), keys inside string literals, the JSON functions of
PostgreSQL. Each must stand in the page, or in NOT_STATE below: JSON for somebody else. A write whose key cannot be told fails
as well, so that nothing passes unseen. And back: what the page says is written must be written, and what it says is only
read must be read and not written. (test/e2e/state_keys.py holds what a running daemon writes against the same page.)"""
import functools
import os
import re
import sys

# JSON that is no state: file or folder → its keys, or None for all there may ever be.
NOT_STATE = {
    "core/admin/": None,                 # answers of the control socket and HTTP; writes no rows
    "core/cli/": None,                   # what the tools print; the failure bouncer's rows are written by db/procedures.sql
    "core/config/": None,                # pepsi config show
    "core/daemon/": None,                # pepsi status
    "core/ingress/stats.c": None,
    "core/ingress/certificates.c": None, # pepsi status, and the next
    "core/dispatch/measure.c": None,     # pepsi status: what modules measure, and the next
    "proto/metrics/": None,
    "core/token/": None,                 # state files of tokens, pepsi status
    "core/ingress/auth_stats.c": None,
    "core/ingress/recipients.c": None,
    "core/ingress/before_stats.c": None,
    "core/ingress/vet_stats.c": None,
    "core/ingress/caps.c": None,
    "core/ingress/failures.c": None,     # pepsi status, and messages for DMARC failure reports (pepsi.dmarc_failure)
    "core/ingress/tally.c": None,        # pepsi status, and rows of DMARC reports (pepsi.dmarc_row)
    "modules/pepsi-stage-dmarc-report/keep.c": None, # reports of others (pepsi.dmarc_received)
    "modules/common/tls_results.c": None,  # rows of TLS reports (pepsi.tlsrpt_result)
    "modules/pepsi-stage-tlsrpt-report/report.c": None, # reports of others (pepsi.tlsrpt_received)
    "proto/sasl/server_bearer.c": "status schemes", # to the client that signs in (RFC 7628)
    "core/dispatch/stats.c": None,
    "core/dispatch/measure.c": None, "proto/metrics/": None, # pepsi status, /metrics
    "proto/report/": None,               # TLS reports, to other servers (RFC 8460)
    "core/net/dns_stats.c": None,
    "proto/relay/traffic_view.c": None,  # destinations, for operators
    "modules/common/relay_measure.c": "destinations known listed", # its status report (host->status_report())
    "modules/pepsi-stage-pipe/input.c": "id stage received_at mail_from rcpt_to state",  # the command's envelope
    "modules/pepsi-stage-pipe/reply.c": "name value",                                    # its reply, in messages
    # status lines from worker to dispatcher (core/worker/README.md)
    "core/worker/commit.c": "error worn",
    "core/worker/outcome.c": "outcome secs to also fused stage us error",
    "core/worker/run.c": "error outcome note",
    "core/dispatch/flight.c": "also fused stage us worn to outcome secs",
    # the clones of workqueue_clone (db/procedures.sql)
    "core/store/clone_json.c": "stage status retry_s token rcpts indices mail_from state",
}
# Writes whose key is data: what is merged or copied was written, and is judged, elsewhere. file:function → why.
COPIES = {
    "core/worker/pass.c:pass_merge": "state of a module, merged key by key",
    "core/worker/state.c:state_merge": "copies an object",
    "core/cli/stage_outcome.c:stage_outcome_clean": "copies an object",
}
# Functions of json-c that put a key into an object, and which argument it is.
JSON_C = {"json_object_object_add": 1, "json_object_object_add_ex": 1, "json_pointer_set": 1, "json_pointer_setf": 2, "json_object_object_del": 1}
# Functions of PostgreSQL whose keys cannot be seen in the text.
OPAQUE_SQL = r"\b(to_%s|row_to_%s|%s_object_agg(_\w+)?|%s_object|hstore_to_%s)\s*\("
READERS = {"state_get": 1, "state_at": 1, "json_object_object_get": 1, "json_object_object_get_ex": 1}

KEY = r"[A-Za-z_][A-Za-z0-9_]*"


# ---------------------------------------------------------------------------------------------------------- the page
class Page:
    """written and only_read: {path: type}; a path is a.b[].c"""

    def __init__(self, text):
        self.written, self.only_read, self.faults = {}, {}, []
        section, group, head, label = None, None, False, set()
        for line in text.splitlines() + [".SH END"]:
            if line.startswith(".SH ") or line.startswith(".SS "):
                if group and label != {"Written by", "Read by", "Cleared by"}:
                    self.faults.append("%s: says not who writes, reads and clears it (%s)" % (group, ", ".join(sorted(label)) or "nothing"))
                group, label = None, set()
                if line.startswith(".SH "):
                    section = line[4:].strip('"')
                elif section == "KEYS":
                    group = line[4:].strip('"')
            if group:
                label |= set(re.findall(r"^(Written by|Read by|Cleared by):", line))
            m = re.match(r'\.BR (\S+) " (.+)"$', line) if head else None
            if head and section in ("KEYS", "KEYS THAT ARE ONLY READ"):
                if not m:
                    self.faults.append("not a key and its type: %s" % line)
                else:
                    path = m.group(1).replace("\\-", "-")
                    into = self.written if section == "KEYS" else self.only_read
                    if path in self.written or path in self.only_read:
                        self.faults.append("%s stands there twice" % path)
                    into[path] = m.group(2)
                    if group and path.split(".")[0].rstrip("[]") not in group.split(", "):
                        self.faults.append("%s stands below %s" % (path, group))
            head = line in (".TP", ".TQ")
        if len(self.written) < 10:
            self.faults.append("only %d keys were found in the page" % len(self.written))

    @staticmethod
    def names(paths):
        return {s.rstrip("[]") for p in paths for s in p.split(".") if s != "*"}


# ----------------------------------------------------------------------------------------------------------- C sources
def c_tokens(text):
    """[(kind, text, line)] with kind s (string literals, joined and unescaped), i (identifier), p (punctuation), n."""
    out, line, i = [], 1, 0
    pattern = re.compile(r'''\s+|//[^\n]*|/\*.*?\*/|(?P<s>"(?:[^"\\\n]|\\.)*")|'(?:[^'\\\n]|\\.)+'|(?P<i>[A-Za-z_]\w*)|(?P<n>\d[\w.]*)|(?P<p>.)''', re.S)
    while i < len(text):
        m = pattern.match(text, i)
        i = m.end()
        if m.group("s"):
            s = re.sub(r"\\(x[0-9a-fA-F]{2}|[0-7]{1,3}|.)", lambda e: {"n": "\n", "t": "\t", "r": "\r"}.get(e.group(1), e.group(1)), m.group("s")[1:-1])
            if out and out[-1][0] == "s":
                out[-1] = ("s", out[-1][1] + s, out[-1][2])
            else:
                out.append(("s", s, line))
        elif m.lastgroup:
            out.append((m.lastgroup, m.group(), line))
        line += m.group().count("\n")
    return out


def arguments(tokens, at):
    """Token lists of the arguments of the call whose "(" is at; and the index behind its ")"."""
    args, depth, one = [], 0, []
    for k in range(at, len(tokens)):
        t = tokens[k][1] if tokens[k][0] == "p" else None
        if t in ("(", "[", "{"):
            depth += 1
            if depth == 1:
                continue
        elif t in (")", "]", "}"):
            depth -= 1
            if depth == 0:
                return args + [one] if one or args else [], k + 1
        if t == "," and depth == 1:
            args.append(one)
            one = []
        else:
            one.append(tokens[k])
    return args, len(tokens)


def functions(tokens):
    """[(name, parameter names, is static, body tokens)]"""
    out, k, start = [], 0, 0
    while k < len(tokens):
        kind, text, _ = tokens[k]
        if kind == "p" and text in (";", "}"):
            start = k + 1
        if kind == "p" and text == "{":
            depth, end = 0, k
            while end < len(tokens):
                if tokens[end][0] == "p":
                    depth += {"{": 1, "}": -1}.get(tokens[end][1], 0)
                if depth == 0:
                    break
                end += 1
            head = tokens[start:k]
            opening = next((j for j in range(len(head) - 1) if head[j][0] == "i" and head[j + 1][1] == "("
                            and head[j][1] not in ("__attribute__", "if", "for", "while", "switch")), None)
            if opening is not None and not any(t[1] == "=" for t in head):
                params, _ = arguments(head, opening + 1)
                names = [next((t[1] for t in reversed(p) if t[0] == "i"), "") for p in params]
                out.append((head[opening][1], names, any(t[1] == "static" for t in head[:opening]), tokens[k:end + 1]))
            k, start = end + 1, end + 1
            continue
        k += 1
    return out


def tables(tokens):
    """Arrays of string literals: name → the literals."""
    out = {}
    for k in range(len(tokens) - 3):
        if tokens[k][0] == "i" and tokens[k + 1][1] == "[":
            _, end = arguments(tokens, k + 1)
            while end < len(tokens) and tokens[end][1] == "[":
                _, end = arguments(tokens, end)
            if end + 1 < len(tokens) and tokens[end][1] == "=" and tokens[end + 1][1] == "{":
                depth, j = 0, end + 1
                while j < len(tokens):
                    if tokens[j][0] == "p":
                        depth += {"{": 1, "}": -1}.get(tokens[j][1], 0)
                    if depth == 0:
                        break
                    j += 1
                out.setdefault(tokens[k][1], []).extend(t[1] for t in tokens[end + 1:j] if t[0] == "s")
    return out


@functools.lru_cache(maxsize=None)
def parsed(text):
    """(tokens, [(function, parameters, is static, [(callee, arguments, line, through a pointer)])], tables) of a file"""
    tokens, calls = c_tokens(text), []
    for name, params, static, body in functions(tokens):
        calls.append((name, params, static, [(body[k][1], arguments(body, k + 1)[0], body[k][2], k > 0 and body[k - 1][1] in (".", ">"))
                                             for k in range(len(body) - 1) if body[k][0] == "i" and body[k + 1][1] == "("]))
    return tokens, calls, tables(tokens)


class Sources:
    def __init__(self, files):
        """files: {path: text} of C"""
        self.files = {p: parsed(t) for p, t in files.items()}
        self.functions = [(p, f) for p, t in self.files.items() for f in t[1]]
        self.faults = []

    def passed_on(self, seed):
        """(file or None, function) → argument: whatever hands one of its parameters on to a function of seed."""
        found = {(None, n): a for n, a in seed.items()}
        while True:
            before = len(found)
            for path, (name, params, static, calls) in self.functions:
                for callee, args, _, _ in calls:
                    at = found.get((path, callee), found.get((None, callee)))
                    if at is not None and at < len(args) and len(args[at]) == 1 and args[at][0][0] == "i" and args[at][0][1] in params:
                        found.setdefault((path if static else None, name), params.index(args[at][0][1]))
            if len(found) == before:
                return found

    def keys(self, seed, what):
        """{key: [place]} that reach a function of seed; where it cannot be told which, a fault."""
        writers, out = self.passed_on(seed), {}
        for path, (name, params, _, calls) in self.functions:
            for callee, args, line, member in calls:
                at = writers.get((path, callee), writers.get((None, callee)))
                if at is None or (member and what == "written"):
                    continue
                arg = args[at] if at < len(args) else []
                place = "%s:%d" % (path, line)
                strings = [t[1] for t in arg if t[0] == "s"]
                if not strings and len(arg) > 1 and arg[0][0] == "i" and arg[1][1] == "[":
                    strings = self.files[path][2].get(arg[0][1], [])
                for key in re.findall(KEY, " ".join(strings)):
                    out.setdefault(key, []).append(place)
                if not strings and what == "written" and not (len(arg) == 1 and arg[0][0] == "i" and arg[0][1] in params) \
                        and "%s:%s" % (path, name) not in COPIES and not exempt(place, None, set()):
                    self.faults.append("%s: which key does %s() write in %s()?" % (place, callee, name))
        return out

    def literal_keys(self):
        """Keys within JSON text in string literals."""
        out = {}
        for path, (tokens, _, _) in self.files.items():
            for kind, text, line in tokens:
                for key in re.findall(r'"(%s)"\s*:' % KEY, text) if kind == "s" else []:
                    out.setdefault(key, []).append("%s:%d" % (path, line))
        return out


# ------------------------------------------------------------------------------------------------------------------ SQL
def sql_clean(text):
    """Without comments, and without functions whose JSON goes to and from pepsi-dmarc, pepsi-tlsrpt, pepsi-sts and pepsi-queue."""
    text = re.sub(r"(?ms)^CREATE FUNCTION pepsi\.(?:dmarc_|tlsrpt_|suppression_|queue_rule_of|queue_rule_list|(?:sts_policy|dns_address|destination_security)_list\().*?^(END )?\$\$;$", "", text)
    return re.sub(r"--[^\n]*", "", text)


def sql_arguments(text, at):
    """The texts of the arguments of the call whose "(" is at."""
    args, depth, one, quote = [], 0, "", False
    for c in text[at:]:
        quote ^= c == "'"
        if not quote and c in "([":
            depth += 1
            if depth == 1:
                continue
        if not quote and c in ")]":
            depth -= 1
            if depth == 0:
                return args + [one] if one.strip() or args else []
        if c == "," and depth == 1 and not quote:
            args.append(one)
            one = ""
        else:
            one += c
    return args


def sql_written(path, text, faults, kind="jsonb?"):
    out, text = {}, sql_clean(text)

    def put(key, at):
        out.setdefault(key, []).append("%s:%d" % (path, text.count("\n", 0, at) + 1))
    for m in re.finditer(r"\b%s_build_object\s*\(" % kind, text):
        for a in sql_arguments(text, m.end() - 1)[::2]:
            key = re.fullmatch(r"\s*'(%s)'\s*" % KEY, a)
            if key:
                put(key.group(1), m.start())
            else:
                faults.append("%s: which key is %s in %s?" % (path, a.strip(), text[m.start():m.start() + 60].replace("\n", " ")))
    for m in re.finditer(r"\b(jsonb_set|jsonb_set_lax|jsonb_insert)\s*\(", text):
        args = sql_arguments(text, m.end() - 1)
        key = re.fullmatch(r"\s*'\{([^}]*)\}'\s*", args[1]) if len(args) > 1 else None
        if not key:
            faults.append("%s: which key does %s write?" % (path, text[m.start():m.start() + 60].replace("\n", " ")))
        for k in key.group(1).split(",") if key else []:
            put(k.strip(), m.start())
    for m in re.finditer(r'"(%s)"\s*:' % KEY, text):
        put(m.group(1), m.start())
    for m in re.finditer(OPAQUE_SQL.replace("%s", kind), text):
        faults.append("%s: which keys does %s make?" % (path, text[m.start():m.start() + 60].replace("\n", " ")))
    return out


def sql_read(text):
    out, text = set(), sql_clean(text)
    for m in re.findall(r"(?:->>?|\?)\s*'(%s)'" % KEY, text):
        out.add(m)
    for m in re.findall(r"#>>?\s*'\{([^}]*)\}'", text):
        out |= set(re.findall(KEY, m))
    return out


# ------------------------------------------------------------------------------------------------------------- the test
def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def sources(root):
    c, sql = {}, {}
    for top in ("core", "modules", "proto", "db"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for n in sorted(names):
                path = os.path.join(folder, n)
                short = os.path.relpath(path, root)
                if n.endswith((".c", ".h")):
                    c[short] = read(path)
                elif n.endswith(".sql"):
                    sql[short] = read(path)
    return c, sql


def exempt(place, key, used):
    path = place.split(":")[0]
    for where, keys in NOT_STATE.items():
        if path == where or (where.endswith("/") and path.startswith(where)):
            if keys is None or (key and key in keys.split()):
                used.add((where, None if keys is None else key))
                return True
    return False


def examine(page_text, c, sql):
    """The faults, as lines for people."""
    page = Page(page_text)
    src = Sources(c)
    faults = list(page.faults)
    written = {}
    for found in (src.keys(JSON_C, "written"), src.literal_keys()):
        for key, places in found.items():
            written.setdefault(key, []).extend(places)
    # what has no tree is written octet by octet: json_put_key(out, "key") and who calls it
    for key, places in src.keys({"json_put_key": 1}, "written").items():
        written.setdefault(key, []).extend(places)
    for path, text in sql.items():
        for key, places in sql_written(path, text, src.faults).items():
            written.setdefault(key, []).extend(places)
    # SQL in C: its own functions, in the literals
    for path, (tokens, _, _) in src.files.items():
        text = "\n".join(t[1] for t in tokens if t[0] == "s" and "jsonb" in t[1])
        for key, places in sql_written(path, text, src.faults, "jsonb").items() if text else []:
            written.setdefault(key, []).extend(p.split(":")[0] for p in places)
    faults += src.faults

    used, state_written = set(), set()
    documented = Page.names(page.written)
    for key in sorted(written):
        places = [p for p in written[key] if not exempt(p, key, used)]
        if not places:
            continue
        state_written.add(key)
        if key not in documented:
            faults.append("%s is written at %s: document it in doc/pepsi.state.7, or say in test/state/keys.py whose JSON that is"
                          % (key, ", ".join(sorted(set(places)))))
    for key in sorted(documented - state_written):
        faults.append("%s is documented, but written nowhere" % key)

    reads = set()
    for key in src.keys(READERS, "read"):
        reads.add(key)
    for tokens, _, _ in src.files.values():  # paths by snprintf, dotted paths in tables
        for kind, text, _ in tokens:
            if kind == "s" and re.fullmatch(r"[a-z_]+(\.(%zu|%s|[a-z_]+))+", text):
                reads |= set(text.split("."))
    for text in sql.values():
        reads |= sql_read(text)
    for path in sorted(page.only_read):
        for key in [s for s in path.split(".") if s != "*"][-1:]:
            if key not in reads:
                faults.append("%s is documented as read, but nothing reads it" % path)
            if key in state_written and key not in documented:
                faults.append("%s is documented as never written, but it is: %s" % (path, ", ".join(written[key])))
    for where, keys in NOT_STATE.items():
        for key in keys.split() if keys else [None]:
            if (where, key) not in used:
                faults.append("test/state/keys.py excepts %s of %s, which is not there any more" % (key or "all", where))
    return faults


def main():
    root = sys.argv[1]
    c, sql = sources(root)
    page = read(os.path.join(root, "doc", "pepsi.state.7"))
    faults = examine(page, c, sql)
    for f in faults:
        print("FAIL " + f)
    # and it would notice: one key more in each kind of source, one fewer in the page
    more = [
        ("modules/x.c", "static void f(struct json_object *o)\n{\n\tjson_object_object_add(o, \"sneaked\", NULL);\n}\n"),
        ("modules/x.c", "static void g(struct json_object *o, const char *k)\n{\n\tjson_object_object_add(o, k, NULL);\n}\n"
                        "static void f(void)\n{\n\tg(o, \"sneaked\");\n}\n"),
        ("core/ingress/x.c", "static void f(struct buf *b)\n{\n\tjson_put_bool(b, \"sneaked\", true);\n}\n"),
        ("core/worker/x.c", "static const char *const pad[] = { \"sneaked\" };\nvoid f(struct pepsi_msg *m)\n{\n\tpass_merge_key(m, pad[0], 0);\n}\n"),
        ("modules/x.c", "int f(void)\n{\n\treturn h->reroute(m, s, \"{\\\"bounce\\\":{\\\"kind\\\":1, \"\n\t\t\"\\\"sneaked\\\" :2}}\");\n}\n"),
        ("modules/x.c", "int f(void)\n{\n\tjson_object_object_add(o, name_of(sneaked), NULL);\n}\n"),
        ("core/store/x.c", "const char *s = \"UPDATE w SET state = state || jsonb_build_object('sneaked', 1)\";\n"),
        ("db/x.sql", "UPDATE w SET state = state || jsonb_build_object('at', 1, 'sneaked', jsonb_build_object('at', 2));\n"),
        ("db/x.sql", "UPDATE w SET state = jsonb_set(state, '{dsn,sneaked}', 'true');\n"),
        ("db/x.sql", "UPDATE w SET state = '{\"sneaked\": 1}';\n"),
        ("db/x.sql", "UPDATE w SET state = state || to_jsonb(sneaked);\n"),
    ]
    # (with a part of the sources, which is what it takes to know our own writers)
    c = {p: t for p, t in c.items() if p in ("core/base/json.c", "core/worker/pass.c", "core/worker/state.c", "core/dispatch/page.c")}
    known = set(examine(page, c, sql))
    for path, text in more:
        c2, sql2 = dict(c), dict(sql)
        (sql2 if path.endswith(".sql") else c2)[path] = text
        if not any("sneaked" in f or path in f for f in set(examine(page, c2, sql2)) - known):
            print("FAIL this test does not see the key in:\n%s" % text)
            faults.append(path)
    for cut in ('.BR dispatch_error.crashes " number"', '.BR failed_at " text"', '.BR dispatch_error.report.worker_stage " text"'):
        fewer = page.replace(cut, "")
        if fewer == page or not any("document it" in f for f in set(examine(fewer, c, sql)) - known):
            print("FAIL this test does not miss in the page: %s" % cut)
            faults.append(cut)
    if not any("of_old is documented, but written nowhere" in f for f in examine(page.replace(cut, '.BR dispatch_error.report.of_old " text"'), c, sql)):
        print("FAIL this test does not see that a documented key is written nowhere")
        faults.append("reverse")
    if not faults:
        print("%d keys in the page, %d more that are only read" % (len(Page(page).written), len(Page(page).only_read)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
