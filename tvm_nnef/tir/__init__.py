"""Expressions of TIR that lowering and schedules share: search, construction, replacement."""
