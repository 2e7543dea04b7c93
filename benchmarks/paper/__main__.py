"""Repeat the experiments of the ACQH paper, and write one HTML page.

    python -m benchmarks.paper --data-dir DIR [--quick] [--out paper-results]

Runs Tables 1 to 5 and all figures on the data sets that are there (``acqh datasets`` says where to
get them). Without NUS-WIDE, synthetic data of its shape replace it, and the page says so. Every
result is stored at once in ``results.jsonl``: the same command continues an interrupted run.
``--quick`` needs only Wiki and takes about a minute of one core.
"""

import argparse
import json
import sys
import time
import warnings
from pathlib import Path

from acqh.io.write import replace_file
from benchmarks.paper.experiments import QUICK, Plan, Runner, key_of, list_jobs, open_sources
from benchmarks.paper.page import render


def read_results(path):
    """Return stored results by key; skip a line that a kill cut short."""
    stored = {}
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            stored[record["key"]] = record
    return stored


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.paper",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data-dir", help="folder of the data sets; default: ACQH_DATA")
    parser.add_argument(
        "--out", type=Path, default=Path("paper-results"), help="default: paper-results"
    )
    parser.add_argument("--quick", action="store_true", help="fewer lengths and splits, Wiki only")
    options = parser.parse_args(arguments)
    plan = QUICK if options.quick else Plan()
    sources = open_sources(options.data_dir, plan)
    if options.quick:
        sources.pop("mirflickr25k", None)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "results.jsonl"
    stored, runner = read_results(path), Runner(sources)
    jobs = list_jobs(sources, plan)
    left = [job for job in jobs if key_of(job, sources) not in stored]
    print(f"{len(jobs)} experiments, {len(left)} to run", file=sys.stderr)
    with path.open("a", encoding="utf-8") as file:
        if stored:
            file.write("\n")  # after a line that was cut short
        try:
            for number, job in enumerate(left, start=1):
                started = time.perf_counter()
                record = {"key": key_of(job, sources), "job": job, "result": None}
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        record["result"] = runner.run(job)
                except Exception as error:  # a method may raise anything
                    record["reason"] = f"{type(error).__name__}: {error}"
                stored[record["key"]] = record
                file.write(json.dumps(record) + "\n")
                file.flush()
                seconds = time.perf_counter() - started
                print(f"{number}/{len(left)} {job} {seconds:.1f} s", file=sys.stderr)
        except KeyboardInterrupt:
            print("interrupted; the same command continues", file=sys.stderr)
    records = [stored[key] for job in jobs if (key := key_of(job, sources)) in stored]
    results = [(record["job"], record["result"]) for record in records if record["result"]]
    failed = [(r["job"], r["reason"]) for r in records if not r["result"]]
    page = options.out / "index.html"
    n_left = len(jobs) - len(records)
    replace_file(page, render(results, sources, failed, n_left, options.quick).encode())
    print(f"Wrote {page}: {len(results)} results, {len(failed)} failed, {n_left} left")
    return 1 if failed or n_left else 0


if __name__ == "__main__":
    sys.exit(main())
