"""The schema language, values as texts, and expressions over rows."""
