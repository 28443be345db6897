"""Evidence: conformance to golden vectors, and the evaluation of retrieval."""
