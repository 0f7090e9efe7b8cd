"""Which operation of a model takes how long: followed through the passes, and timed in a run."""
