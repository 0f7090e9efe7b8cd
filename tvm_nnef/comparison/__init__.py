"""Two routes held against each other, tensor by tensor: a Graph and inputs in, a Report out."""

from tvm_nnef.comparison.report import Report, Row
from tvm_nnef.comparison.routes import ROUTES, Setting
from tvm_nnef.comparison.walk import compare_routes

__all__ = ["ROUTES", "Report", "Row", "Setting", "compare_routes"]
