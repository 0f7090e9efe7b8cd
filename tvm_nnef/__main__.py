"""``python -m tvm_nnef``"""

import sys

from tvm_nnef.cli import main

sys.exit(main())
