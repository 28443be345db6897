"""`python -m memtape` is the command `memtape`."""

from memtape.surfaces.cli.main import main

if __name__ == "__main__":
    main()
