"""How far a stream has read, and which changes of the schema it passes."""
