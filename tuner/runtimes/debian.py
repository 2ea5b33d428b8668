"""Debian's packages of another architecture, unpacked into a folder: without root, nothing is installed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

FETCH_S = 900


class FetchError(RuntimeError):
    """Something could not be fetched; the message says what and why in one line."""


def unpack(root: Path, architecture: str, packages: Sequence[str], release: str = "") -> None:
    """Fetch ``packages`` (by name, without what they depend on) and unpack them into ``root``.

    ``architecture`` is Debian's word for it, ``release`` the name of an older Debian than that of this
    machine. Raises FetchError.
    """
    for each in ("apt/lists/partial", "apt/archives/partial", "debs"):
        (root / each).mkdir(parents=True, exist_ok=True)
    status = root / "apt" / "status"
    status.write_text("")
    apt = ["apt-get", "-qq", "-o", f"APT::Architecture={architecture}"]
    apt += ["-o", f"APT::Architectures={architecture}", "-o", f"Dir::State={root / 'apt'}"]
    apt += ["-o", f"Dir::State::status={status}", "-o", f"Dir::Cache={root / 'apt'}"]
    if release:
        sources = root / "apt" / "sources.list"
        sources.write_text(f"deb {_site(root)} {release} main\n")
        apt += ["-o", f"Dir::Etc::sourcelist={sources}", "-o", "Dir::Etc::sourceparts=/dev/null"]
    failed: FetchError | None = None
    try:
        run([*apt, "update"], root)
    except FetchError as error:
        # One index that a mirror is just renewing does not matter while the packages are in another.
        failed = error
    try:
        run([*apt, "download", *packages], root / "debs")
    except FetchError as error:
        raise failed or error from None
    for package in sorted((root / "debs").glob("*.deb")):
        run(["dpkg", "-x", str(package), str(root)], root)
    for link in root.rglob("*"):
        # A link to /lib means the lib of the root, as an emulator follows it, not this machine's.
        if link.is_symlink() and link.readlink().is_absolute():
            inside = root / link.readlink().relative_to("/")
            link.unlink()
            link.symlink_to(inside)


def _site(folder: Path) -> str:
    """Where this machine gets Debian's packages from; raises FetchError where it does not."""
    sites = run(["apt-get", "indextargets", "--format", "$(SITE)"], folder).split()
    for site in sites:
        if site.rstrip("/").endswith("/debian"):
            return site
    raise FetchError("apt-get has no source of Debian's packages on this machine")


def run(command: Sequence[str], folder: Path) -> str:
    """What a command that fetches or unpacks prints; raises FetchError with the end of what it said."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=FETCH_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FetchError(f"{command[0]}: {error}") from None
    if done.returncode:
        said = re.sub(r"\s+", " ", done.stderr).strip()[-300:]
        raise FetchError(f"{' '.join(command[:3])} failed: {said}")
    return done.stdout
