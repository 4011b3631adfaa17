"""Starts every script, and ends it with one line for an error.

An error of the user ends with a sentence on stderr and exit code 1;
`--show_traceback` shows its place. Work that a signal stopped exits with 75,
work that lost another host with 69: the same command goes on. Ctrl-C before
there is anything to save exits with 130. Other errors print their traceback and
exit with 70.
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
# A value of the config, which may be the next argument; `no` makes it false.
_OVERRIDE = re.compile(r"--?(no)?config\.([\w.]+)(?:=(.*))?", re.DOTALL)
_USER_ERRORS = (
    *(ValueError, ArithmeticError, OSError, ImportError, MemoryError),
    errors.ExportError,
)
_TOO_LARGE = (
    "has too little memory for the model and a batch. Take fewer "
    "or shorter rows at once, a smaller model, or bfloat16."
)


def run(
    main: Callable[[], int | None],
    required: Sequence[str] = (),
    schema: type = config.ExperimentConfig,
    first: str = "",
) -> None:
    """Parses flags, calls `main`, exits with its code, 0 for None.

    `required` names flags that must be given; `schema` is whose settings
    `--config.section.field` may override; the first argument may be the value
    of the flag `first`.
    """
    if first and len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        sys.argv[1] = f"--{first}={sys.argv[1]}"
    # Imports and traces make millions of objects that stay. To look for garbage
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
    """Parses the flags; a mistake ends the process with one line and code 2.

    The flag `config` names a file and becomes its settings.
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
    """Takes `--config.section.field=value` out of the arguments.

    As with other flags, the value may be the next argument, and a field without
    one is true. Returns the other arguments; `section.field` and value of each.
    """
    rest, overrides = list[str](), list[tuple[str, str | bool]]()
    waiting = argv[::-1]
    while waiting:
        argument = waiting.pop()
        match = _OVERRIDE.fullmatch(argument)
        if match is None:
            rest.append(argument)
            continue
        negation, place, value = match.groups()
        is_bare = not waiting or re.match(r"-+[A-Za-z]", waiting[-1])
        if value is None:
            value = not negation if negation or is_bare else waiting.pop()
        overrides.append((place, value))
    return rest, overrides


def _load_config(
    path: str, overrides: Sequence[tuple[str, str | bool]], schema: type
) -> Any:
    """Returns the settings of a file, with values of the command line."""
    sections = dataclasses.asdict(schema())
    try:
        settings = config.run_file(path)
        differing = sorted(settings.keys() ^ sections.keys())
    except Exception as error:
        raise errors.ConfigError(_explain(error, path, sections)) from error
    if differing:
        raise errors.ConfigError(
            f"--config must have the sections {', '.join(sections)}. Received: "
            f"one that differs by {', '.join(differing)}. Files of "
            "configs/pretrain are for electra-pretrain, those of "
            "configs/finetune for electra-finetune."
        )
    known = [f"--config.{s}.{f}" for s, own in sections.items() for f in own]
    for place, value in overrides:
        section, _, field = place.partition(".")
        # The fields of `objective` are known to the class that it names.
        is_open = isinstance(getattr(schema(), section, None), dict)
        is_named = is_open and field.isidentifier()
        if not is_named and f"--config.{place}" not in known:
            raise errors.ConfigError(
                f"There is no setting --config.{place}. "
                f"{schema_lib.find_near(f'--config.{place}', known)}All "
                f"settings stand in {schema.__module__.replace('.', '/')}.py."
            )
        fields = settings[section]
        if not isinstance(fields.get(field), str):
            value = _parse_value(value)
        with fields.ignore_type():
            fields[field] = value
    return settings


def _parse_value(text: str | bool) -> Any:
    """Returns the Python literal or truth value that a text spells, or it."""
    if f"{text}".lower() in ("true", "false"):
        return f"{text}".lower() == "true"
    try:
        return ast.literal_eval(f"{text}")
    except (ValueError, SyntaxError):
        return text


def _explain(error: BaseException, given: str, sections: Any) -> str:
    """Says what is wrong with a config file, with the line if there is one."""
    file = os.path.abspath(installed.find_config(given).partition(":")[0])
    text = f"{error}"
    if not isinstance(error, errors.ConfigError):
        text = f"--config={given}: {type(error).__name__}: {error}"
    # The deepest cause is the one of the line in the file.
    for cause in _causes(error):
        places = [x[:2] for x in traceback.extract_tb(cause.__traceback__)]
        if isinstance(cause, SyntaxError):
            places.append((cause.filename or "", cause.lineno))
        for path, line in places:
            if os.path.abspath(path) == file:
                text = f"{path}, line {line}: {_describe(cause, sections)}"
    return text


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _describe(error: BaseException, sections: Any) -> str:
    """Returns the message; for an unknown name, the nearest known one."""
    name = re.search(r"[\"'](\w+)\\?[\"'](?! has no)", str(error))
    if name is None or not isinstance(error, AttributeError | NameError):
        return getattr(error, "msg", None) or f"{error}"
    fields = [field for own in sections.values() for field in own]
    near = schema_lib.find_near(name[1], [*sections, *fields, *vars(config)])
    return f"There is no {name[1]!r}. {near}".strip()


def _open_closed_streams() -> None:
    """Opens streams that the shell has closed, as `>&-` does, on nothing.

    Otherwise files get their numbers, and what libraries print.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(nothing, mode))


def _end_quietly() -> int:
    """The exit code where nobody reads on, as in `electra-plan x | head`."""
    # Python would fail to flush the rest.
    nothing = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nothing, number)
    return 128 + signal.SIGPIPE


def _find_full_output() -> str:
    """The name of the standard output if it takes no more, as on full disks."""
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
                f"--{name} must be a folder. Received: {path}, where a file "
                "is. Give another."
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
        # During an import, it becomes the cause of an `ImportError`.
        if any(isinstance(e, KeyboardInterrupt) for e in _causes(error)):
            print("Interrupted. Start the same command again.", file=sys.stderr)
            return 128 + signal.SIGINT
        # An error of TensorFlow, which this module does not import.
        is_full = type(error).__name__ == "ResourceExhaustedError"
        is_known = is_full or isinstance(error, _USER_ERRORS)
        if _SHOW_TRACEBACK.value or not is_known:
            traceback.print_exc()
        else:
            # Some errors of Python have no text of their own.
            text = f"{error}" or type(error).__name__
            if is_full or isinstance(error, MemoryError):
                place = "The device" if is_full else "This machine"
                text = f"{place} {_TOO_LARGE}"
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                error.filename = error.filename or _find_full_output()
            if isinstance(error, OSError) and error.filename:
                text = (
                    f"{error.filename} must be a usable path. Received: "
                    f"{error.strerror}. Give another, or mend this one."
                )
            print(f"error: {text}", file=sys.stderr)
        if isinstance(error, errors.WorkerLostError):
            return os.EX_UNAVAILABLE
        return 1 if is_known else os.EX_SOFTWARE
