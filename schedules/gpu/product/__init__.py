"""Products on GPUs: tiles in registers and shared memory, with and without tensor cores."""
