"""Results to read: tables, the diagnosis of a clip, and its timelines drawn in the terminal."""
