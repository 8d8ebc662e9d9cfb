"""From pixels to tokens to features, frozen: weights, views, trunk, tail, and what is kept of them on disk."""
