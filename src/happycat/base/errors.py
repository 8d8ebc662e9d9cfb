"""Exceptions: `HappycatError` and its kinds, for what a person can cause and put right."""

LONGEST = 1000  # characters of a message; what a file holds, and a message quotes, may be of any length
DEAD_WORKER = "DataLoader worker (pid"  # how torch says that a process that reads images was killed


class HappycatError(Exception):
    """Something a person can put right; the message says what, what was found, and what to do.

    The commands print it as one line and exit with code 2. Of a very long message the middle is left out.
    """

    def __str__(self) -> str:
        text = super().__str__()
        return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 + 3 :]}"


class InputError(HappycatError):
    """What was given cannot be used: images, a data set, a split, a value."""


class WeightsError(HappycatError):
    """A backbone or its weights cannot be had, or do not fit."""


class HubError(WeightsError):
    """The hub, where a backbone's weights lie, cannot be reached."""


class StorageError(HappycatError):
    """A file cannot be written, or what is on disk is not what it should be."""


class DamagedError(StorageError):
    """What is in a file is not what was written to it: a checksum does not hold."""


class NoSpaceError(StorageError):
    """The disk is full."""


class InUseError(InputError):
    """Another process changes the same model, run or store at this moment."""
