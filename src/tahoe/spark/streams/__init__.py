"""Tables as source and sink of Structured Streaming."""
