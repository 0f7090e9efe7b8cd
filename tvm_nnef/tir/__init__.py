"""Expressions of TIR that lowering and schedules share."""
