#!/usr/bin/env python3
"""spf_differential.py PEPSI-VECTORS [CASES [SEED]]: generates SPF records with their zones, asks pyspf (offline: its look-ups are answered from the
same zone), writes results and explanations down as a suite of the form topic_spf.c reads, and has pepsi-vectors compare them. Skips (77)
with a line when pyspf is not there. Kept out of the records is what pyspf does otherwise than RFC 7208 says: it counts addresses of MX
names as void look-ups, counts a redirect that is not followed, does not count %{p}, shortens long names by one label only, refuses more
than ten MX names even if one of the first ten matches, looks all of them up before it compares, takes a PTR look-up that fails for a
temperror, refuses a record that includes itself before it comes to that, lets %{d0} pass, and has no "postmaster" in %{S}."""
import json
import random
import subprocess
import sys
import tempfile

try:
    import spf
except ImportError:
    print("skipped: no pyspf (python3-spf)")
    sys.exit(77)

HOSTS = ["h%d.example.org" % i for i in range(6)]
IPS = ["192.0.2.%d" % i for i in (1, 2, 3, 17, 65, 129)] + ["2001:db8::%x" % i for i in (1, 2, 0x11)] + ["198.51.100.7"]
LOCALS = ["joe", "strong-bad", "a.b.c", "x+tag", "o_o"]
MACROS = ["%{l}", "%{o}", "%{d}", "%{ir}", "%{v}", "%{h}", "%{l1r-}", "%{d2}", "%{dr}", "%{L-}", "%{l2.-+}", "%{o1r}", "x%%", "%-"]
BAD = ["moo", "a:foo", "a:", "all:x.org", "a/33", "ip4:1.2.3", "ip4:1.2.3.4/33", "ip6:1.2.3.4", "exp=", "redirect=", "include", "exists", "ptr/8",
       "a//129", "9x=1", "a:%{x}.org", "exists:%(d).org", "x=%", "?redirect=d1.example.org", "a:x.org:25"]
TEXTS = ["%{i} may not send for %{o}", "see http://x.org/?s=%{S}&i=%{i}&r=%{r}", "%{h} %{d} %{v}", "bad %{z}", "", "100%%%_x", "%{l1r-}-%{d1}",
         "%{c} is not %{p}"]


class Zone:
    """Rows as the suite has them; a look-up of one name and type."""

    def __init__(self):
        self.rows = []

    def add(self, name, kind, value=None, **more):
        row = {"name": name, "type": kind}
        if kind == "TXT":
            row["strings"] = value
        elif value is not None:
            row["value"] = value
        row.update(more)
        self.rows.append(row)

    def lookup(self, name, qtype, *_):
        out = []
        for row in self.rows:
            if row["name"].lower() != name.lower().rstrip("."):
                continue
            if row["type"] == "TIMEOUT":
                raise spf.TempError("DNS timeout")
            if row["type"] == qtype:
                value = tuple(s.encode() for s in row["strings"]) if qtype == "TXT" else \
                    (row["preference"], row["value"]) if qtype == "MX" else row["value"]
                out.append(((name, qtype), value))
        return out


def mechanism(r, names, own, budget):
    """A term; budget[0] is how many look-ups are left to the record."""
    kind = r.choice(["a", "a", "mx", "exists", "ip4", "ip4", "ip6", "include", "ptr", "all", "a"])
    q = r.choice(["", "", "+", "-", "~", "?"])
    cidr = r.choice(["", "", "", "/24", "/28", "//64", "/0", "/24//32", "//0"])
    name = r.choice(HOSTS + names[:3])
    if kind in ("a", "mx", "ptr", "exists", "include") and budget[0] <= 0:
        kind = "ip4"
    if kind == "all":
        return q + r.choice(["all", "ALL"]) if r.random() < .3 else q + "ip4:203.0.113.9"
    if kind == "ip4":
        return "%sip4:192.0.2.%d%s" % (q, r.choice([0, 1, 2, 16, 64, 128]), r.choice(["", "/32", "/28", "/26", "/24", "/31", "/0"]))
    if kind == "ip6":
        return "%sip6:2001:db8::%x%s" % (q, r.choice([0, 1, 2, 16]), r.choice(["", "/128", "/127", "/124", "/32", "/0", "/1"]))
    budget[0] -= 1
    if kind == "exists":
        spec = ".".join(r.sample(MACROS[:12], r.randint(1, 3))) + ".e.example.org"
        return q + "exists:" + spec
    if kind == "include":
        return "%sinclude:%s" % (q, r.choice([n for n in names if n != own]))
    if kind == "ptr":
        return q + r.choice(["ptr", "ptr:example.org", "ptr:" + name])
    if kind == "mx":
        return q + r.choice(["mx", "mx:m.example.org", "mx:n.example.org"]) + cidr
    return q + r.choice(["a", "a:" + name, "A:" + name + ".", "a:%{d}", "a:h1.%{d2}"]) + cidr


def record(r, names, own, budget):
    terms = [mechanism(r, names, own, budget) for _ in range(r.randint(0, 4))]
    if r.random() < .06:
        terms.insert(r.randint(0, len(terms)), r.choice(BAD))
    if r.random() < .35:
        terms.append(r.choice(["-all", "~all", "?all", "-ALL"]))
    elif r.random() < .3 and budget[0] > 0:
        budget[0] -= 1
        terms.append("redirect=" + r.choice(names))
    if r.random() < .5:
        terms.insert(r.randint(0, len(terms)), "exp=" + r.choice(["x%d.example.org" % r.randint(0, 8), "x1.%{d2}"]))
    if r.random() < .1:
        terms.append(r.choice(["other=%{l}", "x-1.y=", "default=-"]))
    return r.choice(["v=spf1", "V=SPF1"]) + "".join(r.choice([" ", " ", "  "]) + t for t in terms)


def generate(r, number):
    """Zone, client and sender of one case."""
    z, names = Zone(), ["d%d.example.org" % i for i in range(6)]
    for i, host in enumerate(HOSTS):
        z.add(host, "A", "192.0.2.%d" % (i * 16 + 1))
        z.add(host, "AAAA", "2001:db8::%x" % (i * 16 + 1))
    for d in names:
        z.add(d, "A", r.choice(IPS[:6]))
        z.add(d, "AAAA", r.choice(IPS[6:9]))
        for p in range(r.randint(1, 4)):
            z.add(d, "MX", r.choice(HOSTS), preference=p)
        if r.random() < .04:
            continue
        for _ in range(2 if r.random() < .03 else 1):
            text = record(r, names, d, [2])
            cut = r.randint(0, len(text))
            z.add(d, "TXT", [text[:cut], text[cut:]])
        if r.random() < .2:
            z.add(d, "TXT", ["something else"])
    z.add("m.example.org", "MX", HOSTS[0], preference=1)
    z.add("m.example.org", "MX", HOSTS[1], preference=1)
    z.add("n.example.org", "MX", HOSTS[2], preference=0)
    for i, text in enumerate(TEXTS):
        z.add("x%d.example.org" % i, "TXT", [text])
    if r.random() < .08:
        z.rows.insert(0, {"name": r.choice(names), "type": "TIMEOUT"})
    ip, local = r.choice(IPS), r.choice(LOCALS)
    reverse = spf.query(i=ip, s="a@b.c", h="h.c")
    z.add("%s.%s.arpa" % (".".join(reversed(reverse.i.split("."))), reverse.v), "PTR", r.choice(HOSTS))
    sender = local + "@" + r.choice(names[:3] + ["D1.Example.org"]) if r.random() < .92 else ""
    helo = r.choice(names[:2] + ["mail.example.net", "JUNK", "[192.0.2.1]"])
    # some of the names macros make are there
    for l in ("joe", "strong", "a.b.c"):
        if r.random() < .6:
            z.add("%s.e.example.org" % l, "A", "127.0.0.2")
    return {"id": "pyspf/%d" % number, "helo": helo, "host": ip, "mailfrom": sender, "receiver": "mx.example.net", "zone": z.rows}, z


def main(argv):
    if len(argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    count, seed = int(argv[2]) if len(argv) > 2 else 600, int(argv[3]) if len(argv) > 3 else 7208
    r, cases, seen, apart = random.Random(seed), [], {}, 0
    while len(cases) < count:
        case, zone = generate(r, len(cases))
        spf.DNSLookup = zone.lookup
        q = spf.query(i=case["host"], s=case["mailfrom"], h=case["helo"], receiver=case["receiver"], strict=True)
        q.set_default_explanation("DEFAULT")
        result, _, explanation = q.check()
        # limits are counted in other ways (see above): at them the two cannot agree, and the unit tests have them
        if q.void_lookups > 1 or q.lookups > 9:
            apart += 1
            continue
        case["results"] = [result]
        if result == "fail":
            case["explanation"] = explanation
        seen[result] = seen.get(result, 0) + 1
        cases.append(case)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump({"suite": "pyspf", "cases": cases}, f)
        f.flush()
        done = subprocess.run([argv[1], "spf", f.name], stdout=subprocess.PIPE, text=True)
    lines = done.stdout.splitlines()
    other = [line for line in lines if not line.startswith("ok ") or "not as the suite" in line]
    print("\n".join(other))
    print("pyspf said: %s; %d cases at a limit left out" % (", ".join("%s %d" % p for p in sorted(seen.items())), apart))
    if len(seen) < 7 or min(seen.values()) < count // 200 or len(lines) != count + 1:
        print("the generated records do not show every result, or not all were judged")
        return 1
    return 1 if done.returncode or len(other) != 1 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
