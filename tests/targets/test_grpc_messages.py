"""The generated messages of gRPC targets are those of the published service."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "targets" / "grpc"


def test_the_generated_messages_are_current(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools.protoc")
    options = [f"--proto_path={FOLDER}", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    protoc = [sys.executable, "-m", "grpc_tools.protoc", *options, "saga_runner.proto"]
    subprocess.run(protoc, check=True)
    for file in ("saga_runner_pb2.py", "saga_runner_pb2.pyi"):
        assert (FOLDER / file).read_text() == (tmp_path / file).read_text(), "run `make generated`"
