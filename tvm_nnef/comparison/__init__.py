"""Comparison of two routes, tensor by tensor.

Input: a Graph and inputs. Output: a Report.
"""

from tvm_nnef.comparison.program import program_rows
from tvm_nnef.comparison.report import Report, Row
from tvm_nnef.comparison.routes import RECORDED, ROUTES, Setting, outputs
from tvm_nnef.comparison.source import source_locations, source_model
from tvm_nnef.comparison.walk import compare_routes

__all__ = [
    "RECORDED",
    "ROUTES",
    "Report",
    "Row",
    "Setting",
    "compare_routes",
    "outputs",
    "program_rows",
    "source_model",
    "source_locations",
]
