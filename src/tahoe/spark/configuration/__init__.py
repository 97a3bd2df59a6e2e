"""What users set: options of readers and writers, settings of a session. Pure."""
