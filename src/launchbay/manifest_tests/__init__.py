"""`launchbay test`: manifests run in this process, on dry-run machines and a virtual clock, against expectations."""
