"""What every package may use: requirements, progress, folders, machines. Nothing of NNEF."""
