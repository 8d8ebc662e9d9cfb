"""Where pictures come from: decoding, collecting files, corruptions; `datasets` has one file per data set."""
