"""The pairwise tournament: who is compared with whom, by a judge that sees both orders, and the standing."""
