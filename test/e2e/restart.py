"""An orderly stop loses nothing and ends in time: what waits is there after the next start, what runs is finished or
handed back, sessions get 421; SIGHUP reloads, and a broken file changes nothing."""
import os
import signal
import threading
import time

import pepsi


def queued_survives(t):
    sink = pepsi.Sink(t)
    sink.script = {"mail": "451 4.3.0 closed for lunch"}
    d = pepsi.Pepsid(t, pepsi.smarthost("init", sink.port, "PARALLELISM = 2\n") + pepsi.bounce())
    ids = [d.accept("sender@example.test", "rcpt@far.test", pepsi.message("r%d" % i)) for i in range(10)]
    pepsi.wait_for("all of them tried", lambda: len([r for r in d.queue() if r.get("last_error")]) == 10, 20, 0.2)
    session = pepsi.Smtp(d.port)
    d.stop()
    try:
        code, _ = session.reply()
        pepsi.check(code == 421, "the open session got %d" % code)
    except (OSError, pepsi.SmtpError) as e:
        raise pepsi.Failed("the open session got no 421: %s" % e)
    pepsi.check(not sink.messages, "something was delivered")
    sink.script = {}
    d.start()
    rows = {str(r["id"]) for r in d.queue()}
    pepsi.wait_for("all delivered after the start", lambda: len(set(sink.tokens())) == 10, 30)
    pepsi.check(rows <= set(ids), "unknown rows after the start: %s" % (rows - set(ids)))
    d.wait_empty(10)
    pepsi.check(len(sink.messages) == 10, "%d deliveries of 10 messages" % len(sink.messages))
    d.stop()


def stop_under_load(t):
    """SIGTERM in the middle of traffic: every acknowledged message arrives exactly once, over the restart."""
    sink = pepsi.Sink(t)
    d = pepsi.Pepsid(t, pepsi.smarthost("init", sink.port, "PARALLELISM = 3\n") + pepsi.bounce())
    load = pepsi.Load(d, 8, pause=0.002)
    pepsi.wait_for("load", lambda: load.count() > 200 or None, 30)
    d.stop()
    d.start()
    before = load.count()
    pepsi.wait_for("load after the restart", lambda: load.count() > before + 100 or None, 30)
    acked = load.stop()
    d.wait_empty(30)
    got = sink.tokens()
    lost = set(acked) - set(got)
    pepsi.check(not lost, "%d acknowledged messages lost" % len(lost))
    again = len(got) - len(set(got))
    pepsi.check(again == 0, "%d delivered twice over an orderly stop" % again)
    pepsi.say("      %d acknowledged, each arrived once" % len(acked))
    d.stop()


def stop_with_hanging_hop(t):
    """A worker stuck with a hanging next hop does not hold up the stop for ever, and its message is kept."""
    sink = pepsi.Sink(t)
    sink.script = {"rcpt": "hang"}
    d = pepsi.Pepsid(t, pepsi.smarthost("init", sink.port) + pepsi.bounce())
    d.accept("sender@example.test", "rcpt@far.test", pepsi.message("stuck"))
    pepsi.wait_for("the worker is stuck", lambda: sink.connections, 10)
    began = time.monotonic()
    d.stop(60)
    pepsi.say("      stopped after %.1f s" % (time.monotonic() - began))
    sink.script = {}
    d.start()
    pepsi.wait_for("delivered after the start", lambda: "stuck" in sink.tokens(), 30)
    d.wait_empty(10)
    d.stop()


def reload_new_route(t):
    """SIGHUP and `pepsi reload` take the new file; a broken one is refused with its findings and the old stays."""
    one, two = pepsi.Sink(t), pepsi.Sink(t)
    d = pepsi.Pepsid(t, pepsi.smarthost("init", one.port) + pepsi.bounce())
    reactor = d.reactor_pid()
    d.accept("sender@example.test", "rcpt@far.test", pepsi.message("one"))
    pepsi.wait_for("at the first hop", lambda: "one" in one.tokens(), 10)
    d.write_config(pepsi.smarthost("init", two.port) + pepsi.bounce())
    code, out, err = d.cli("reload")
    pepsi.check(code == 0, "reload: %s%s" % (out, err))

    def arrives(sink, token):
        d.accept("sender@example.test", "rcpt@far.test", pepsi.message(token))
        pepsi.wait_for("somewhere", lambda: token in one.tokens() + two.tokens(), 10)
        return token in sink.tokens()
    pepsi.wait_for("at the second hop", lambda: arrives(two, "t%d" % time.monotonic_ns()), 15, 0.3)
    with open(d.config, "a") as f:
        f.write("[stage-init]\nPROGRAMM = x\n")
    code, out, err = d.cli("reload")
    pepsi.check(code == 1 and "PROGRAM" in out + err, "a broken file: exit %d %s%s" % (code, out, err))
    pepsi.check(arrives(two, "still"), "the broken file took effect")
    d.write_config(pepsi.smarthost("init", one.port) + pepsi.bounce())
    os.kill(d.spawner_pid(), signal.SIGHUP)
    pepsi.wait_for("back at the first hop", lambda: arrives(one, "h%d" % time.monotonic_ns()), 15, 0.3)
    pepsi.check(d.reactor_pid() == reactor, "the reactor was replaced")
    d.stop()


def reload_beside_a_hanging_module(t):
    """A module that hangs while it is asked for its options (10 s, then it is killed): meanwhile workers die and are started as ever."""
    stages = os.path.join(os.path.dirname(pepsi.BIN), "test", "stages")
    if not os.path.exists(os.path.join(stages, "pepsi-stage-bad-ctor-hang.so")):
        raise pepsi.Skip("test/stages was not built")
    sink = pepsi.Sink(t)
    modules = "MODULE_PATH = %s:%s\n" % (stages, os.path.join(os.path.dirname(pepsi.BIN), "lib", "pepsi", "modules"))
    d = pepsi.Pepsid(t, pepsi.smarthost("init", sink.port) + pepsi.bounce(), pepsi=modules)
    d.accept("sender@example.test", "rcpt@far.test", pepsi.message("before"))
    pepsi.wait_for("delivered", lambda: "before" in sink.tokens(), 10)
    d.write_config(pepsi.smarthost("init", sink.port) + pepsi.bounce() + "[stage-odd]\nPROGRAM = pepsi-stage-bad-ctor-hang\n\n", pepsi=modules)
    answer = []
    asking = threading.Thread(target=lambda: answer.append(d.cli("reload")))
    asking.start()
    time.sleep(0.5)
    pids = d.worker_pids("init")
    pepsi.check(pids, "no worker")
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    pepsi.wait_for("the dead worker is noticed", lambda: not set(pids) & set(d.worker_pids("init")), 10)
    d.accept("sender@example.test", "rcpt@far.test", pepsi.message("beside"))
    pepsi.wait_for("mail flows", lambda: "beside" in sink.tokens(), 10)
    pepsi.check(not answer, "the reload was over before: this shows nothing")
    asking.join(60 * pepsi.PATIENCE)
    pepsi.check(answer and answer[0][0] == 1 and "bad-ctor-hang" in answer[0][1] + answer[0][2], "the reload is refused, and says why: %s" % answer)
    d.accept("sender@example.test", "rcpt@far.test", pepsi.message("after"))
    pepsi.wait_for("mail flows on", lambda: "after" in sink.tokens(), 10)
    # a stop does not wait for it
    threading.Thread(target=lambda: d.cli("reload"), daemon=True).start()
    time.sleep(0.5)
    d.stop(8)


pepsi.main(__file__, [queued_survives, stop_under_load, stop_with_hanging_hop, reload_new_route, reload_beside_a_hanging_module])
