"""Write ``docs/operators.md``, the page of the standard operators, from their texts.

Exit status 1 with ``--check`` where the page is not what would be written.
"""

from __future__ import annotations

import sys

from generated_page import DOCS, write

from tvm_nnef.stdlib.catalogue import page, standard_entries

if __name__ == "__main__":
    sys.exit(write(DOCS / "operators.md", lambda: page(standard_entries()), __doc__))
