"""What methods are made of: batches, heads, losses, class memory, clustering, the training of epochs."""
