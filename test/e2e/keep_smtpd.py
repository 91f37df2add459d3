"""aiosmtpd as a mail server that keeps what it is told: a program of its own, since the interpreter that has the library need not be the tests'.

    python3 keep_smtpd.py PORT FOLDER [CERTIFICATE KEY]

One pair of files in FOLDER for each message, the second being complete when it is there: NAME.octets, NAME.json."""
import json
import os
import ssl
import sys
import time

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP


class Keep:
    def __init__(self, folder):
        self.folder, self.number = folder, 0

    async def handle_DATA(self, server, session, envelope):
        self.number += 1
        path = os.path.join(self.folder, str(self.number))
        with open(path + ".octets", "wb") as f:
            f.write(envelope.original_content)
        with open(path + ".new", "w") as f:
            json.dump({"from": envelope.mail_from, "params": envelope.mail_options, "rcpts": envelope.rcpt_tos, "rcpt_params": envelope.rcpt_options,
                       "tls": bool(session.ssl), "utf8": envelope.smtp_utf8}, f)
        os.rename(path + ".new", path + ".json")
        return "250 2.0.0 kept"


class Server(Controller):
    pair = None

    def factory(self):
        context = None
        if self.pair:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self.pair)
        return SMTP(self.handler, enable_SMTPUTF8=True, data_size_limit=50 << 20, hostname="aiosmtpd.example.test", tls_context=context)


if __name__ == "__main__":
    server = Server(Keep(sys.argv[2]), hostname="127.0.0.1", port=int(sys.argv[1]), ready_timeout=100)
    server.pair = sys.argv[3:5]
    server.start()
    while True:
        time.sleep(3600)
