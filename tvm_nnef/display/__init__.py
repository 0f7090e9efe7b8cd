"""A Graph for people to look at: a table for terminals, a page for browsers, a picture."""
