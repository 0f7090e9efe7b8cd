"""Models on disk: containers, tensor files, ``model.json`` and images; input is never trusted.

Import from the modules: ``container``, ``metadata`` and ``names`` work without NumPy.
"""
