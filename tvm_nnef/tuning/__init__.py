"""Schedules found by measuring, kept in a folder that ``build`` reads; start at ``session.py``."""
