"""The reports of the benches that figures are taken from: run where they are missing, once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

GUEST = "guest"
"""The folder, in that of the reports, of the emulated Python that has LiteRT."""


class Missing(Exception):
    """There is no figure; the message says why in one line."""


@dataclass(frozen=True)
class Bench:
    """A bench's command without its sample; its report is ``name``.json.

    ``sample`` layers are drawn (nothing is where it is empty), ``quick`` of them in a smoke test, where 0
    leaves it out: it takes too long, or fetches something.
    """

    name: str
    words: str
    sample: str
    quick: int = 0

    @property
    def command(self) -> str:
        """What a person types."""
        sample = f" --sample {self.sample}" if self.sample else ""
        return f"python -m {self.words}{sample} --json {self.name}.json"


@dataclass
class Reports:
    """Reports in ``folder``; with ``quick`` small ones, without ``run`` those that are there already."""

    folder: Path
    quick: bool = False
    run: bool = True
    deadline_s: float = 6 * 3600
    _known: dict[str, dict[str, Any] | str] = field(default_factory=dict)
    _note: str = ""

    def of(self, bench: Bench) -> dict[str, Any]:
        """The bench's report; raises Missing in one line where it has none."""
        if bench.name not in self._known:
            try:
                self._known[bench.name] = self._made(bench)
            except Missing as reason:
                self._known[bench.name] = str(reason)
        found = self._known[bench.name]
        if isinstance(found, str):
            raise Missing(found)
        rows = len(found.get("rows", ()))
        if not rows:
            raise Missing(f"{bench.name}.json has no layers yet")
        self._note = f"{rows} layers"
        return found

    def note(self) -> str:
        """What there is to say of the last figure, said once."""
        said, self._note = self._note, ""
        return said

    def say(self, note: str) -> None:
        """Set what ``note`` will say."""
        self._note = note

    def _made(self, bench: Bench) -> dict[str, Any]:
        if self.quick and not bench.quick:
            raise Missing("not in the quick sample")
        path = self.folder / f"{bench.name}.json"
        if self.run:
            self._run(bench, path)
        elif not path.exists():
            raise Missing("not measured yet")
        report: dict[str, Any] = json.loads(path.read_text())
        return report

    def _run(self, bench: Bench, path: Path) -> None:
        """Let the bench make its report, or go on with it."""
        words = bench.words.split()
        if bench.sample:
            words += ["--sample", str(bench.quick) if self.quick else bench.sample]
        words = [str(self._guest()) if word == GUEST else word for word in words]
        command = [sys.executable, "-m", *words, "--json", str(path)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=self.deadline_s, check=False, env=os.environ
            )
        except subprocess.TimeoutExpired:
            raise Missing(
                f"not done within {self.deadline_s / 3600:.0f} hours; call again to go on"
            ) from None
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip() or f"code {done.returncode}").splitlines()
            raise Missing(f"failed: {said[-1][:200]}")

    def _guest(self) -> Path:
        """The emulated Python, fetched at first use."""
        from tuner.runtimes.guest import Guest, GuestError, fetch

        root = self.folder / GUEST
        if not Guest(root, self.folder).there:
            try:
                fetch(root.resolve())
            except GuestError as error:
                raise Missing(f"LiteRT cannot be fetched: {str(error).splitlines()[-1][:160]}") from None
        return root
