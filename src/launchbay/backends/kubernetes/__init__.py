"""A namespace of a Kubernetes, reached by the user's own kubectl."""
