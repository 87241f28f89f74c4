"""The registry of handlers."""

import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from textwrap import dedent

import pytest

from tenantcron.core.errors import UsageError
from tenantcron.targets.authorising import Allowed, AuthorisationRequest
from tenantcron.targets.execution import Execution
from tenantcron.targets.handlers import ProcessLimits
from tenantcron.targets.python import registry
from tenantcron.targets.python.registry import (
    Declared,
    Handlers,
    SagaError,
    authoriser,
    load_handlers,
    saga,
)

_numbers = count()


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> Declared:
    """An empty registry for the test."""
    empty = Declared()
    monkeypatch.setattr(registry, "DECLARED", empty)
    return empty


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder for modules; imports from it are undone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def module(folder: Path, text: str, name: str | None = None) -> str:
    """Write a module with a unique name, because Python caches missing modules."""
    name = name or f"handlers_{next(_numbers)}"
    file = folder / f"{name.replace('.', '/')}.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dedent(text), encoding="utf-8")
    return name


RECONCILE = """
    from tenantcron import saga

    @saga("reconcile")
    async def reconcile(execution): ...
"""


def test_the_decorator_returns_the_function_unchanged(declared: Declared) -> None:
    def plain(execution: Execution) -> None: ...

    assert saga("reconcile")(plain) is plain
    assert [handler.function for handler in declared.all()] == [plain]


def test_async_and_plain_functions_are_distinguished(declared: Declared) -> None:
    @saga("first")
    async def first(execution: Execution) -> None: ...

    @saga("second")
    def second(execution: Execution) -> None: ...

    handlers = Handlers.of(declared.all())
    found = [handlers.find("first"), handlers.find("second")]
    assert [handler and handler.is_async for handler in found] == [True, False]


def test_an_undeclared_saga_is_not_found() -> None:
    assert Handlers.of(()).find("reconcile") is None


@pytest.mark.parametrize("name", ["", "Reconcile", "re concile", "x" * 129, "reconcile\n"])
def test_an_invalid_saga_name_is_rejected(name: str) -> None:
    with pytest.raises(SagaError, match="is not a name"):
        saga(name)


def test_a_decorator_without_a_name_is_rejected_with_the_right_form() -> None:
    def plain(execution: Execution) -> None: ...

    with pytest.raises(SagaError, match='write @saga\\("name"\\)'):
        saga(plain)  # type: ignore[arg-type] # that is the mistake


def test_a_generator_function_is_rejected() -> None:
    def generator(_: Execution) -> Iterator[None]:
        yield

    with pytest.raises(SagaError, match="yield"):
        saga("reconcile")(generator)


def test_a_second_handler_of_a_saga_is_rejected_with_both_locations() -> None:
    @saga("reconcile")
    def first(execution: Execution) -> None: ...

    with pytest.raises(SagaError) as caught:

        @saga("reconcile")
        def second(execution: Execution) -> None: ...

    message = str(caught.value)
    assert "first (" in message
    assert "second (" in message
    assert message.count("test_registry.py:") == 2


def test_modules_are_found_in_the_working_folder(folder: Path) -> None:
    handlers = load_handlers([module(folder, RECONCILE)])

    assert handlers.names == ("reconcile",)


def test_a_module_of_a_package_is_loaded_by_its_dotted_name(folder: Path) -> None:
    name = module(folder, RECONCILE, f"jobs_{next(_numbers)}.billing")

    assert load_handlers([name]).find("reconcile")


def test_a_package_that_imports_its_handlers_declares_them(folder: Path) -> None:
    package = f"jobs_{next(_numbers)}"
    module(folder, RECONCILE, f"{package}.billing")
    module(folder, f"from {package} import billing", f"{package}.__init__")

    assert load_handlers([package]).names == ("reconcile",)


def test_loading_twice_has_the_same_result(folder: Path) -> None:
    name = module(folder, RECONCILE)

    assert load_handlers([name]) == load_handlers([name, name])


def test_a_module_may_reexport_the_handlers_of_another(folder: Path) -> None:
    first = module(folder, RECONCILE)
    second = module(folder, f"from {first} import reconcile")

    assert load_handlers([first, second]).names == ("reconcile",)


def test_the_same_saga_in_two_modules_is_rejected_with_both_locations(folder: Path) -> None:
    first, second = module(folder, RECONCILE), module(folder, RECONCILE)

    with pytest.raises(UsageError) as caught:
        load_handlers([first, second])

    message = str(caught.value)
    assert f"{first}.reconcile" in message
    assert f"{second}.reconcile" in message


@pytest.mark.usefixtures("folder")
def test_a_missing_module_is_reported_with_its_name() -> None:
    with pytest.raises(UsageError, match="there is no module nowhere"):
        load_handlers(["nowhere"])
    with pytest.raises(UsageError, match=r"there is no module nowhere\.billing"):
        load_handlers(["nowhere.billing"])


@pytest.mark.parametrize(
    ("path", "meant"),
    [("billing.py", "billing"), ("./jobs/billing.py", "jobs.billing"), ("jobs/pay", "jobs.pay")],
)
@pytest.mark.usefixtures("folder")
def test_for_a_path_the_dotted_name_is_suggested(path: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"did you mean {meant}\\?"):
        load_handlers([path])


@pytest.mark.parametrize("name", ["", ".", ".relative", "a..b", "not a module"])
@pytest.mark.usefixtures("folder")
def test_an_invalid_module_name_is_rejected(name: str) -> None:
    with pytest.raises(UsageError, match="is not the name of a module"):
        load_handlers([name])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import nothing_of_the_kind", "No module named 'nothing_of_the_kind'"),
        ("import sys; sys.exit('wrong day')", "SystemExit: wrong day"),
        ("def broken(:", "SyntaxError"),
        ("from tenantcron import sage", "ImportError: cannot import name 'sage'"),
    ],
)
def test_a_module_that_fails_on_import_is_reported_with_the_reason_and_the_location(
    folder: Path, text: str, expected: str
) -> None:
    name = module(folder, text)

    with pytest.raises(UsageError, match=expected) as caught:
        load_handlers([name])

    assert f"the module {name} cannot be imported" in str(caught.value)
    assert f"{name}.py" in str(caught.value)


def test_a_syntax_error_is_shown_with_its_line_and_a_marker(folder: Path) -> None:
    name = module(folder, "first = 1\nif first:\n    second = (1,\n    third == 3 = 4\n")

    with pytest.raises(UsageError) as caught:
        load_handlers([name])

    head, line, marker, advice = str(caught.value).splitlines()
    assert head.startswith(f"the module {name} cannot be imported: SyntaxError: ")
    assert head.endswith(f" at {name}.py:3")
    assert line == "    second = (1,"
    assert marker == "             ^"
    assert advice == "Fix the module and run the command again."


def test_a_missing_package_is_shown_with_the_import_and_the_environment(folder: Path) -> None:
    name = module(folder, "\nfrom nothing_of_the_kind import work\n")

    with pytest.raises(UsageError) as caught:
        load_handlers([name])

    head, line, advice = str(caught.value).splitlines()
    assert head.endswith(
        f"ModuleNotFoundError: No module named 'nothing_of_the_kind' at {name}.py:2"
    )
    assert line == "    from nothing_of_the_kind import work"
    assert advice == (
        f"Install the package that contains nothing_of_the_kind in the environment {sys.prefix}, "
        "or fix the import."
    )


def test_a_failing_import_of_another_module_names_the_module_that_fails(folder: Path) -> None:
    inner = module(folder, "1 / 0")
    name = module(folder, f"import {inner}")

    with pytest.raises(UsageError, match=f"division by zero at {inner}.py:1\n"):
        load_handlers([name])


def test_a_module_without_a_saga_is_rejected(folder: Path) -> None:
    name = module(folder, "def reconcile(execution): ...")

    with pytest.raises(UsageError, match=f"the module {name} declares no saga"):
        load_handlers([name])


AUTHORISER = """
    from tenantcron import Allowed, authoriser

    @authoriser
    async def may(request):
        return Allowed()
"""


def test_a_module_may_declare_only_an_authoriser(folder: Path) -> None:
    name = module(folder, AUTHORISER)
    for _ in range(2):
        handlers = load_handlers([name])
        assert handlers.names == ()
        assert handlers.authoriser is not None
        assert handlers.authoriser.place.function == "may"


def test_by_default_there_is_no_authoriser(folder: Path) -> None:
    assert load_handlers([module(folder, RECONCILE)]).authoriser is None


def test_two_authorisers_are_rejected_with_both_locations(folder: Path) -> None:
    first, second = module(folder, AUTHORISER), module(folder, AUTHORISER)
    with pytest.raises(UsageError) as caught:
        load_handlers([first, second])
    message = str(caught.value)
    assert "two authorisers" in message
    assert f"{first}.may ({folder / first}.py:4)" in message
    assert f"{second}.may ({folder / second}.py:4)" in message


def test_a_plain_function_cannot_be_the_authoriser() -> None:
    def may(_: AuthorisationRequest) -> Allowed:
        return Allowed()

    with pytest.raises(SagaError, match="use `async def`"):
        authoriser(may)  # type: ignore[type-var] # that is the mistake


def test_the_public_names_are_imported_on_first_use() -> None:
    script = (
        "import sys, tenantcron\n"
        "assert not [name for name in sys.modules if name.startswith('tenantcron.')]\n"
        "from tenantcron import Cancelled, Execution, Fail, Retry, saga\n"
        "assert all(hasattr(tenantcron, name) for name in tenantcron.__all__)\n"
        "assert not hasattr(tenantcron, 'sage')\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_handler_is_isolated_only_if_declared_so(folder: Path) -> None:
    text = """
        from tenantcron.targets.python.registry import saga

        @saga("here")
        def here(execution): ...

        @saga("apart", isolation="process")
        def apart(execution): ...

        @saga("limited", isolation="process", memory="512MiB")
        async def limited(execution): ...
        """
    handlers = load_handlers([module(folder, text)]).by_saga

    assert handlers["here"].process is None
    assert handlers["apart"].process == ProcessLimits(memory=None)
    assert handlers["limited"].process == ProcessLimits(memory=512 * 1024**2)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"isolation": "thread"}, "isolation='thread': use isolation=\"process\""),
        ({"memory": "1GiB"}, "memory='1GiB': use isolation=\"process\""),
        ({"isolation": "process", "memory": "1 GB"}, "'1 GB' is not a size such as 512MiB"),
        ({"isolation": "process", "memory": 4096}, "too small: at least 16 MiB"),
    ],
)
def test_invalid_isolation_options_are_rejected(options: dict[str, str], why: str) -> None:
    with pytest.raises(SagaError, match=why):
        saga("x", **options)  # type: ignore[arg-type] # that is the mistake
