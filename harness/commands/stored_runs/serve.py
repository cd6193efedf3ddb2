"""`harrow serve`: shows the store in a web browser."""

from __future__ import annotations

from pathlib import Path

import click

from harness.commands.shared import store_option
from harness.store.run_directories import StoreError

DEFAULT_PORT = 8010


@click.command("serve", short_help="Show the store in a web browser.")
@click.option(
    "--port",
    default=DEFAULT_PORT,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port on the loopback address; 0 takes a free one.",
)
@store_option
def serve(port: int, store: Path) -> None:
    """Serve the store on the loopback address, read-only: runs, two runs compared, suites over nights, trends,
    and what runs now.

    Only this machine can ask. From another one: ssh -L 8010:127.0.0.1:8010 MACHINE. Ctrl-C ends it.

    \b
    harrow serve
    harrow serve --port 0 --store other-store

    Exit status: 0 ended by Ctrl-C, 2 usage.
    """  # noqa: D301 (\b is for click)
    from harness.store.browser.server import StoreServer

    if not store.is_dir():
        raise StoreError(f"expected a store, found no directory {store}; name the one that has the runs with --store")
    try:
        server = StoreServer(store, port)
    except OSError as error:
        raise click.UsageError(
            f"expected the port {port} to be free, found: {error.strerror}; choose another with --port"
        ) from error
    try:
        with server:
            click.echo(f"{server.url} shows {store}; Ctrl-C ends it")
            server.serve_forever()
    except KeyboardInterrupt:
        click.echo("ended", err=True)
