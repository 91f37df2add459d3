"""pepsi dmarc over a database that holds what nobody should have put there: rows of any shape, texts with controls, quotes, markup, deep and long JSON.
No command ends by a signal or hangs, what is printed holds no control characters, XML that is shown is XML, one bad row keeps no good one
from being sent, and nobody gets mail because of what stands in a row."""
import json
import os
import shutil
import subprocess
import xml.etree.ElementTree as tree

import dnslab
import pepsi

ZONE = {
    "_dmarc.good.test": {"TXT": ["v=DMARC1; p=reject; rua=mailto:rua@good.test; ruf=mailto:ruf@good.test"]},
    "_dmarc.evil.test": {"TXT": ["v=DMARC1; p=reject; rua=mailto:rua@evil.test"]},
}
# what may stand in a text column or in JSON, as SQL
EVIL = ["chr(27) || '[2Ja' || chr(7)", "E'a\\nb\\r\\n.\\r\\nBcc: x@y'", "'\"><x>&amp;]]>'", "repeat('x', 250)", "E'\\u202eevil\\u0085'", "'; DROP TABLE x; --'", "'../../etc/passwd'",
        "'a b c'", "'%s%n%s'", "'-h'"]
JSON = ["'null'", "'[]'", "'\"x\"'", "'17'", "'{}'", "'{\"ip\":{\"a\":[1]},\"dkim\":7,\"spf\":[],\"disposition\":true}'",
        "'{\"ip\":\"192.0.2.1\",\"disposition\":\"reject\",\"header_from\":\"x\\u001b[2J\\r\\ny\",\"dkim\":[{\"domain\":{}},null,3,\"x\"],\"spf\":{\"domain\":[],\"result\":\"pwned\"}}'",
        "('{\"ip\":' || repeat('[', 60) || repeat(']', 60) || '}')", "json_build_object('ip', repeat('9', 200000))::text",
        "('{\"ip\":\"192.0.2.1\",\"disposition\":\"none\",\"header_from\":\"x\",\"dkim\":[' || repeat('{\"domain\":\"d\",\"selector\":\"s\",\"result\":\"pass\"},', 3000) || '{}]}')"]


def sql(d, text):
    r = subprocess.run(["psql", "-qXAt", "-h", os.path.join(d.state, "run"), "-U", "postgres", "-d", "pepsi", "-v", "ON_ERROR_STOP=1"], input=text.encode(),
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    pepsi.check(r.returncode == 0, "psql: %s" % r.stderr.decode())
    return r.stdout.decode().strip()


def run(d, *args):
    """(exit status, output), both bounded; never a signal."""
    code, out, err = d.cli("dmarc", *args)
    pepsi.check(code in (0, 1), "dmarc %s: exit %s %s" % (" ".join(args), code, err))
    for text in (out, err):
        bad = [c for c in text if (ord(c) < 32 and c not in "\n\t\r") or c in "\x7f\x85\u202e"]
        pepsi.check(not bad or "--xml" in args, "dmarc %s prints %r" % (" ".join(args), bad[:5]))
    pepsi.check(len(out) < 30 << 20, "dmarc %s prints %d octets" % (" ".join(args), len(out)))
    return code, out, err


def hostile(t):
    if not shutil.which("psql"):
        raise pepsi.Skip("psql is not installed")
    lab = dnslab.Lab({k: dict(v) for k, v in ZONE.items()})
    t.cleanup(lab.close)
    sink = pepsi.Sink(t)
    d = pepsi.Pepsid(t, "", start=False)
    d.write_config(pepsi.route("init", [], "relay") + pepsi.smarthost("relay", sink.port) + pepsi.bounce(),
                   more="[pepsi-dns]\nSERVERS = %s\nTIMEOUT = 1 s\n[pepsi-dmarc]\nREPORTS = YES\nFAILURE_REPORTS = YES\nFROM = dmarc@example.test\n" % lab.server)
    d.start()
    period = ("INSERT INTO pepsi.dmarc_period (domain, begin_at, end_at, policy, org, rows, messages) VALUES (%s, now() - interval '2 days' - random() * interval '1 second',"
              " now() - interval '1 day', %s, 'x', 3, 9) RETURNING id")
    script = []
    for e in EVIL:
        script.append("WITH p AS (%s) INSERT INTO pepsi.dmarc_row SELECT id, decode(md5('a'), 'hex'), '{\"ip\":\"192.0.2.1\"}', 3 FROM p;" % (period % (e, "left(%s, 200)" % e)))
        script.append("INSERT INTO pepsi.dmarc_muted VALUES ('a@' || lower(left(%s, 200)), now(), now() + interval '1 day', %s);" % (e, e))
        script.append("INSERT INTO pepsi.dmarc_failure (domain, org, at, data, headers) VALUES (left(%s, 250), 'x', now(), '{\"ip\":\"192.0.2.1\"}', convert_to(%s, 'UTF8'));" % (e, e))
        script.append("INSERT INTO pepsi.dmarc_failure_received (digest, domain, verified, failure, result, incidents, detail, mail_domain) VALUES (decode(md5(%s), 'hex'), left(%s, 250),"
                      " true, %s, %s, 1, jsonb_build_object('mail_from', %s, 'alignment', %s), %s);" % (e, e, e, e, e, e, e))
        script.append("INSERT INTO pepsi.dmarc_received (domain, org, report_id, begin_at, end_at, verified, policy, info, messages, passed, mail_domain) VALUES (%s, %s, %s, now(), now(),"
                      " true, '[]', '7', 1, 2, %s);" % (e, e, e, e))
    for i, j in enumerate(JSON):
        script.append("WITH p AS (%s) INSERT INTO pepsi.dmarc_row SELECT id, decode(md5(g::text), 'hex'), (%s)::jsonb, 5 FROM p, generate_series(1, 2) g;" % (period % ("'evil.test'", "'p=%d'" % i), j))
        if i not in (8, 9):  # longer than the column takes
            script.append("INSERT INTO pepsi.dmarc_failure (domain, org, at, data, headers) VALUES ('good.test', 'good.test', now(), (%s)::jsonb, '\\x00ff0d0a0d0a');" % j)
    # and the good ones among them
    good = '{"ip":"192.0.2.7","disposition":"reject","dkim_aligned":false,"spf_aligned":false,"header_from":"good.test","dkim":[],"spf":{"domain":"good.test","result":"fail"}}'
    script.append("WITH p AS (%s) INSERT INTO pepsi.dmarc_row SELECT id, decode(md5('g'), 'hex'), '%s', 9 FROM p;" % (period % ("'good.test'", "'p=reject'"), good))
    script.append("INSERT INTO pepsi.dmarc_failure (domain, org, at, data, headers) VALUES ('good.test', 'good.test', now() + interval '1 minute', '{\"ip\":\"192.0.2.7\",\"failure\":\"dmarc\","
                  "\"result\":\"reject\",\"alignment\":\"none\"}', 'From: <redacted@good.test>' || chr(13) || chr(10));".replace("'From", "convert_to('From").replace("chr(10))", "chr(10), 'UTF8'))"))
    sql(d, "\n".join(script))
    for args in (("list",), ("list", "--failures"), ("received",), ("received", "--failures")):
        code, out, err = run(d, *args)
        pepsi.check(code == 0, "dmarc %s: %s" % (args, err))
        code, out, err = d.cli("--json", "dmarc", *args)
        pepsi.check(code == 0 and json.loads(out) is not None, "dmarc --json %s: %s" % (args, err))
    shown = 0
    for ident in sql(d, "SELECT id FROM pepsi.dmarc_period ORDER BY id").split():
        run(d, "show", ident)
        code, out, _ = run(d, "show", ident, "--xml")
        if code == 0:
            tree.fromstring(out.encode())
            shown += 1
    pepsi.check(shown >= 1, "not even the good report could be shown")
    run(d, "send", "--dry-run")
    pepsi.check(not sink.messages, "a dry run sent")
    code, out, err = run(d, "send")
    pepsi.wait_for("the good reports arrive", lambda: {"rua@good.test", "ruf@good.test"} <= {str(m.rcpts[0][0] if isinstance(m.rcpts[0], tuple) else m.rcpts[0]).strip("<>")
                                                                                            for m in sink.messages}, 30)
    to = {str(m.rcpts[0][0] if isinstance(m.rcpts[0], tuple) else m.rcpts[0]).strip("<>") for m in sink.messages}
    pepsi.check(to <= {"rua@good.test", "ruf@good.test", "rua@evil.test"}, "mail to %s" % to)
    pepsi.check(all(b"\x1b" not in m.data and b"\nBcc:" not in m.data for m in sink.messages), "what was sent")
    code, out, err = run(d, "send")
    pepsi.check(code == 0, err)
    d.stop()


pepsi.main(__file__, [hostile])
