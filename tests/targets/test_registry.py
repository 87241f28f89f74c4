"""Handlers by the name of their saga."""

import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from textwrap import dedent

import pytest

from tenantcron.core.errors import UsageError
from tenantcron.targets import registry
from tenantcron.targets.authorising import Allowed, AuthorisationRequest
from tenantcron.targets.execution import Execution
from tenantcron.targets.registry import (
    Declared,
    Handlers,
    ProcessLimits,
    SagaError,
    authoriser,
    load_handlers,
    saga,
)

_numbers = count()


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> Declared:
    """A list of the test's own."""
    mine = Declared()
    monkeypatch.setattr(registry, "DECLARED", mine)
    return mine


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder to write modules in; what was imported from it is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def module(folder: Path, text: str, name: str | None = None) -> str:
    """Write a module; each has a name of its own, because Python remembers what was not there."""
    name = name or f"handlers_{next(_numbers)}"
    file = folder / f"{name.replace('.', '/')}.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dedent(text), encoding="utf-8")
    return name


ONE = """
    from tenantcron import saga

    @saga("reconcile")
    async def reconcile(execution): ...
"""


def test_the_decorator_returns_the_function_unchanged(declared: Declared) -> None:
    def plain(execution: Execution) -> None: ...

    assert saga("reconcile")(plain) is plain
    assert [handler.function for handler in declared.all()] == [plain]


def test_async_and_plain_functions_are_told_apart(declared: Declared) -> None:
    @saga("one")
    async def one(execution: Execution) -> None: ...

    @saga("two")
    def two(execution: Execution) -> None: ...

    handlers = Handlers.of(declared.all())
    found = [handlers.find("one"), handlers.find("two")]
    assert [handler and handler.is_async for handler in found] == [True, False]


def test_a_saga_that_nobody_declared_is_not_found() -> None:
    assert Handlers.of(()).find("reconcile") is None


@pytest.mark.parametrize("name", ["", "Reconcile", "re concile", "x" * 129, "reconcile\n"])
def test_a_name_that_no_saga_can_have_is_refused(name: str) -> None:
    with pytest.raises(SagaError, match="is not a name"):
        saga(name)


def test_a_decorator_without_a_name_is_told_how_to_write_it() -> None:
    def plain(execution: Execution) -> None: ...

    with pytest.raises(SagaError, match='write @saga\\("name"\\)'):
        saga(plain)  # type: ignore[arg-type] # that is the mistake


def test_a_function_with_a_yield_is_refused_because_calling_it_runs_nothing() -> None:
    def generator(_: Execution) -> Iterator[None]:
        yield

    with pytest.raises(SagaError, match="yield"):
        saga("reconcile")(generator)


def test_a_second_handler_of_a_saga_is_refused_with_both_places() -> None:
    @saga("reconcile")
    def first(execution: Execution) -> None: ...

    with pytest.raises(SagaError) as caught:

        @saga("reconcile")
        def second(execution: Execution) -> None: ...

    said = str(caught.value)
    assert "first (" in said
    assert "second (" in said
    assert said.count("test_registry.py:") == 2


def test_modules_are_found_in_the_working_folder(folder: Path) -> None:
    handlers = load_handlers([module(folder, ONE)])

    assert handlers.names == ("reconcile",)


def test_a_module_of_a_package_is_loaded_by_its_dotted_name(folder: Path) -> None:
    name = module(folder, ONE, f"jobs_{next(_numbers)}.billing")

    assert load_handlers([name]).find("reconcile")


def test_a_package_that_imports_its_handlers_declares_them(folder: Path) -> None:
    package = f"jobs_{next(_numbers)}"
    module(folder, ONE, f"{package}.billing")
    module(folder, f"from {package} import billing", f"{package}.__init__")

    assert load_handlers([package]).names == ("reconcile",)


def test_loading_twice_is_the_same_as_once(folder: Path) -> None:
    name = module(folder, ONE)

    assert load_handlers([name]) == load_handlers([name, name])


def test_a_module_may_pass_on_the_handlers_of_another(folder: Path) -> None:
    first = module(folder, ONE)
    second = module(folder, f"from {first} import reconcile")

    assert load_handlers([first, second]).names == ("reconcile",)


def test_the_same_saga_in_two_modules_is_refused_with_both_places(folder: Path) -> None:
    first, second = module(folder, ONE), module(folder, ONE)

    with pytest.raises(UsageError) as caught:
        load_handlers([first, second])

    said = str(caught.value)
    assert f"{first}.reconcile" in said
    assert f"{second}.reconcile" in said


@pytest.mark.usefixtures("folder")
def test_a_module_that_is_not_there_is_told_by_its_name() -> None:
    with pytest.raises(UsageError, match="there is no module nowhere"):
        load_handlers(["nowhere"])
    with pytest.raises(UsageError, match=r"there is no module nowhere\.billing"):
        load_handlers(["nowhere.billing"])


@pytest.mark.parametrize(
    ("written", "meant"),
    [("billing.py", "billing"), ("./jobs/billing.py", "jobs.billing"), ("jobs/pay", "jobs.pay")],
)
@pytest.mark.usefixtures("folder")
def test_a_path_is_told_as_the_dotted_name_that_was_meant(written: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"did you mean {meant}\\?"):
        load_handlers([written])


@pytest.mark.parametrize("name", ["", ".", ".relative", "a..b", "not a module"])
@pytest.mark.usefixtures("folder")
def test_what_cannot_be_a_module_is_refused(name: str) -> None:
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
def test_a_module_that_fails_on_import_is_told_with_the_reason_and_the_place(
    folder: Path, text: str, expected: str
) -> None:
    name = module(folder, text)

    with pytest.raises(UsageError, match=expected) as caught:
        load_handlers([name])

    assert f"the module {name} cannot be imported" in str(caught.value)
    assert f"{name}.py" in str(caught.value)


def test_a_module_without_a_saga_is_told(folder: Path) -> None:
    name = module(folder, "def reconcile(execution): ...")

    with pytest.raises(UsageError, match=f"the module {name} declares no saga"):
        load_handlers([name])


DECIDES = """
    from tenantcron import Allowed, authoriser

    @authoriser
    async def may(request):
        return Allowed()
"""


def test_a_module_may_declare_an_authoriser_alone(folder: Path) -> None:
    name = module(folder, DECIDES)
    for _ in range(2):
        handlers = load_handlers([name])
        assert handlers.names == ()
        assert handlers.authoriser is not None
        assert handlers.authoriser.place.function == "may"


def test_where_none_is_declared_there_is_no_authoriser(folder: Path) -> None:
    assert load_handlers([module(folder, ONE)]).authoriser is None


def test_two_authorisers_are_refused_with_both_places(folder: Path) -> None:
    first, second = module(folder, DECIDES), module(folder, DECIDES)
    with pytest.raises(UsageError) as caught:
        load_handlers([first, second])
    said = str(caught.value)
    assert "two authorisers" in said
    assert f"{first}.may ({folder / first}.py:4)" in said
    assert f"{second}.may ({folder / second}.py:4)" in said


def test_an_authoriser_that_would_block_the_event_loop_is_refused() -> None:
    def may(_: AuthorisationRequest) -> Allowed:
        return Allowed()

    with pytest.raises(SagaError, match="use `async def`"):
        authoriser(may)  # type: ignore[type-var] # that is the mistake


def test_the_public_names_are_imported_when_somebody_asks_for_them() -> None:
    script = (
        "import sys, tenantcron\n"
        "assert not [name for name in sys.modules if name.startswith('tenantcron.')]\n"
        "from tenantcron import Cancelled, Execution, Fail, Retry, saga\n"
        "assert all(hasattr(tenantcron, name) for name in tenantcron.__all__)\n"
        "assert not hasattr(tenantcron, 'sage')\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_handler_runs_in_a_process_of_its_own_only_if_it_says_so(folder: Path) -> None:
    text = """
        from tenantcron.targets.registry import saga

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
def test_an_isolation_that_there_is_not_is_refused(options: dict[str, str], why: str) -> None:
    with pytest.raises(SagaError, match=why):
        saga("x", **options)  # type: ignore[arg-type] # that is the mistake
