"""What converters of all formats share: from operations of a foreign model to a SkriptND model.

No foreign library is imported here; values are NumPy arrays, dtypes are NumPy's names of them
(``bfloat16`` is that of ``ml_dtypes``). A converter

1. makes a :class:`~.tensors.Tensor` for each input (``source`` is its name in the foreign model)
   and for each constant (``value``);
2. converts one operation after the other with a :class:`~.builder.Builder`, which collects steps;
   what cannot be converted raises :class:`~.unconvertible.Unconvertible`;
3. calls ``builder.outputs`` and ``steps.needed`` for a :class:`~.tensors.ConvertedGraph`;
4. hands that to :func:`~.assembly.assemble_graph`, which outlines repeated blocks, gives names,
   writes the text, and returns a :class:`tvm_nnef.Model`.

========================  ==========================================================================
module                    content
========================  ==========================================================================
``tensors``, ``types``    tensors and steps; dtypes, shapes, broadcasting
``builder``               the interface of operator functions: a tensor for each operation
``symbolic``, ``bounds``    dynamic dimensions with Python's arithmetic, and their largest values
``data_dependent``        dimensions that data decide
``steps``                 steps as a graph: what is read, what is needed
``library``               operators that SkriptND lacks: ``extra.sknd`` and modules of a format
``outlining``             repeated blocks as operators (``repeats``, ``boundaries``, ``blocks``,
                          ``dimensions``, ``common_names``)
``names``, ``naming``     identifiers for names of the source
``emission``              steps to a syntax tree
``assembly``              all of the above for one graph
========================  ==========================================================================
"""
