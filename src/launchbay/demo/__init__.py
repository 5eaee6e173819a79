"""`launchbay demo`: start a server with a sample application, in one command."""
