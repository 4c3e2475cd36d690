"""`python -m jumok` is `jumok`."""

from jumok.cli.main import main

if __name__ == "__main__":
    main()
