"""Clusters that commands work on: a database, or a server.

A command asks its `ClusterAccess` for a response and prints it. Responses have the shapes of
`tenantcron.service.responses.shapes`, which the API and `--format json` share. So the output is the
same in both cases, and a command does not know which one it has.
"""
