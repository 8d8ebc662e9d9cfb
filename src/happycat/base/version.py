"""The version number; it stands nowhere else."""

__version__ = "0.1.0"
