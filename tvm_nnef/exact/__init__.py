"""Element arithmetic that TVM must not rearrange nor assume to be exact (``docs/exact.md``).

Indices are TVM's expressions. Arithmetic on elements is in opaque calls whenever TVM simplifies.
Strategies read the calls as the arithmetic, and one expansion replaces them after TVM's last
simplification.
"""
