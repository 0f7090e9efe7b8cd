"""NNEF 1.0.4 models: a folder or archive with ``graph.nnef`` and its ``.dat`` files.

========================  =========================================================================
module                    content
========================  =========================================================================
``parser``, ``tree``      text to a syntax tree (``grammar.lark``, ``nodes``)
``fragments``             declarations, those of the standard operations in ``standard.nnef``
``types``, ``typing``     types of expressions
``checking``              what the specification demands of a document (with ``invocations``)
``expansion``             the flat graph: fragments expanded, attributes computed (``constants``)
``inputs``                external tensors, with what a user specifies for them
``calls``                 an operation of the flat graph
``operators``             a function for each standard operation
``vendors``, ``tract``    extensions of vendors, as a ``dialect`` of the specification
``variables``             tensor files
``quantization``          ``graph.quant``
``conversion``, ``main``  operations to steps, steps to a model
``locations``             the line of each operation, for ``compare``
========================  =========================================================================
"""

from tvm_nnef.converters.nnef1.main import convert

__all__ = ["convert"]
