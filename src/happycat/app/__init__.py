"""The local web app: look at what was discovered and correct it with a few keys."""
