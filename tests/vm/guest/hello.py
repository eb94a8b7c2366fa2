"""Prints how many milliseconds a Python hello takes here, at best: the host's and the machine's tell how slow it is."""

import subprocess
import time


def once():
    began = time.monotonic()
    subprocess.run(["/usr/bin/python3", "-I", "-c", "print('hello')"], stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - began


print(max(1, round(1000 * min(once() for _ in range(5)))))
