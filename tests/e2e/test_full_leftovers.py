"""Ten thousand mixed runs, half of them hostile: what the server holds stays the same.

Memory is looked at to 2 MiB, so this uses the program as it ships where that is built, not the sanitizers' build.
"""

import support
from test_leftovers import nothing_is_left

RUNS = 10_000


def test_ten_thousand_runs(lab):
    shipped = support.CHECKOUT / "build" / "sandbox-runner"
    if shipped.exists():
        lab.program = shipped
    nothing_is_left(lab.runner(lab.identity("root" if support.os.geteuid() == 0 else "self")), RUNS, growth_kib=2048)
