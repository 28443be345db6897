"""`memtape validate`: walk a history forward and judge whether memory would have helped its sizes."""
