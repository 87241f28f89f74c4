"""A context: a server or a database, with references to its secrets."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from tenantcron.core.errors import UsageError
from tenantcron.core.names import NAME_EXPECTED, is_name
from tenantcron.core.words import unreadable

TOKEN_VARIABLE: Final = "TENANTCRON_TOKEN"  # noqa: S105 -- the name of a variable
# This name chooses the embedded database of the working directory.
EMBEDDED: Final = "embedded"
_TOKENS: Final = ("token_env", "token_file", "token")
_DATABASES: Final = ("database_url_env", "database_url_file")


@dataclass(frozen=True, slots=True)
class Context:
    """A named cluster. Exactly one of `server` and a reference to a database URL is set."""

    name: str
    server: str | None = None
    # The variable or file that has the token, or the token itself.
    token_env: str | None = None
    token_file: str | None = None
    token: str | None = None
    # The variable or file that has the URL of the database.
    database_url_env: str | None = None
    database_url_file: str | None = None

    @property
    def place(self) -> str:
        """What it refers to, for people; never a secret."""
        if self.server is not None:
            return self.server
        if self.database_url_env is not None:
            return f"the database in {self.database_url_env}"
        return f"the database in {self.database_url_file}"

    @property
    def token_source(self) -> str:
        """Where its token comes from, for people; never the token."""
        if self.token is not None:
            return f"context {self.name}"
        return self.token_env or self.token_file or TOKEN_VARIABLE

    def members(self) -> dict[str, str]:
        """Return its values as they are in the file."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {key: value for key, value in values.items() if key != "name" and value is not None}

    def token_in(self, environment: Mapping[str, str]) -> str | None:
        """Return the token; None if there is none.

        Without its own reference, the context uses TENANTCRON_TOKEN.
        """
        if self.token is not None:
            return self.token
        if self.token_file is not None:
            return self._content(self.token_file)
        return environment.get(self.token_env or TOKEN_VARIABLE)

    def database_url_in(self, environment: Mapping[str, str]) -> str:
        """Return the URL of the database."""
        if self.database_url_file is not None:
            return self._content(self.database_url_file)
        variable = self.database_url_env or ""
        found = environment.get(variable)
        if not found:
            raise UsageError(f"context {self.name}: the variable {variable} is not set: set it")
        return found

    def _content(self, file: str) -> str:
        try:
            return Path(file).expanduser().read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"context {self.name}: {file}: {unreadable(error)}") from error


def read_context(name: str, members: Mapping[str, object]) -> Context:
    """Check a context; the error has all its problems."""
    problems = [*_problems(name, members)]
    if problems:
        raise UsageError("\n".join([f"the context {name!a} is not valid", *problems]))
    return Context(name, **{key: str(value) for key, value in members.items()})


def _problems(name: str, members: Mapping[str, object]) -> Iterator[str]:
    known = [field.name for field in fields(Context) if field.name != "name"]
    if not is_name(name):
        yield f"  {name!a} is not {NAME_EXPECTED}"
    if name == EMBEDDED:
        yield f"  {name} is the embedded database of the working directory: use another name"
    for key, value in members.items():
        if key not in known:
            yield f"  there is no key {key!a}: use {', '.join(known)}"
        elif not isinstance(value, str) or not value.strip() or not value.isprintable():
            yield f"  {key} is not a text of printable characters"
    databases = [key for key in _DATABASES if key in members]
    if len(databases) + ("server" in members) != 1:
        yield "  give one of a server, a variable and a file with the URL of a database"
    tokens = [key for key in _TOKENS if key in members]
    if len(tokens) > 1:
        yield f"  give one token, not {' and '.join(tokens)}"
    if tokens and databases:
        yield "  a database needs no token"
