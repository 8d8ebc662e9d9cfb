"""happycat learns the classes you have labelled, then keeps discovering new ones in unlabelled images."""

__version__ = "0.1.0"
