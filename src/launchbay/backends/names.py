"""What runs are called where they go.

```text
queue/<plan>/<run>   in a queue, or in whichever allocation of a plan begins it
serial/<plan>/<run>  in a queue where runs go one after another
1234_7               task 7 of array 1234 of Slurm
1234                 a job of its own
…-2                  its second attempt
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launchbay.core.run import Handle

QUEUE = "queue"
SERIAL = "serial"


def queue_id(queue: str, plan_id: str, run_id: str, attempt: int) -> str:
    """What an attempt of a run is called in a queue.

    >>> queue_id(QUEUE, "p1", "a-x1y2z", 2)
    'queue/p1/a-x1y2z-2'
    """
    return f"{queue}/{plan_id}/{run_id}" + _suffix(attempt)


def job_id(number: str, index: int, count: int, attempt: int) -> str:
    """What an attempt of a run is called that is one of so many tasks of a job.

    >>> job_id("1234", 7, 10, 1), job_id("1234", 0, 1, 2)
    ('1234_7', '1234-2')
    """
    return (f"{number}_{index}" if count > 1 else number) + _suffix(attempt)


def attempt_of(handle: Handle) -> int:
    """The attempt that a handle is of."""
    tail = handle.native_id.rpartition("/")[2].removeprefix(handle.run_id)
    return int(tail.rpartition("-")[2]) if "-" in tail else 1


def plan_of(handle: Handle) -> str:
    """The plan of a run that is in a queue."""
    return handle.native_id.split("/")[1]


def is_queued(handle: Handle, queue: str = QUEUE) -> bool:
    """Whether it is in a queue of that name, and no job of its own."""
    return handle.native_id.startswith(f"{queue}/")


def job_of(handle: Handle) -> str:
    """The number of a job of its own, or of its task; empty for a run that is in a queue."""
    return "" if "/" in handle.native_id else handle.native_id.partition("-")[0]


def _suffix(attempt: int) -> str:
    return f"-{attempt}" if attempt > 1 else ""
