"""What the plan of a statement says, as records of Python."""
