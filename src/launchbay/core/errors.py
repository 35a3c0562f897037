"""The errors that launchbay raises on purpose.

```text
BayError                 something failed; the message says what, the hint what to do
├── ConfigError          a file says something that cannot be
├── BadRequest           a command names something that does not exist, or more than one
│   └── Overtaken        another bay, at the same time, did it first
├── Unsupported          the target cannot do what a job asks
├── MissingExtra         an optional package is not installed
├── StoreError           this side cannot write what it must remember
├── DataError            object storage, or a file on its way there or back, said no
│   └── ChangedError     an object or a file is another one by now
└── TargetError          the target said no, or nothing
    ├── Unreachable      trying later may help
    ├── Unauthorized     log in, then try again
    └── Rejected         trying again will not help
```
"""

from __future__ import annotations


class BayError(Exception):
    """Something failed; `str()` is one line, `hint` the next thing to do."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class ConfigError(BayError):
    """A file says something that cannot be; the message begins with file and key."""

    exit_code = 2


class BadRequest(BayError):
    """A command names something that does not exist, or more than one where one is meant."""

    exit_code = 2


class Overtaken(BadRequest):
    """Another bay, at the same time, did it first."""


class Unsupported(BayError):
    """The target cannot do what a job asks."""

    exit_code = 2


class MissingExtra(BayError):
    """An optional package is not installed."""


class StoreError(BayError):
    """This side cannot write or read what it must remember."""


class DataError(BayError):
    """Object storage, or a file on its way there or back, said no."""


class ChangedError(DataError):
    """An object or a file is another one by now; what was read of it is no whole."""


class TargetError(BayError):
    """The target said no, or nothing."""


class Unreachable(TargetError):
    """The target did not answer; what was sent may or may not have arrived."""


class Unauthorized(TargetError):
    """The target wants a login first; nothing was done."""


class Rejected(TargetError):
    """The target understood and refused; trying again will not help."""
