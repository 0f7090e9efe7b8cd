"""A language server for SkriptND (``tvm-nnef lsp``), on the checker that all commands use.

``server`` speaks the Language Server Protocol through pygls; everything else takes texts and
offsets and returns plain values, and needs no server.
"""
