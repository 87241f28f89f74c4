"""A client of yaml-language-server: opens texts as an editor does, over its standard streams."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

Json = dict[str, Any]


class LanguageServer:
    """A running server; texts are opened in a folder, one at a time."""

    def __init__(self, reads: IO[bytes], writes: IO[bytes], folder: Path) -> None:
        self._reads, self._writes, self._folder = reads, writes, folder
        self._last_id = 0
        self._opened = 0

    def start(self) -> None:
        """Exchange capabilities; no schema is fetched from outside."""
        snippets = {"completionItem": {"snippetSupport": True}}
        capabilities = {"textDocument": {"completion": snippets}}
        self.request(
            "initialize",
            {"processId": None, "rootUri": self._folder.as_uri(), "capabilities": capabilities},
        )
        self.notify("initialized", {})
        settings = {"validate": True, "completion": True, "hover": True}
        offline = {"schemaStore": {"enable": False}}
        self.notify("workspace/didChangeConfiguration", {"settings": {"yaml": settings | offline}})

    def open(self, text: str) -> str:
        """Open a manifest and return its address."""
        self._opened += 1
        uri = (self._folder / f"manifest{self._opened}.yaml").as_uri()
        document = {"uri": uri, "languageId": "yaml", "version": 1, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})
        return uri

    def messages(self, text: str) -> list[tuple[int, str]]:
        """Return the lines that are marked, from 1, each with its message."""
        uri = self.open(text)
        published: Json = {}
        while published.get("uri") != uri:
            message = self._receive()
            if message.get("method") == "textDocument/publishDiagnostics":
                published = message["params"]
        return [
            (found["range"]["start"]["line"] + 1, found["message"])
            for found in published["diagnostics"]
        ]

    def at(self, method: str, text: str, mark: str = "|") -> Any:
        """Request something at the mark in a text."""
        before, after = text.split(mark)
        uri = self.open(before + after)
        line, character = before.count("\n"), len(before) - before.rfind("\n") - 1
        where = {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}}
        return self.request(f"textDocument/{method}", where)

    def notify(self, method: str, parameters: Json) -> None:
        """Send a message that has no answer."""
        self._send({"method": method, "params": parameters})

    def request(self, method: str, parameters: Json | None) -> Any:
        """Send a message and return its answer."""
        self._last_id += 1
        self._send({"id": self._last_id, "method": method, "params": parameters})
        while True:
            message = self._receive()
            if message.get("id") == self._last_id and "method" not in message:
                assert "error" not in message, message
                return message["result"]

    def _send(self, message: Json) -> None:
        body = json.dumps({"jsonrpc": "2.0"} | message).encode()
        self._writes.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._writes.flush()

    def _receive(self) -> Json:
        """Return the next message of the server, once its own request is answered."""
        length = 0
        while (line := self._reads.readline()) != b"\r\n":
            assert line, "the language server ended"
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        message: Json = json.loads(self._reads.read(length))
        if "id" in message and "method" in message:
            items = message.get("params", {}).get("items", [])
            self._send({"id": message["id"], "result": [None for _ in items]})
        return message


@contextmanager
def language_server(program: Path, folder: Path) -> Iterator[LanguageServer]:
    """Run a server until the end of the block."""
    command = [str(program), "--stdio"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        server = LanguageServer(process.stdout, process.stdin, folder)
        try:
            server.start()
            yield server
            server.request("shutdown", None)
            server.notify("exit", {})
        finally:
            process.kill()
