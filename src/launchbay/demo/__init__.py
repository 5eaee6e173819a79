"""`launchbay demo`: the product at work on a sample application, from nothing, in one command."""
