#!/usr/bin/env python3
"""db/README.md against the catalogue of a migrated database: every table with its columns, function with its parameters, trigger,
index, type, sequence, notification channel, role and privilege stands in the page, and nothing that is not there. Run below
with-cluster.

    contract.py MIGRATE README"""
import os
import re
import subprocess
import sys

QUERIES = {
    "table": "SELECT relname, (SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT"
             " attisdropped) FROM pg_class c WHERE relnamespace = 'pepsi'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f')",
    "function": "SELECT proname, array_to_string(ARRAY(SELECT regexp_replace(n, '^p_', '') FROM unnest(proargnames) WITH ORDINALITY u(n, o)"
                " WHERE proargmodes IS NULL OR proargmodes[o] IN ('i', 'b', 'v') ORDER BY o), ', ') FROM pg_proc"
                " WHERE pronamespace = 'pepsi'::regnamespace AND prorettype <> 'trigger'::regtype",
    "trigger": "SELECT tgname, c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid"
               " WHERE relnamespace = 'pepsi'::regnamespace AND NOT tgisinternal"
               " UNION SELECT proname, '' FROM pg_proc WHERE pronamespace = 'pepsi'::regnamespace AND prorettype = 'trigger'::regtype",
    "index": "SELECT relname, '' FROM pg_class WHERE relnamespace = 'pepsi'::regnamespace AND relkind = 'i' AND relname NOT LIKE '%\\_pkey'",
    "type": "SELECT typname, '' FROM pg_type WHERE typnamespace = 'pepsi'::regnamespace AND typrelid = 0 AND typcategory <> 'A'",
    "sequence": "SELECT relname, '' FROM pg_class WHERE relnamespace = 'pepsi'::regnamespace AND relkind = 'S'",
    "channel": "SELECT DISTINCT m[1], '' FROM pg_proc, regexp_matches(prosrc, 'pg_notify\\(''(\\w+)''', 'g') m"
               " WHERE pronamespace = 'pepsi'::regnamespace",
    "role": "SELECT rolname, '' FROM pg_roles WHERE rolname ~ '^pepsi'",
}
# Privileges besides the owner's.
GRANTS = """
WITH g AS (
    SELECT c.relname::text AS object, a.grantee, a.privilege_type AS p, NULL::text AS col FROM pg_class c, aclexplode(c.relacl) a
    WHERE relnamespace = 'pepsi'::regnamespace AND a.grantee <> relowner AND relkind <> 'i'
    UNION ALL
    SELECT c.relname, a.grantee, a.privilege_type, t.attname FROM pg_class c JOIN pg_attribute t ON t.attrelid = c.oid, aclexplode(t.attacl) a
    WHERE relnamespace = 'pepsi'::regnamespace AND a.grantee <> relowner)
SELECT object, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(grantee)::text END AS role, lower(p),
    coalesce(string_agg(col, ' ' ORDER BY col), '') FROM g GROUP BY 1, 2, 3, col IS NULL
UNION ALL
SELECT CASE WHEN e.n = (SELECT count(*) FROM pg_proc WHERE pronamespace = 'pepsi'::regnamespace AND prorettype <> 'trigger'::regtype)
    THEN 'all functions' ELSE e.names END, e.role, 'execute', '' FROM (
    SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee)::text END AS role, count(DISTINCT p.oid) AS n,
        string_agg(DISTINCT proname, ' ' ORDER BY proname) AS names
    FROM pg_proc p, aclexplode(coalesce(proacl, acldefault('f', proowner))) a
    WHERE pronamespace = 'pepsi'::regnamespace AND a.grantee <> proowner GROUP BY 1) e
"""


def query(text):
    r = subprocess.run(["psql", "-qXAt", "-F", "|", "-v", "ON_ERROR_STOP=1", "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       env=dict(os.environ, PGDATABASE="pepsi"))
    if r.returncode:
        sys.exit("psql: %s" % r.stderr.decode())
    return [line.split("|") for line in r.stdout.decode().splitlines()]


def catalogue():
    have = {kind: [tuple(row) for row in query(text)] for kind, text in QUERIES.items()}
    have["grant"] = []
    for object_, role, privilege, columns in query(GRANTS):
        for one in object_.split(" ") if object_ != "all functions" else [object_]:
            have["grant"].append((one, role, privilege, columns))
    return have


def section(text, title):
    m = re.search(r"(?ms)^#+ %s$(.*?)(?=^#)" % re.escape(title), text + "\n#")
    return m.group(1) if m else ""


def cells(text):
    """Rows of the tables in it, without their heads."""
    rows = [[c.strip() for c in line.strip().strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return [r for i, r in enumerate(rows) if not set("".join(r)) <= set("- :") and not (i + 1 < len(rows) and set("".join(rows[i + 1])) <= set("- :"))]


def ticked(text):
    return re.findall(r"`([^`]+)`", text)


def expand(names):
    """workqueue_chunk_0 … _7"""
    out = []
    for n in names:
        m = re.match(r"(\w+?_)(\d)…(\d)$", n)
        out += ["%s%d" % (m.group(1), i) for i in range(int(m.group(2)), int(m.group(3)) + 1)] if m else [n]
    return out


def page(text):
    """What the README says, in the form of catalogue(); and faults."""
    says, faults = {k: [] for k in list(QUERIES) + ["grant"]}, []
    for row in cells(section(text, "Columns")):
        for t in expand(ticked(row[0])):
            says["table"].append((t, " ".join(ticked(row[1]))))
    for row in cells(section(text, "Functions")):
        for f in ticked(row[0]):
            m = re.match(r"(\w+)\((.*)\)$", f)
            if m:
                says["function"].append((m.group(1), m.group(2)))
            else:
                faults.append("Functions: %s has no parameters in parentheses" % f)
    for row in cells(section(text, "Triggers")):
        says["trigger"] += [(n, ticked(row[1])[0] if ticked(row[1]) else "") for n in ticked(row[0])]
        says["trigger"] += [(n, "") for n in ticked(row[2])[:1]]
    for title, kind in (("Indices and vacuum", "index"), ("Notifications", "channel"), ("Roles", "role"), ("Types and sequences", "type")):
        for row in cells(section(text, title)):
            for n in expand(ticked(row[0])):
                k = "sequence" if kind == "type" and n.endswith("_seq") else kind
                says[k].append((re.sub(r"^(workqueue_chunk)_body_(\d)$", r"\1_\2_body", n), ""))
    for row in cells(section(text, "Grants")):
        for item in row[1].split(";"):  # `role`, `role`: select, update of `column`, `column`
            who, _, what = item.partition(":")
            privileges, _, columns = what.partition(" of ")
            if not ticked(who) or not re.match(r"[a-z, ]+$", privileges):
                faults.append("Grants: %s: cannot read \"%s\"" % (row[0], item))
            for object_ in expand(ticked(row[0])) or [row[0]]:
                for role in ticked(who):
                    says["grant"] += [(object_, role, x.strip(), " ".join(sorted(ticked(columns)))) for x in privileges.split(",")]
    return says, faults


def compare(have, text):
    says, faults = page(text)
    for kind in says:
        if not says[kind]:
            faults.append("README: nothing about any %s" % kind)
        # the order of columns is a matter of taste; parameters are passed by place
        norm = (lambda r: (r[0], " ".join(sorted(r[1].split())))) if kind == "table" else (lambda r: r)
        a, b = {norm(r) for r in have[kind]}, {norm(r) for r in says[kind]}
        for r in sorted(a - b):
            faults.append("%s %s: in the database, not in db/README.md" % (kind, show(kind, r)))
        for r in sorted(b - a):
            faults.append("%s %s: in db/README.md, not in the database" % (kind, show(kind, r)))
    return faults


def show(kind, r):
    if kind == "function":
        return "%s(%s)" % r
    if kind == "grant":
        return "%s on %s to %s%s" % (r[2], r[0], r[1], " (columns %s)" % r[3] if r[3] else "")
    return " ".join(x for x in r if x)


def main():
    migrate, readme = sys.argv[1:3]
    r = subprocess.run([migrate], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if r.returncode:
        sys.exit("migrate: %s" % r.stdout.decode())
    with open(readme, encoding="utf-8") as f:
        text = f.read()
    have = catalogue()
    faults = compare(have, text)
    # and it would notice
    for what, statement in (
            ("table", "CREATE TABLE pepsi.sneaked (x integer)"), ("column", "ALTER TABLE pepsi.workqueue ADD sneaked integer"),
            ("function", "CREATE FUNCTION pepsi.sneaked() RETURNS integer LANGUAGE sql AS 'SELECT 1'"),
            ("parameter", "CREATE FUNCTION pepsi.workqueue_delete(sneaked bigint) RETURNS integer LANGUAGE sql AS 'SELECT 1'"),
            ("trigger", "CREATE TRIGGER sneaked AFTER INSERT ON pepsi.stage_stats FOR EACH STATEMENT EXECUTE FUNCTION pepsi.config_changed_notify()"),
            ("index", "CREATE INDEX sneaked ON pepsi.stage_stats (messages)"), ("type", "CREATE TYPE pepsi.sneaked AS ENUM ('a')"),
            ("sequence", "CREATE SEQUENCE pepsi.sneaked"), ("role", "CREATE ROLE \"pepsi-sneaked\""),
            ("channel", "CREATE FUNCTION pepsi.iso() RETURNS void LANGUAGE plpgsql AS $$BEGIN PERFORM pg_notify('sneaked', ''); END$$"),
            ("grant", "GRANT SELECT ON pepsi.flow_stats TO \"pepsi-crypto\""),
            ("grant of a column", "GRANT SELECT (headers) ON pepsi.workqueue TO \"pepsi-httpd\""),
            ("grant of a function", "GRANT EXECUTE ON FUNCTION pepsi.iso(timestamptz) TO \"pepsi-ingress\""),
            ("lack", "REVOKE SELECT ON pepsi.flow_stats FROM \"pepsi-telemetry\""), ("lost table", "DROP TABLE pepsi.alias_map CASCADE")):
        rows = query("BEGIN; %s; %s; ROLLBACK" % (statement, "; ".join("SELECT '%s', * FROM (%s) q" % (k, q) for k, q in
                     list(QUERIES.items()) + [("grant", GRANTS)])))
        then = {k: [] for k in have}
        for row in rows:
            if row[0] == "grant":
                then["grant"] += [(one, row[2], row[3], row[4]) for one in (row[1].split(" ") if row[1] != "all functions" else [row[1]])]
            else:
                then[row[0]].append(tuple(row[1:]))
        if not set(compare(then, text)) - set(faults):
            faults.append("this test does not notice: %s" % what)
    for f in faults:
        print("FAIL " + f)
    if not faults:
        print(", ".join("%d %s" % (len(have[k]), k) for k in have))
    return 1 if faults else 0


sys.exit(main())
