"""An emulated Python with ncnn's wheel of one version, and with nothing else.

Old versions have wheels for old Pythons alone; Debian 11 has one.
"""

from __future__ import annotations

from pathlib import Path

from tuner.runtimes import debian
from tuner.runtimes.guest import DEBIAN, Guest, GuestError, for_python, unpack_wheels

NEWEST = "newest"
NEAREST = {"rpi4-sim": "1.0.20220216", "rpi5-sim": "1.0.20240102"}
"""The version of each board that came out nearest to the day of its published figures."""
_DEBIAN_11 = (
    *("libc6", "libstdc++6", "libgcc-s1", "zlib1g", "python3.9-minimal", "libpython3.9-minimal"),
    *("libpython3.9-stdlib", "libexpat1", "libffi7", "libssl1.1", "libbz2-1.0", "liblzma5", "libuuid1"),
    *("libsqlite3-0", "libcrypt1"),
)
_PYTHONS = (("3.11", "", DEBIAN), ("3.9", "bullseye", _DEBIAN_11))
"""Each with the release of Debian that has it, where that is not this machine's, and its packages."""
_DONE = "fetched"


def guest(folder: Path, version: str, board: str) -> Guest:
    """ncnn ``version`` (or NEWEST) for ``board``, fetched into ``folder`` where it is not there yet.

    Raises GuestError.
    """
    root = folder / f"ncnn-{version}"
    found = Guest(root, folder, board)
    if (root / _DONE).exists():
        return found
    (root / "site").mkdir(parents=True, exist_ok=True)
    wheel = "ncnn" if version == NEWEST else f"ncnn=={version}"
    problem: debian.FetchError | None = None
    for python, release, packages in _PYTHONS:
        try:
            unpack_wheels(root, "site", (wheel,), for_python(python))
        except debian.FetchError as error:
            problem = problem or error
            continue
        try:
            debian.unpack(root, "arm64", packages, release)
        except debian.FetchError as error:
            raise GuestError(str(error)) from None
        (root / _DONE).write_text(python)
        return found
    raise GuestError(f"no wheel of ncnn {version} for a Python that can be fetched: {problem}")
