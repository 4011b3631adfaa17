"""Runs every script, and ends it with one line for an error.

An error of the user prints a sentence on stderr and exits with 1;
`--show_traceback` shows its origin. Work that a signal stopped exits with 75,
work that lost another host with 69; repeat the command to continue. Ctrl-C
before there is anything to save exits with 130. Other errors print their
traceback and exit with 70.
"""

import ast
import dataclasses
import errno
import gc
import os
import pathlib
import re
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from absl import app
from absl import flags

from electra_tf import config
from electra_tf import errors
from electra_tf import installed
from electra_tf.config import schema as schema_lib
from electra_tf.processes import pool

_SHOW_TRACEBACK = flags.DEFINE_bool(
    "show_traceback", False, "Show where an error comes from."
)
# A value of the config; the value may be the next argument, `no` means false.
_OVERRIDE = re.compile(r"--?(no)?config\.([\w.]+)(?:=(.*))?", re.DOTALL)
_USER_ERRORS = (
    *(ValueError, ArithmeticError, OSError, ImportError, MemoryError),
    errors.ExportError,
)
_TOO_LARGE = (
    "has too little memory for the model and a batch. Use smaller "
    "batches, shorter rows, a smaller model, or bfloat16."
)


def run(
    main: Callable[[], int | None],
    required: Sequence[str] = (),
    schema: type = config.ExperimentConfig,
    first: str = "",
) -> None:
    """Parses the flags, calls `main` and exits with its code (None: 0).

    Args:
        main: the script.
        required: flags that must be given.
        schema: the settings that `--config.section.field` can override.
        first: the flag whose value may be the first argument.
    """
    if first and len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        sys.argv[1] = f"--{first}={sys.argv[1]}"
    # Imports and traces make millions of permanent objects. Garbage collection
    # after every 700 of them would take a tenth of the start.
    gc.set_threshold(200_000, 20, 20)
    _open_closed_streams()
    pool.shorten_logs()
    flags.mark_flags_as_required(list(required))
    app.run(
        lambda argv: sys.exit(_guarded(main, argv)),
        flags_parser=lambda argv: parse(argv, schema),
    )


def parse(argv: list[str], schema: type = config.ExperimentConfig) -> list[str]:
    """Parses the flags; a bad flag ends the process with one line and code 2.

    The value of the flag `config` is replaced by the settings in that file.
    """
    known = flags.FLAGS
    try:
        overrides = list[tuple[str, str | bool]]()
        if "config" in known:
            argv, overrides = take_overrides(argv)
        rest = known(argv)
        path = known["config"].value if "config" in known else None
        if path is not None:
            known.config = _load_config(path, overrides, schema)
        elif overrides:
            raise flags.Error(f"--config.{overrides[0][0]} needs --config.")
        return rest
    except SystemExit:
        # After --help, absl would exit with 1.
        sys.exit(0)
    except BrokenPipeError:
        sys.exit(_end_quietly())
    except (errors.ConfigError, flags.Error) as error:
        if "--show_traceback" in argv:
            raise
        text = f"{error}"
        if isinstance(error, flags.Error):
            text = re.sub(r"flag (--\w+)=None: .*", r"\1 must be given.", text)
            text = re.sub(r"flags \w+=.*?: (?=[A-Z])", "", text).strip()
            text = f"{text}{'.' * (text[-1] not in '.?')} See --help."
        print(f"error: {text}", file=sys.stderr)
        sys.exit(2)


def take_overrides(
    argv: list[str],
) -> tuple[list[str], list[tuple[str, str | bool]]]:
    """Separates `--config.section.field=value` from the other arguments.

    The value may be the next argument; a field without a value is true. Returns
    the other arguments, and pairs of `section.field` and value.
    """
    rest, overrides = list[str](), list[tuple[str, str | bool]]()
    waiting = argv[::-1]
    while waiting:
        argument = waiting.pop()
        match = _OVERRIDE.fullmatch(argument)
        if match is None:
            rest.append(argument)
            continue
        negation, name, value = match.groups()
        is_bare = not waiting or re.match(r"-+[A-Za-z]", waiting[-1])
        if value is None:
            value = not negation if negation or is_bare else waiting.pop()
        overrides.append((name, value))
    return rest, overrides


def _load_config(
    path: str, overrides: Sequence[tuple[str, str | bool]], schema: type
) -> Any:
    sections = dataclasses.asdict(schema())
    try:
        settings = config.run_file(path)
        differing = sorted(settings.keys() ^ sections.keys())
    except Exception as error:
        raise errors.ConfigError(_explain(error, path, sections)) from error
    if differing:
        raise errors.ConfigError(
            f"--config must have the sections {', '.join(sections)}. Received: "
            f"missing or other sections {', '.join(differing)}. Files of "
            "configs/pretrain are for electra-pretrain, files of "
            "configs/finetune for electra-finetune."
        )
    known = [f"--config.{s}.{f}" for s, own in sections.items() for f in own]
    for name, value in overrides:
        section, _, field = name.partition(".")
        # Only the class of the objective knows the fields of `objective`.
        is_open = isinstance(getattr(schema(), section, None), dict)
        is_named = is_open and field.isidentifier()
        if not is_named and f"--config.{name}" not in known:
            raise errors.ConfigError(
                f"There is no setting --config.{name}. "
                f"{schema_lib.find_near(f'--config.{name}', known)}All "
                f"settings are in {schema.__module__.replace('.', '/')}.py."
            )
        fields = settings[section]
        if not isinstance(fields.get(field), str):
            value = _parse_value(value)
        with fields.ignore_type():
            fields[field] = value
    return settings


def _parse_value(text: str | bool) -> Any:
    """Parses a Python literal or truth value; returns another text as it is."""
    if f"{text}".lower() in ("true", "false"):
        return f"{text}".lower() == "true"
    try:
        return ast.literal_eval(f"{text}")
    except (ValueError, SyntaxError):
        return text


def _explain(error: BaseException, given: str, sections: Any) -> str:
    """Describes an error in a config file, with its line if known."""
    file = os.path.abspath(installed.find_config(given).partition(":")[0])
    text = f"{error}"
    if not isinstance(error, errors.ConfigError):
        text = f"--config={given}: {type(error).__name__}: {error}"
    # The last cause with a line in the file is the deepest one.
    for cause in _causes(error):
        frames = [x[:2] for x in traceback.extract_tb(cause.__traceback__)]
        if isinstance(cause, SyntaxError):
            frames.append((cause.filename or "", cause.lineno))
        for path, line in frames:
            if os.path.abspath(path) == file:
                text = f"{path}, line {line}: {_describe(cause, sections)}"
    return text


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _describe(error: BaseException, sections: Any) -> str:
    """Returns the message; for an unknown name, suggests a similar one."""
    name = re.search(r"[\"'](\w+)\\?[\"'](?! has no)", str(error))
    if name is None or not isinstance(error, AttributeError | NameError):
        return getattr(error, "msg", None) or f"{error}"
    fields = [field for own in sections.values() for field in own]
    near = schema_lib.find_near(name[1], [*sections, *fields, *vars(config)])
    return f"There is no {name[1]!r}. {near}".strip()


def _open_closed_streams() -> None:
    """Opens streams that the shell has closed (`>&-`) on /dev/null."""
    # Otherwise other files would get their numbers, and libraries' output.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(null, mode))


def _end_quietly() -> int:
    """Returns the exit code for a closed pipe (`electra-plan x | head`)."""
    # Otherwise Python would fail to flush its streams.
    null = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(null, number)
    return 128 + signal.SIGPIPE


def _find_full_output() -> str:
    """Names the standard output if writing fails, for example on full disks."""
    try:
        print(flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return "The standard output"
    return ""


def _require_folders() -> None:
    for name in ("model_dir", "output_dir", "serving_dir"):
        given = flags.FLAGS[name].value if name in flags.FLAGS else None
        path = pathlib.Path(given or ".")
        if any(map(pathlib.Path.is_file, (path, *path.parents))):
            raise NotADirectoryError(
                f"--{name} must be a folder. Received: {path}, which is a "
                "file or below one. Name another folder."
            )


def _guarded(main: Callable[[], int | None], argv: list[str]) -> int | None:
    if len(argv) > 1:
        hint = "Write --flag=VALUE, and patterns ('texts/*.txt') in quotes."
        text = f"unexpected arguments {argv[1:]}. {hint}"
        print(f"error: {text}", file=sys.stderr)
        return 2
    try:
        _require_folders()
        code = main()
        sys.stdout.flush()
        return code
    except errors.Stopped:
        return os.EX_TEMPFAIL
    except BrokenPipeError:
        return _end_quietly()
    except (Exception, KeyboardInterrupt) as error:
        # During an import, Ctrl-C becomes the cause of an `ImportError`.
        if any(isinstance(e, KeyboardInterrupt) for e in _causes(error)):
            print("Interrupted. Start the same command again.", file=sys.stderr)
            return 128 + signal.SIGINT
        # An error of TensorFlow, which this module does not import.
        is_full = type(error).__name__ == "ResourceExhaustedError"
        is_known = is_full or isinstance(error, _USER_ERRORS)
        if _SHOW_TRACEBACK.value or not is_known:
            traceback.print_exc()
        else:
            text = f"{error}" or type(error).__name__
            if is_full or isinstance(error, MemoryError):
                owner = "The device" if is_full else "This machine"
                text = f"{owner} {_TOO_LARGE}"
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                error.filename = error.filename or _find_full_output()
            if isinstance(error, OSError) and error.filename:
                text = (
                    f"{error.filename} must be a usable path. Received: "
                    f"{error.strerror}. Name another path, or repair this one."
                )
            print(f"error: {text}", file=sys.stderr)
        if isinstance(error, errors.WorkerLostError):
            return os.EX_UNAVAILABLE
        return 1 if is_known else os.EX_SOFTWARE
