"""NNEF 1.0.4 models: a folder or archive with ``graph.nnef`` and its ``.dat`` files."""
