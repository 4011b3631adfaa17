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
# Flags that take a file of configs/, and where else to take one from.
_CONFIG_FLAGS = {
    "config": "electra-new-config writes one of your own for pre-training.",
    "study": "electra-study --list shows those there are.",
}
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
) -> None:
    """Parses flags, calls `main`, exits with its code, 0 for None.

    `required` names flags that must be given; `schema` is whose settings
    `--config.section.field` may override.
    """
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


def find_configs(argv: list[str]) -> list[str]:
    """Replaces names of installed configs in the arguments by their paths.

    `--config=FILE[:ARGUMENT]` and `--study=FILE` name configs, also as two
    arguments. Raises `ConfigError` if there is none.
    """
    replaced, waiting = [], ""
    for argument in argv:
        flag, equals, path = argument.partition("=")
        if waiting:
            argument = _find_config(argument, waiting)
        name = flag.lstrip("-") if flag.startswith("-") else ""
        if name in _CONFIG_FLAGS and equals:
            argument = f"{flag}={_find_config(path, name)}"
        waiting = name if name in _CONFIG_FLAGS and not equals else ""
        replaced.append(argument)
    return replaced


def _find_config(path: str, flag: str) -> str:
    config_path = installed.find_config(path)
    name = config_path.partition(":")[0]
    if not pathlib.Path(name).is_file():
        near = schema_lib.find_near(name, installed.config_names())
        raise errors.ConfigError(
            f"There is no {flag} {name or repr(name)}. {near}"
            + _CONFIG_FLAGS[flag]
        )
    return config_path


def parse(argv: list[str], schema: type = config.ExperimentConfig) -> list[str]:
    """Parses the flags; a mistake ends the process with one line and code 2."""
    try:
        argv, open_fields = take_open_fields(find_configs(argv), schema)
        for argument in argv[1:]:
            if argument.startswith("--config."):
                check_override(argument.split("=")[0].lstrip("-"), schema)
        rest = _parse_flags(argv)
        if "config" in flags.FLAGS:
            for section in flags.FLAGS.config or ():
                vars(schema())[section]  # or `KeyError`
            _set_open_fields(open_fields)
        return rest
    except SystemExit:
        # After --help, absl would exit with 1.
        sys.exit(0)
    except BrokenPipeError:
        sys.exit(_end_quietly())
    except Exception as error:
        text = _explain_config(error, argv, schema)
        if not text and not isinstance(error, errors.ConfigError | flags.Error):
            text = (
                f"--config must have the sections {', '.join(vars(schema()))}, "
                "returned by its function get_config(). "
                f"Received: one that differs by {error}. Files of "
                "configs/pretrain are for electra-pretrain, those of "
                "configs/finetune for electra-finetune."
            )
        if "--show_traceback" in argv:
            raise
        print(f"error: {text or _explain_flag(error)}", file=sys.stderr)
        sys.exit(2)


def take_open_fields(
    argv: list[str], schema: type = config.ExperimentConfig
) -> tuple[list[str], list[tuple[str, str, Any]]]:
    """Takes `--config.section.field=value` of open sections out of `argv`.

    The fields of an open section, as `objective` is one, depend on a value in
    it, so that flags cannot be declared for them. As with other flags, the
    value may be the next argument, and a field without one is true. Returns the
    other arguments, and section, field and value of each override.
    """
    sections = [n for n, v in vars(schema()).items() if isinstance(v, dict)]
    if not sections or "config" not in flags.FLAGS:
        return argv, []
    pattern = rf"--?(no)?config\.({'|'.join(sections)})\.(\w+)(?:=(.*))?"
    rest, fields = list[str](), list[tuple[str, str, Any]]()
    waiting = list(reversed(argv))
    while waiting:
        argument = waiting.pop()
        match = re.fullmatch(pattern, argument, re.DOTALL)
        if match is None:
            rest.append(argument)
            continue
        negation, section, field, text = match.groups()
        is_flag = not waiting or re.match(r"-+[A-Za-z]", waiting[-1])
        if text is None:
            text = str(not negation) if negation or is_flag else waiting.pop()
        fields.append((section, field, _parse_value(field, text)))
    return rest, fields


def _parse_value(field: str, text: str) -> Any:
    """The Python literal or the truth value that a text spells, or the text."""
    if field == "name":
        return text
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _set_open_fields(fields: Sequence[tuple[str, str, Any]]) -> None:
    for section, field, value in fields:
        if flags.FLAGS.config is None:
            raise flags.Error(f"--config.{section}.{field} needs --config.")
        settings = flags.FLAGS.config[section]
        with settings.unlocked():
            if field in settings:
                del settings[field]  # Its type would convert the value.
            settings[field] = value


def _parse_flags(argv: list[str]) -> list[str]:
    """As `flags.FLAGS`; a config flag looks for its overrides in `sys.argv`."""
    given, sys.argv = sys.argv, argv
    try:
        return flags.FLAGS(argv)
    finally:
        sys.argv = given


def _explain_config(
    error: BaseException, argv: list[str], schema: type
) -> str | None:
    """File, line and cause of an error in a config file of `argv`."""
    paths = [argument.split("=", 1)[-1].partition(":")[0] for argument in argv]
    files, text = {os.path.abspath(path) for path in paths[1:]}, None
    # The deepest cause is the one of the line in the file.
    for cause in _causes(error):
        places = [x[:2] for x in traceback.extract_tb(cause.__traceback__)]
        if isinstance(cause, SyntaxError):
            places.append((cause.filename or "", cause.lineno))
        for path, line in places:
            if os.path.abspath(path) in files:
                text = f"{path}, line {line}: {_describe(cause, schema)}"
    return text


def _explain_flag(error: BaseException) -> str:
    text = re.sub(r"flag (--\w+)=None: .*", r"\1 must be given.", f"{error}")
    noise = r"flags \w+=.*?: (?=[A-Z])|Error whilst(?s:.*)\n(?=\w+: )"
    text = re.sub(noise, "", text).strip().replace("\n", " ")
    return f"{text}{'.' * (text[-1] not in '.?')} See --help."


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _describe(error: BaseException, schema: type) -> str:
    """The message; for an unknown name, the nearest known one."""
    name = re.search(r"[\"'](\w+)\\?[\"'](?! has no)", str(error))
    if name is None or not isinstance(error, AttributeError | NameError):
        return getattr(error, "msg", None) or f"{error}"
    parts = [part for path in _settings(schema) for part in path.split(".")]
    near = schema_lib.find_near(name[1], [*parts, *vars(config)])
    return f"There is no {name[1]!r}. {near}".strip()


def _settings(schema: type) -> list[str]:
    return [
        f"config.{section}.{field}"
        for section, fields in dataclasses.asdict(schema()).items()
        for field in fields
    ]


def check_override(name: str, schema: type = config.ExperimentConfig) -> None:
    """Raises `ConfigError` unless `config.section.field` is in the schema."""
    known = [f"--{setting}" for setting in _settings(schema)]
    if f"--{name}" not in known:
        home = schema.__module__.replace(".", "/")
        raise errors.ConfigError(
            f"There is no setting --{name}. "
            f"{schema_lib.find_near(f'--{name}', known)}All settings stand in "
            f"{home}.py."
        )


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
