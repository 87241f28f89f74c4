"""Contexts: the clusters that a user works with, by name.

They are in `$XDG_CONFIG_HOME/tenantcron/contexts.toml`, which only its owner can read:

    current = "staging"

    [contexts.staging]
    server = "https://cron.staging.internal"
    token_env = "STAGING_TOKEN"

    [contexts.prod]
    server = "https://cron.internal"
    token = "tc_…"

    [contexts.local]
    database_url_env = "LOCAL_DATABASE_URL"

A command on the wrong cluster is the worst mistake, so what is nearest to the command wins:

1. `--server` and `--context`
2. `TENANTCRON_SERVER` and `TENANTCRON_CONTEXT`
3. the database of the settings: `TENANTCRON_DATABASE_URL`, or `database_url` in tenantcron.toml
4. the current context of the file
5. the embedded database, unless `TENANTCRON_TOKEN` is set: a token is for a server

The context `embedded` always exists. It is the embedded database of the working directory, whatever
the settings say. `tenantcron dev` uses it, so it never touches another cluster.

On a terminal, a command that uses a context names it on stderr. The current context was chosen in
another terminal, maybe yesterday. So a command that uses it and removes something names it always.
"""
