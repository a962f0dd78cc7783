"""What a judge is asked, how it is asked, and what its answers mean; verdicts are kept so that none is paid twice.

Requests (`requests`) are made from overlapping or matched pairs of segments; a judge (`judge`) turns each into
questions, one call each; answers are stored as they came, and `parsing` reads the verdict in them.
"""
