"""All tables below a folder, or in a catalog."""
