"""One module a revision. A published revision is never changed, and uses nothing of the package."""
