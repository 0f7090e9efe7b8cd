"""Support for every package: requirements, progress, folders, machines. Independent of NNEF."""
