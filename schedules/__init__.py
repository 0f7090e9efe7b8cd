"""Schedules: Relax modules in, scheduled Relax modules out; knows of TVM only."""
