"""``skop describe``."""
import click
__all__ = ["describe"]
@click.command()
def describe() -> None:
    """Say what data are."""
