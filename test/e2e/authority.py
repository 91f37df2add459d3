"""nsd as the authority of a few zones, on loopback, as a process of our own. A module; no test by itself."""
import os
import signal
import socket

import pepsi


def strings(text):
    """A long TXT record as a zone file has it."""
    return " ".join('"%s"' % text[i:i + 200] for i in range(0, len(text), 200))


HEAD = "$ORIGIN %s.\n$TTL 60\n@ IN SOA ns.test. root.test. %d 3600 600 86400 30\n@ IN NS ns.test.\n%s"


def change(kept, name, text):
    """Other records in a zone of start(…, kept)."""
    kept["serial"] = kept.get("serial", 1) + 1
    with open(os.path.join(kept["folder"], name), "w") as f:
        f.write(HEAD % (name, kept["serial"], text))
    kept["process"].send_signal(signal.SIGHUP)


def start(t, zones, kept=None):
    """zones: name → records behind $ORIGIN, with SOA and NS. "127.0.0.1:PORT". kept: a dictionary for change()."""
    folder = os.path.join(t.dir, "nsd%d" % t.next_number())
    os.mkdir(folder)
    port = pepsi.free_port()
    conf = os.path.join(folder, "nsd.conf")
    with open(conf, "w") as f:
        f.write('server:\n ip-address: 127.0.0.1@%d\n username: ""\n chroot: ""\n zonesdir: "%s"\n database: ""\n pidfile: "%s/nsd.pid"\n'
                ' xfrdfile: "%s/xfrd"\n zonelistfile: "%s/zonelist"\n xfrdir: "%s"\n server-count: 1\n rrl-ratelimit: 0\nremote-control:\n control-enable: no\n'
                % (port, folder, folder, folder, folder, folder))
        for name in zones:
            f.write('zone:\n name: "%s"\n zonefile: "%s"\n' % (name, name))
    for name, text in zones.items():
        with open(os.path.join(folder, name), "w") as f:
            f.write(HEAD % (name, 1, text))
    process = t.popen([pepsi.need("nsd"), "-d", "-c", conf], log=os.path.join(folder, "nsd.log"))
    if kept is not None:
        kept.update(folder=folder, process=process)
    first = b"".join(bytes([len(x)]) + x.encode() for x in next(iter(zones)).split(".")) + b"\0"

    def answers():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(1)
            s.connect(("127.0.0.1", port))
            try:
                s.send(b"\0\1\0\0\0\1\0\0\0\0\0\0" + first + b"\0\6\0\1")
                return s.recv(2000)[6:8] == b"\0\1"  # its SOA
            except OSError:
                return False
    pepsi.wait_for("nsd answers", answers, 20)
    return "127.0.0.1:%d" % port
