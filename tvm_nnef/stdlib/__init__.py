"""The standard library, written in SkriptND; no Python here."""
