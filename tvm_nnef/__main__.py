"""``python -m tvm_nnef``"""  # PYTHON_ARGCOMPLETE_OK

import sys

from tvm_nnef.cli import main

sys.exit(main())
