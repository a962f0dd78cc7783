"""How input files are read, whatever the benchmark: lines and documents, JSON held against a type, and `problems`."""
