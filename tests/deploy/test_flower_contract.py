"""The places of Flower's internals that are patched: one test each, which says what a change there breaks."""

import argparse
import inspect
from importlib.metadata import version

import pytest


def ask(condition, place, use):
    """Fail with a sentence that names the place, and what it was patched for."""
    assert condition, (
        f"Flower {version('flwr')} has changed {place}, which fedsarsa replaces so that {use}: without it, "
        "that no longer holds; find its new place, and change this test with it"
    )


def parameters(function):
    return set(inspect.signature(function).parameters)


def test_the_superlinks_middleware():
    from flwr.superlink import extensions, main

    asked = "extensions.get_middleware" in inspect.getsource(main) or "get_middleware(" in inspect.getsource(
        main
    )
    ask(
        callable(extensions.get_middleware) and not parameters(extensions.get_middleware) and asked,
        "flwr.superlink.extensions.get_middleware()",
        "orders are taken from the owner alone (guards.Doors)",
    )


def test_the_superlinks_handler_of_pushed_messages():
    from flwr.superlink.routers.fleet import router
    from flwr.superlink.servicer.fleet import fleet_handlers

    ask(
        parameters(fleet_handlers.push_messages) == {"request", "state"}
        and "fleet_handlers.push_messages(" in inspect.getsource(router.fleet_push_messages),
        "flwr.superlink.servicer.fleet.fleet_handlers.push_messages(request, state)",
        "nodes send nothing but replies of their own (guards.superlink)",
    )


def test_the_superlinks_word_that_it_is_busy():
    from flwr.supercore.retry import http_retry

    ask(
        503 in http_retry._RETRYABLE_STATUS_CODES,
        "the status codes after which its parts ask again",
        "a SuperLink whose database is locked is asked again (guards.Doors)",
    )


def test_the_supernodes_loop():
    from flwr.supernode import start_client_internal as inside

    loop = inspect.getsource(inside.start_client_internal)
    ask(
        {"receive", "get_fab", "state", "object_store"} <= parameters(inside._pull_and_store_message)
        and "run_id = _pull_and_store_message(" in loop,
        "flwr.supernode.start_client_internal._pull_and_store_message",
        "a node runs the installed app alone (guards.supernode)",
    )
    ask(
        {"send"} <= parameters(inside._push_messages) and " _push_messages(" in loop,
        "flwr.supernode.start_client_internal._push_messages",
        "a reply does not wait for the next question (guards.until_answered)",
    )


@pytest.mark.parametrize(
    ("module", "use"),
    [
        (
            "flwr.supernode.start_client_internal",
            "a node waits seconds for a dead sender, not hours (guards)",
        ),
        ("flwr.superlink.grid.http_grid", "a reply that is never sent does not stall rounds (exchange)"),
    ],
)
def test_the_pulling_of_objects(module, use):
    found = __import__(module, fromlist=["pull_objects"])
    ask(
        {"max_time", "initial_backoff", "backoff_cap"} <= parameters(found.pull_objects)
        and " pull_objects(" in inspect.getsource(found),
        f"{module}.pull_objects",
        use,
    )


def test_the_superexecs_launching():
    from flwr.supercore.constant import TASK_TYPE_TO_COMMAND, TaskType
    from flwr.supercore.superexec.executor import ExecutionSpec
    from flwr.supercore.superexec.executor.subprocess_executor import SubprocessExecutor

    fields = {"task_type", "runtime_api_address", "token", "insecure", "root_certificates_path"}
    ask(
        parameters(SubprocessExecutor.launch) == {"self", "spec"}
        and fields | {"parent_pid", "suppress_output"} <= parameters(ExecutionSpec)
        and {TaskType.CLIENT_APP, TaskType.SERVER_APP} <= set(TASK_TYPE_TO_COMMAND),
        "flwr.supercore.superexec.executor.subprocess_executor.SubprocessExecutor.launch(spec)",
        "tokens are on no command line, and client tasks are forks (guards.superexec)",
    )


@pytest.mark.parametrize("name", ["clientapp", "serverapp"])
def test_the_arguments_of_tasks(name):
    side = {"clientapp": "supernode", "serverapp": "superlink"}[name]
    module = __import__(f"flwr.{side}.cli.flwr_{name}", fromlist=["argparse"])
    parser = getattr(module, f"_parse_args_run_flwr_{name}", argparse.ArgumentParser)()
    options = {option for action in parser._actions for option in action.option_strings}
    ask(
        {"--runtime-api-address", "--token-file", "--parent-pid", "--insecure", "--root-certificates"}
        <= options,
        f"the arguments of flwr-{name}",
        "tasks read their token from a file that nobody else can open (launcher, guards.superexec)",
    )


def test_the_noise_and_the_clipping():
    from flwr.supercore import differential_privacy as privacy

    ask(
        parameters(privacy.compute_clip_model_update) == {"param1", "param2", "clipping_norm"}
        and parameters(privacy.compute_stdv) == {"noise_multiplier", "clipping_norm", "num_sampled_clients"}
        and parameters(privacy.add_gaussian_noise_inplace) == {"input_arrays", "std_dev"}
        and parameters(privacy.get_norm) == {"input_arrays"},
        "flwr.supercore.differential_privacy",
        "private means have Flower's clipping and noise (privacy.PrivateServer)",
    )
