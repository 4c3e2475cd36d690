"""A worker that ends at once: what `Crew` sees when a process of its own is killed."""

import os

if __name__ == "__main__":
    os._exit(7)
