"""What the rows are: the schema of every table, and how tables and files are written. Imports no other room."""
