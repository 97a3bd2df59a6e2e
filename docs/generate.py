"""Writes the pages that follow from the code: errors, options, settings, properties, table features and the command line.

`make docs` does it with the site, and `python docs/generate.py` without, so that links of other pages to them work in a checkout.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from tahoe import errors
from tahoe.cli.commands import SUMMARIES, load_command
from tahoe.errors import DeltaError
from tahoe.protocol.configuration.clients import CLIENTS, Client
from tahoe.protocol.configuration.features import FEATURES, Feature
from tahoe.protocol.configuration.properties import PROPERTIES, FeatureProperty, Property
from tahoe.spark.configuration.option_names import OPTIONS, Option, OptionContext
from tahoe.spark.configuration.setting_names import SETTINGS


def write_pages(folder: Path) -> None:
    """Write each page whose text has changed."""
    folder.mkdir(exist_ok=True)
    pages = {
        "errors": _errors,
        "options": _options,
        "settings": _settings,
        "properties": _properties,
        "features": _features,
        "clients": _clients,
        "command-line": _command_line,
    }
    for name, page in pages.items():
        text, file = "\n".join(page()) + "\n", folder / f"{name}.md"
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


# --- errors


def _errors() -> Iterator[str]:
    yield "# Errors\n"
    yield "Every error of tahoe is a class of `tahoe.errors` below `DeltaError`. Its text says what happened, and what to do next. Words in"
    yield "braces are the error's parameters: `error.parameters` has their values. Under Spark an error is also an exception of PySpark.\n"
    for kind in sorted(_public(DeltaError), key=lambda kind: (kind.condition, kind.__name__)):
        yield f"(error-{kind.__name__.lower()})=\n## {kind.condition}\n"
        yield f"`tahoe.errors.{kind.__name__}`\n"
        if kind.__doc__ and kind.__doc__ != kind.__base__.__doc__:
            yield inspect.cleandoc(kind.__doc__).partition("\n\n")[0] + "\n"
        if kind.what != DeltaError.what:  # else it is only the base of others
            yield f"> {_braced(kind.what.strip())}\n"
            yield f"**What to do:** {_braced(kind.todo)}\n"
        above = [base.__name__ for base in kind.__mro__[1:] if isinstance(base, type) and issubclass(base, DeltaError)]
        yield f"SQLSTATE `{kind.sqlstate}`, PySpark's `{kind.pyspark_class}`{_listed(', below', above)}.\n"
        below = sorted(each.__name__ for each in kind.__subclasses__() if hasattr(errors, each.__name__))
        if below:
            yield f"Below it{_listed(' are', [f'[`{name}`](#error-{name.lower()})' for name in below])}.\n"


def _public(kind: type[DeltaError]) -> set[type[DeltaError]]:
    """The classes of `tahoe.errors`, those that only have others below them among them: users catch by them."""
    found = {kind} if hasattr(errors, kind.__name__) else set()
    return found.union(*(_public(below) for below in kind.__subclasses__()))


def _listed(before: str, names: list[str]) -> str:
    return f"{before} {', '.join(name if name.startswith('[') else _code(name) for name in names)}" if names else ""


def _braced(text: str) -> str:
    """A template with its parameters as code, so that nothing in it is markup."""
    return re.sub(r"[\\*_<>\[\]`]", lambda found: "\\" + found[0], text)


# --- options and settings

_READERS = (OptionContext.READ, OptionContext.READ_STREAM)
_WRITERS = (OptionContext.WRITE, OptionContext.WRITE_STREAM)


def _options() -> Iterator[str]:
    yield "# Options\n"
    yield '`option` and `options` of readers and writers with `format("delta")`. Names are case-insensitive. An option that has no effect'
    yield "where it is given, for example because it is misspelt, gives a warning that names it and the nearest valid option.\n"
    yield "## Readers\n"
    yield from _of(_READERS)
    yield "\nWith `readChangeFeed`, a stream reads commits that delete or change rows, so that the options for these have no effect.\n"
    yield "## Writers\n"
    yield from _of(_WRITERS)
    yield "\nWriters also take [table properties](properties.md) (`delta.…`), and readers and writers what goes into Hadoop's"
    yield "configuration: `fs.…`, `dfs.…` and `parquet.…`."


def _of(places: tuple[OptionContext, ...]) -> Iterator[str]:
    for option in OPTIONS:
        if found := [place.value.partition(".")[2] for place in places if place in option.places]:
            where = f"For {' and '.join(map(_code, found))}."
            yield _entry(option.name, _meaning_of(option), where, _default_of(option.default))


def _entry(name: str, meaning: str, *facts: str) -> str:
    """An entry of a definition list: long names leave no room for columns."""
    said = (
        re.sub(r"\w", lambda first: first[0].upper(), meaning, count=1)
        if meaning[:1].isalpha() or meaning[:1] == "["
        else meaning
    )
    return f"`{name}`\n: {' '.join([said.rstrip('.') + '.', *filter(None, facts)])}\n"


def _meaning_of(option: Option) -> str:
    return f"the same as {_code(option.same_as)}" if option.same_as else option.meaning


def _default_of(default: str) -> str:
    """A default, as code; a sentence about it as it is."""
    return f"Default: {default if ' ' in default or '`' in default else _code(default)}." if default else ""


def _settings() -> Iterator[str]:
    yield "# Settings of a session\n"
    yield "`spark.conf.set`, `SET` in SQL, or the configuration of the session. Those of `spark.databricks.delta` are the reference's, with"
    yield "its defaults; those of `spark.tahoe` are tahoe's own. Others of the reference have no effect. Options of a reader or writer take"
    yield "precedence over settings, and settings over table properties. A value that a setting does not take is an error where it is read."
    yield ""
    for setting in sorted(SETTINGS, key=lambda setting: setting.name):
        takes = "" if setting.kind.takes == "a text" else f"Takes {setting.kind.takes}."
        yield _entry(setting.name, setting.meaning, takes, _default_of(setting.default))
    yield "\nOf Spark's own settings, tahoe follows `spark.sql.sources.partitionOverwriteMode`, `spark.sql.storeAssignmentPolicy`,"
    yield "`spark.sql.ansi.enabled`, `spark.sql.session.timeZone`, `spark.sql.files.ignoreMissingFiles` and `ignoreCorruptFiles`,"
    yield "`spark.sql.files.maxRecordsPerFile`, and those of Spark's Parquet reader and writer. `spark.hadoop.…` reaches the storage."


# --- properties and features


def _properties() -> Iterator[str]:
    yield "# Table properties\n"
    yield "`TBLPROPERTIES` in SQL, `option` of a writer, `properties` of `Table.append`. Names are the reference's; those that begin with"
    yield "`tahoe.` are tahoe's own. `tahoe inspect properties PATH` prints those of a table.\n"
    for known in sorted(PROPERTIES, key=lambda known: known.name):
        feature = f"Needs the feature `{known.feature}`." if isinstance(known, FeatureProperty) else ""
        yield _entry(
            known.name, known.meaning, f"Takes {_takes(known)}.", _default_of(_default(known.default)), feature
        )
    yield "\nA CHECK constraint is the property `delta.constraints.<name>`, which `ALTER TABLE … ADD CONSTRAINT` sets."
    yield "A declared key is the property `tahoe.keys.<name>`, which the same statement sets; its text is JSON."
    yield "`delta.feature.<name>` = `supported` adds a [table feature](features.md)."


def _takes(known: Property[Any]) -> str:
    return known.takes + ("; only writers set it" if known.is_internal else "")


def _default(value: Any) -> str:
    match value:
        case None | () | "":
            return ""
        case bool():
            return str(value).lower()
        case timedelta():
            return f"interval {value.days} days" if value.days else f"interval {value.seconds // 3600} hours"
        case _:
            return str(value)


def _features() -> Iterator[str]:
    yield "# Table features\n"
    yield "What tahoe does with each feature of the protocol. A feature is active where the schema or the properties make use of it.\n"
    yield _row("Feature", "Required of", "Read", "Written where it is active")
    yield _row("---", "---", "---", "---")
    for feature in FEATURES:
        who = "readers and writers" if feature.is_reader_feature else "writers"
        yield _row(
            _code(feature.name),
            who,
            "through its catalog" if feature.name == "catalogManaged" else "yes",
            feature.writes.value,
        )
    yield "\n## What each one is about\n"
    for feature in FEATURES:
        needs = f" It needs {' and '.join(map(_code, feature.requires))}." if feature.requires else ""
        yield f"- **{feature.name}**{_implied(feature)}: {feature.rule}. {feature.why}{needs}"


def _implied(feature: Feature) -> str:
    if feature.legacy_writer_version is None:
        return ""
    reader = "" if feature.legacy_reader_version is None else f"reader version {feature.legacy_reader_version} and "
    return f" (implied by {reader}writer version {feature.legacy_writer_version})"


# --- other programs


def _clients() -> Iterator[str]:
    yield "# Other programs\n"
    yield "Which features keep which program from reading a table, and from writing it. A program that does not read a table does not"
    yield "write it either. `tahoe clients PATH` compares them with a table; a writer version of the time before features counts as all"
    yield "that it implies. `tahoe clients PATH --for polars --apply` drops the features that keep a program from reading it, and of those"
    yield "that only keep it from writing the ones that nothing uses; for the others it prints the statements. Dropping a feature of"
    yield "readers adds `checkpointProtection`, which protects the versions that still use it. It is dropped a day later, together with"
    yield "these versions: `DROP FEATURE checkpointProtection TRUNCATE HISTORY`.\n"
    yield _row("Name", "Program", "How it is known")
    yield _row("---", "---", "---")
    for client in CLIENTS:
        yield _row(_code(client.name), client.label, client.source)
    yield ""
    yield _row("Feature", *(client.name for client in CLIENTS))
    yield _row("---", *("---" for _ in CLIENTS))
    for feature in FEATURES:
        yield _row(_code(feature.name), *(_for_client(client, feature.name) for client in CLIENTS))
    yield "\nWhat is known from a source was not tried. Not listed are ClickHouse, which has two readers, one of them delta-kernel-rs at a"
    yield "commit that its source names only as a submodule, and Databricks, whose source is not public."


def _for_client(client: Client, feature: str) -> str:
    if feature in client.misreads:
        return "wrong values"
    return "no" if feature in client.reads_not else "reads" if feature in client.writes_not else "yes"


# --- the command line


def _command_line() -> Iterator[str]:
    yield "# Command line\n"
    yield "Run a command over a path or url. Output is readable in a terminal of 80 columns: rows that do not fit are printed vertically."
    yield "`--json` prints JSON: a list is an array, names are spelled like `size_bytes`, numbers are numbers; decimals with digits behind"
    yield "the point are texts, so that they stay exact. The exit code is 0 on success, 1 if `check` finds an error, `repair` leaves one or"
    yield "`vacuum` could not delete a file or `erase` is not proven, and 2 if the command fails, with the message on standard error.\n"
    yield "Completion of commands and options for bash, zsh, fish and PowerShell: `tahoe --install-completion`, then open a new shell."
    yield "`tahoe --show-completion` prints the script instead.\n"
    for name, command in _commands():
        yield f"## tahoe {name}\n"
        yield _plain(command.help or "") + "\n"
        yield f"```text\ntahoe {name} {' '.join(_usage(command))}\n```\n"
        yield _row("Argument", "Meaning")
        yield _row("---", "---")
        for parameter in command.params:
            yield _row(_code(_spelled(parameter)), _plain(getattr(parameter, "help", None) or ""))
        yield ""


def _commands() -> Iterator[tuple[str, Any]]:
    for name in SUMMARIES:
        command = load_command(name)
        below = getattr(command, "commands", None)
        if below is None:
            yield name, command
        else:
            yield from ((f"{name} {each}", one) for each, one in below.items())


def _usage(command: Any) -> Iterator[str]:
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            yield parameter.name.upper() if parameter.metavar is None else parameter.metavar
    yield "[OPTIONS]"


def _spelled(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    value = "" if parameter.is_flag else f" {parameter.metavar or parameter.name.upper()}"
    return ", ".join(parameter.opts) + value


def _plain(text: str) -> str:
    """Help as Markdown: nothing in it is markup."""
    return re.sub(r"(?<!\\)([<>*_\[\]])", r"\\\1", inspect.cleandoc(text))


if __name__ == "__main__":
    write_pages(Path(__file__).parent / "generated")
