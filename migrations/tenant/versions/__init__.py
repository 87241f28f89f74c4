"""One file per migration, never changed once it has shipped."""
