"""The documentation as a site: every link leads somewhere, and nothing is loaded from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_site_is_built_and_each_of_its_links_leads_somewhere(tmp_path: Path) -> None:
    """A link that does not is a warning, which ``strict`` makes an error."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "TILEFLEET_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {page.name: page.read_text() for page in (tmp_path / "site").glob("*.html")}
    assert {"index.html", "tutorial.html", "howto.html", "client.html"} <= set(pages)
    assert "POST /api/v1/jobs" in pages["api-reference.html"]
    loaded = re.compile(r"<(?:script|img|link)\b[^>]*(?:src|href)=\"?(https?://[^\"> ]+)")
    for name, text in pages.items():
        assert loaded.findall(text) == [], name


def test_no_page_is_a_wall_of_text() -> None:
    """Paragraphs and cells that a reader in a second language loses the thread in."""
    for page in (ROOT / "docs/api.md", ROOT / "docs/tutorial.md", ROOT / "docs/howto.md", ROOT / "README.md"):
        prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        for line in prose.splitlines():
            for cell in line.split("|") if line.startswith("|") else [line]:
                assert len(cell) <= 900, f"{page.name}: {cell[:80]}..."
