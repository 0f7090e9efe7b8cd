"""Write ``docs/operators.md``, the page of the standard operators, from their texts.

Exit status 1 with ``--check`` where the page is not what would be written.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tvm_nnef.catalogue import page, standard_entries

PAGE = Path(__file__).resolve().parents[1] / "docs" / "operators.md"


def main() -> int:
    """Write the page, or compare it."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--check", action="store_true", help="write nothing")
    options = arguments.parse_args()
    text = page(standard_entries())
    if options.check:
        return int(not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
