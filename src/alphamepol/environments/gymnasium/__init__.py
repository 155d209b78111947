"""Classes of Gymnasium environments, and members as Gymnasium environments."""
