"""Expressions of TIR that lowering and schedules share: found, made, replaced."""
