"""Element arithmetic that TVM must neither rearrange nor take for exact (``docs/exact.md``).

Indices are TVM's expressions. Arithmetic on elements is in calls whenever TVM simplifies.
Strategies read the calls as what they mean, and one expansion writes them after TVM's last
simplification.
"""
