"""Schedules found by measuring, stored in a folder that ``build`` reads; start at
``session.py``.
"""
