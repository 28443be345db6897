"""`memtape trial`: the same decision maker on the same bars without memory, with memory, and with a placebo."""
