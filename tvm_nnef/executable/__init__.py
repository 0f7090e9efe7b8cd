"""Compiled models: run, exported, loaded, with their state. No compiler is needed here."""
