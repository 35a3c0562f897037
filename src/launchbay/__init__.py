"""Describe experiments once, run them anywhere.

```python
import launchbay as bay

runs = bay.run("python train.py --lr <lr>", params={"lr": [0.1, 0.01]})
runs.wait().results()
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launchbay.api import Runs, open_lab, run

__version__ = "0.1.0.dev0"
__all__ = ["Runs", "__version__", "open_lab", "run"]


def __getattr__(name: str) -> object:
    """Load the Python interface when it is first used: `bay` itself does without."""
    if name not in __all__:
        raise AttributeError(f"module `launchbay` has no attribute `{name}`")
    from launchbay import api  # noqa: PLC0415

    return getattr(api, name)
