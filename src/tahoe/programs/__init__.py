"""Programs that know nothing of tahoe: `tahoe run`, and the names of the reference's Python package."""
