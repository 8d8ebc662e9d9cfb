"""The paper's experiments: what is run, and the paper's numbers beside ours."""
