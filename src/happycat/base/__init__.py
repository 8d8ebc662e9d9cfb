"""What every layer stands on: errors, configs, atomic files, seeds, metrics, progress."""
