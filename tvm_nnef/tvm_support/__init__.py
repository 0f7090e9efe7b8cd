"""Everything that changes from one TVM release to the next: API, code generation, threads."""
