"""Several runtimes in one process, in turns: ``python -m tuner.runtimes.together REQUEST.json``.

The request has ``threads``, ``rounds``, the file of the ``feeds``, their ``names``, and ``engines``: a
``name`` each, an ``engine``, a ``path`` and its ``inputs``. Prints a line of JSON: the seconds of each
round by name.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tuner.runtimes.engines import LOAD, read_arrays
from tuner.runtimes.turns import take_turns


def main(request: dict[str, Any]) -> dict[str, list[float]]:
    """Load all, and time them; one thread by the processor time of the process, more by the wall's clock."""
    threads = request["threads"]
    # The last ones, as interrupts tend to sit on the first.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    feeds = read_arrays(request["feeds"], request["names"])
    runs = {}
    for each in request["engines"]:
        mine = {name: feeds[name] for name in each["inputs"]}
        runs[each["name"]] = LOAD[each["engine"]](Path(each["path"]), mine, threads).run
    return {name: turns.fair(threads) for name, turns in take_turns(runs, request["rounds"]).items()}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(Path(sys.argv[1]).read_text()))))
