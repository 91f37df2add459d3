"""Processes as /proc shows them, for the end-to-end tests: who descends from whom, what runs, who listens. Looks only; ends nobody."""
import os


def proc_parents():
    out = {}
    for d in os.listdir("/proc"):
        if d.isdigit():
            try:
                with open("/proc/%s/stat" % d) as f:
                    s = f.read()
                fields = s[s.rindex(")") + 2:].split()
                if fields[0] != "Z":
                    out[int(d)] = int(fields[1])
            except (OSError, ValueError):
                pass
    return out


def proc_tree(pid):
    """pid's descendants, without itself, parents first."""
    parents, out, todo = proc_parents(), [], [pid]
    while todo:
        p = todo.pop(0)
        kids = [c for c, pp in parents.items() if pp == p]
        out += kids
        todo += kids
    return out


def proc_exe(pid):
    try:
        return os.readlink("/proc/%d/exe" % pid)
    except OSError:
        return ""


def proc_cmdline(pid):
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as f:
            return f.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def proc_uid(pid):
    try:
        return os.stat("/proc/%d" % pid).st_uid
    except OSError:
        return -1


def proc_state(pid):
    """The letter: R, S, D, T, Z…; nothing when there is no such process."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            s = f.read()
        return s[s.rindex(")") + 2]
    except OSError:
        return ""


def proc_status_uid(pid):
    """Effective uid; unlike the owner of /proc/PID it does not show root for undumpable processes."""
    with open("/proc/%d/status" % pid) as f:
        for line in f:
            if line.startswith("Uid:"):
                return int(line.split()[2])
    return -1


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            s = f.read()
        return s[s.rindex(")") + 2] != "Z"
    except OSError:
        return False


def listener_pids(port):
    """Processes that hold a TCP socket listening on this loopback port."""
    inodes = set()
    with open("/proc/net/tcp") as f:
        for line in f:
            c = line.split()
            if len(c) > 9 and c[3] == "0A" and c[1].endswith(":%04X" % port):
                inodes.add("socket:[%s]" % c[9])
    out = []
    for d in os.listdir("/proc"):
        if d.isdigit():
            try:
                for fd in os.listdir("/proc/%s/fd" % d):
                    if os.readlink("/proc/%s/fd/%s" % (d, fd)) in inodes:
                        out.append(int(d))
                        break
            except OSError:
                pass
    return out


def proc_comm(pid):
    try:
        with open("/proc/%d/comm" % pid) as f:
            return f.read().strip()
    except OSError:
        return ""
