#!/usr/bin/env python3
"""Types what doc/writing-a-stage.md says, from top to bottom, in an empty folder with the installed package alone:
```LANG file=NAME blocks are saved, ```sh run blocks are run, and each line of the ```text block behind one must be in its output.

    tutorial.py DOCUMENT PREFIX [FOLDER]     FOLDER, an empty one, is kept: there one can go on where the document does"""
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


def main():
    document, prefix, *keep = sys.argv[1:]
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    link = tempfile.TemporaryDirectory(prefix="pepsi-sdk.")
    if prefix != "/usr": # there all is found without help
        # an installed prefix has no blanks in its name; the build tree may have
        os.symlink(prefix, link.name + "/prefix")
        prefix = link.name + "/prefix"
        pc = pathlib.Path(prefix, next(pathlib.Path(prefix + "/").rglob("pepsi-stage.pc")).relative_to(prefix)).parent
        env |= {"PATH": f"{prefix}/bin:{prefix}/sbin:" + env["PATH"], "PKG_CONFIG_PATH": str(pc)}
    for tool in ("cc", "pkg-config"):
        if not shutil.which(tool):
            print(f"skipped: no {tool}")
            return 77
    blocks = re.findall(r"^```([^\n]*)\n(.*?)^```$", open(document, encoding="utf-8").read(), re.M | re.S)
    output, ran, checked = None, 0, 0
    with contextlib.nullcontext(keep[0]) if keep else tempfile.TemporaryDirectory(prefix="pepsi-sdk.") as folder:
        for info, text in blocks:
            if " file=" in info:
                pathlib.Path(folder, info.split(" file=")[1]).write_text(text, encoding="utf-8")
            elif info == "sh run":
                p = subprocess.run(["sh", "-eu", "-c", text], cwd=folder, env=env, stdin=subprocess.DEVNULL, text=True,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
                output, ran = p.stdout, ran + 1
                if p.returncode:
                    print(f"FAIL exit status {p.returncode}:\n{text}\n{output}")
                    return 1
            elif info == "text":
                for line in text.splitlines():
                    # columns may be wider where more is shown
                    if line.split() not in [o.split() for o in output.splitlines()]:
                        print(f'FAIL no line "{line}" in:\n{output}')
                        return 1
                    checked += 1
            else:
                print(f"FAIL a block this test does not know: {info}")
                return 1
    print(f"{ran} commands, {checked} lines of output")
    return 0 if ran >= 7 and checked >= 15 else 1


sys.exit(main())
