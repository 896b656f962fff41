"""What Alembic runs to apply migrations: on the connection, and within the transaction, that it is given."""

from __future__ import annotations

from alembic import context

from codesign_opt.db.schema import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    version_table=VERSION_TABLE,
    render_as_batch=True,
)
context.run_migrations()
