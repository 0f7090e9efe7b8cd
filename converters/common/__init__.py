"""Parts of all converters: from operations of a foreign model to a SkriptND model.

No foreign library is imported here; values are NumPy arrays, dtypes are NumPy's names of them
(``bfloat16`` is that of ``ml_dtypes``). A format is an entry of ``formats.FORMATS`` and a package
with ``convert(source, *, input_shapes, dtypes, …) -> Model``, which

1. makes a :class:`~.tensors.Tensor` for each input (``inputs.input_tensors``; ``source`` is its
   name in the foreign model) and for each constant (``value``);
2. converts one operation after the other with a :class:`~.builder.Builder`, which collects steps;
   an operation that cannot be converted raises :class:`~.unconvertible.Unconvertible`, also from
   arithmetic on dynamic dimensions, and is reported with its position in the source;
3. calls ``builder.outputs`` and ``steps.needed`` for a :class:`~.tensors.ConvertedGraph`;
4. hands that to :func:`~.assembly.assemble_graph`, which outlines repeated blocks, gives names,
   writes the text, and returns a :class:`tvm_nnef.model.model.Model`.

==========================  ========================================================================
module                      content
==========================  ========================================================================
``formats``, ``detection``  the registry of formats; a model opened, its format detected
``execution``               what a format offers to ``compare``: its own library as a judge
``tensors``, ``types``      tensors and steps; dtypes, shapes, broadcasting
``inputs``, ``bounds``      inputs with the shapes, dtypes and bounds that a user gives
``builder``                 the interface of operator functions: a tensor for each operation
``symbolic``                dynamic dimensions with Python's arithmetic
``data_dependent``          data-dependent dimensions
``steps``                   steps as a graph: what is read, what is needed
``library``                 operators that SkriptND lacks: ``extra.sknd``, modules of a format
``outlining``               repeated blocks as operators (``repeats``, ``boundaries``, ``blocks``,
                            ``dimensions``, ``common_names``)
``names``, ``naming``       identifiers for names of the source
``emission``                steps to a syntax tree
``assembly``                all of the above for one graph
==========================  ========================================================================
"""
