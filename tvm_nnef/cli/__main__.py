"""``python -m tvm_nnef.cli``"""

import sys

from tvm_nnef.cli import main

sys.exit(main())
