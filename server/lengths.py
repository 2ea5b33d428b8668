"""What words may be that the database keeps: by themselves, as clients need them without it."""

from __future__ import annotations

NAME = 200
"""What a job is called, and who submitted it."""
LABEL = 64
_ODD = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""Characters that control terminals and pages, or turn round what is beside them."""
PLAIN = f"^[^{_ODD}]*$"
SAID = f"^[^{_ODD}]*[^\\s{_ODD}][^{_ODD}]*$"
"""Such without them; and such in which there is something to be seen."""
FILE_NAME = f"^[^/\\\\{_ODD}]*[^/\\\\.\\s{_ODD}][^/\\\\{_ODD}]*$"
"""Neither a place elsewhere nor dots alone."""
