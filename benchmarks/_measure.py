"""What the benchmarks share: lines of results, clocks, memory, and where pictures lie."""

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# Folders of photographs, each with a manifest.csv of the columns image, text and labels. The
# project's may not be published: 10,000 of COCO train2017 with a caption, and 4,000 of Flickr with
# tags. Name your own with ACQH_COCO and ACQH_PHOTOS. For public data, use benchmarks.quality.coco.
SHARED = Path(__file__).resolve().parents[2] / "shared"
PHOTOS = Path(os.environ.get("ACQH_PHOTOS", SHARED / "photos"))
COCO = Path(os.environ.get("ACQH_COCO", SHARED / "coco"))


def emit(figures: Mapping[str, Any]) -> None:
    """Print a line of results as JSON."""
    print(json.dumps(figures), flush=True)


def timed(job: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds that a job takes, and what it gives."""
    started = time.perf_counter()
    result = job()
    return time.perf_counter() - started, result


def seconds(job: Callable[[], Any], n_times: int = 1) -> float:
    """Return the fewest seconds that a job takes."""
    return min(timed(job)[0] for _ in range(n_times))


def take_turns(jobs: Mapping[str, Callable[[], Any]], n_rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each job in each round; jobs take turns to share noise."""
    rounds = [{name: seconds(job) for name, job in jobs.items()} for _ in range(n_rounds)]
    return {name: [times[name] for times in rounds] for name in jobs}


def resident(field: str = "VmRSS") -> int:
    """Return bytes in memory: now (VmRSS), at most (VmHWM), or without mapped files (RssAnon)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"{field} is not in /proc/self/status: this benchmark needs Linux")


def reset_peak() -> None:
    """Let VmHWM start again."""
    Path("/proc/self/clear_refs").write_text("5")


def hide_name(text: str, name: str) -> str:
    """Return a sentence without the words of a name, also in the plural."""
    words = "|".join(re.escape(word) for word in name.split())
    return " ".join(re.sub(rf"\b({words})(e?s)?\b", " ", text, flags=re.IGNORECASE).split())
