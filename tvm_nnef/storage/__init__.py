"""Models on disk: containers, tensor files, ``model.json`` and images; nothing read is trusted.

Import from the modules: ``container``, ``metadata`` and ``names`` work without NumPy.
"""
