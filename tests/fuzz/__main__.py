"""`python -m tests.fuzz --cases 100000`: random cases over all methods on all cores; prints failures and a count."""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from tests.fuzz.running import KINDS, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--only", choices=list(KINDS), help="cases of this kind, one for each seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    last = arguments.first + arguments.cases
    pieces = [range(start, min(start + 200, last)) for start in range(arguments.first, last, 200)]
    start, done, failed = time.monotonic(), 0, 0
    with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:
        for piece, failures in zip(pieces, pool.map(partial(run, only=arguments.only), pieces), strict=True):
            done, failed = done + len(piece), failed + len(failures)
            for failure in failures:
                print(failure, flush=True)
            if sys.stderr.isatty() or done % 10_000 < 200:
                seconds = time.monotonic() - start
                print(f"{done} cases, {failed} failures, {seconds:.0f} s", file=sys.stderr, flush=True)
    print(f"{done} cases, {failed} failures, {time.monotonic() - start:.0f} s")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
