"""ely-eye: memory queries whose gold is a region of a source, held against what a system returned."""
