"""Models with weights of few bits: a model in, a model and a report of errors out."""
