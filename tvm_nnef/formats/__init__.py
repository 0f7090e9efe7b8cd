"""The formats of models: their detection, and the conversion of each into a model."""
