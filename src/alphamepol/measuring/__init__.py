"""The measurements of policies in a class of environments: entropies, visited places, and distances of members."""
