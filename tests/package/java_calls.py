"""Finds what the package names of Spark's JVM where no compiler checks it: what Python calls through py4j, and what
Python and Java find by a name in a text.

What Java calls otherwise, `scripts/check-java-sources` proves. Python's calls are found by the annotation `JavaObject`,
and followed through calls and variables. Where the code does not name a class, a call has no `owner`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src" / "tahoe" / "spark"
JAVA_SOURCES = sorted(SOURCES.glob("java*/**/*.java"))

NEW = "new"
"""How a constructor is called in calls, and in the list."""

_OF_PYSPARK = frozenset({"_jdf", "_jc", "_jvm", "_jsc", "_jsparkSession", "_jconf"})
_CONTAINERS = frozenset({"zip", "enumerate", "reversed", "list", "sorted", "next", "tuple", "set", "iter", "partial"})
METHODS_OF_PYTHON = frozenset(
    name for kind in (str, bytes, list, dict, tuple, set, BaseException) for name in dir(kind)
)
_WORD = re.compile(r"[A-Z][A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class Touch:
    """A place that names something of the JVM.

    Attributes:
        owner: the class; None if the place does not tell it.
        member: None for the class alone.
        arguments: how many are given; None if no call is made, or their number is not in the code.
    """

    place: str
    owner: str | None
    member: str | None = None
    arguments: int | None = None


@dataclass(frozen=True, slots=True)
class _Java:
    """A Java value, or a container of some. `owner`: the class of which it is, if it is a class or a Scala object."""

    owner: str | None = None


_UNKNOWN = _Java()


@cache
def calls_of_python() -> list[Touch]:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCES.rglob("*.py"))}
    known = _Annotations.of(trees.values())
    return [touch for path, tree in trees.items() for touch in _Module(path, known).touches(tree)]


def words() -> Iterator[tuple[str, str]]:
    """The texts that may be the simple name of a class, with their places, in Python and Java."""
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _WORD.fullmatch(node.value):
                yield f"{path.relative_to(SOURCES)}:{node.lineno}", node.value
    for path in JAVA_SOURCES:
        for text in re.findall(rf'"({_WORD.pattern})"', path.read_text(encoding="utf-8")):
            yield path.name, text


_BY_REFLECTION = re.compile(
    r'(?:singletonMap\(|fields\.put\(|Cases\.field\([^;"]*, |Fields\.of\(\w+, |add\(\w+, )"(\w+)"'
)
_NAMED_IN_JAVA = re.compile(r'"((?:org\.apache|org\.sparkproject|scala)\.[\w.$]+)"')


def named_in_java() -> Iterator[Touch]:
    """The classes and fields that Java finds by a name in a text."""
    for path in JAVA_SOURCES:
        text = path.read_text(encoding="utf-8")
        yield from (Touch(path.name, name) for name in _NAMED_IN_JAVA.findall(text) if not name.endswith("."))
        yield from (Touch(path.name, None, name) for name in _BY_REFLECTION.findall(text))


def members_of_ours() -> frozenset[str]:
    """The names of methods and fields in our own Java."""
    declared = re.compile(r"^  (?:  )?(?:[\w\[\]]+ )*[\w\[\].]+ (\w+)(?:\(| = |;)", re.MULTILINE)
    return frozenset(name for path in JAVA_SOURCES for name in declared.findall(path.read_text(encoding="utf-8")))


# --- what is a Java value


@dataclass(frozen=True)
class _Annotations:
    """Functions that return Java values, and attributes that hold some, by their names."""

    functions: frozenset[str]
    attributes: frozenset[str]

    @classmethod
    def of(cls, trees: Iterable[ast.Module]) -> _Annotations:
        nodes = [node for tree in trees for node in ast.walk(tree)]
        functions: dict[str, bool] = {}
        for node in nodes:
            if isinstance(node, ast.FunctionDef):
                functions[node.name] = functions.get(node.name, True) and _is_java(node.returns)
        attributes: dict[str, bool] = {}
        for node in nodes:
            if isinstance(node, ast.AnnAssign):
                name = node.target.attr if isinstance(node.target, ast.Attribute) else getattr(node.target, "id", "")
                attributes[name] = attributes.get(name, True) and _is_java(node.annotation)
            if isinstance(node, ast.FunctionDef) and any(ast.unparse(d) == "property" for d in node.decorator_list):
                attributes[node.name] = attributes.get(node.name, True) and _is_java(node.returns)
        return cls(
            functions=frozenset(name for name, is_java in functions.items() if is_java),
            attributes=frozenset(name for name, is_java in attributes.items() if is_java) | _OF_PYSPARK,
        )


def _is_java(annotation: ast.expr | None) -> bool:
    return annotation is not None and "JavaObject" in ast.unparse(annotation)


@dataclass
class _Module:
    """The Java values of a module. Names are looked up in the function, then in those around it."""

    path: Path
    known: _Annotations
    texts: dict[str, str] = field(default_factory=dict)
    found: set[Touch] = field(default_factory=set)
    functions: frozenset[str] = frozenset()
    attributes: dict[str, _Java] = field(default_factory=dict)

    def touches(self, tree: ast.Module) -> list[Touch]:
        own = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        self.functions = self.known.functions | {node.name for node in own if _is_java(node.returns)}
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                text = self._text(node.value)
                if text is not None:
                    self.texts[node.targets[0].id] = text
        self._body(tree.body, {})
        return sorted(self.found, key=lambda touch: touch.place)

    def _text(self, node: ast.expr) -> str | None:
        """The text of an expression of constants."""
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.Name(id=name):
                return self.texts.get(name)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                first, second = self._text(left), self._text(right)
                return None if first is None or second is None else first + second
        return None

    def _body(self, body: list[ast.stmt], names: dict[str, _Java]) -> None:
        for _ in range(2):  # a name may be used above the line that sets it, in a loop
            for statement in body:
                self._statement(statement, names)

    def _statement(self, node: ast.stmt, names: dict[str, _Java]) -> None:
        match node:
            case ast.FunctionDef():
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                inside = {name: value for name, value in names.items() if name not in {a.arg for a in arguments}}
                inside |= {a.arg: _UNKNOWN for a in arguments if _is_java(a.annotation)}
                self._body(node.body, inside)
            case ast.ClassDef():
                self._body(node.body, dict(names))
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                        for each, given in zip(target.elts, value.elts, strict=True):
                            self._bind(each, self._value(given, names), names)
                    else:
                        self._bind(target, self._value(value, names), names)
            case ast.AnnAssign(target=target, annotation=annotation):
                found = None if node.value is None else self._value(node.value, names)
                self._bind(target, _UNKNOWN if _is_java(annotation) else found, names)
            case ast.For(target=target, iter=over):
                self._bind(target, self._value(over, names), names)
            case ast.With(items=items):
                for item in items:
                    found = self._value(item.context_expr, names)
                    if item.optional_vars is not None:
                        self._bind(item.optional_vars, found, names)
        for _, value in ast.iter_fields(node):
            for part in value if isinstance(value, list) else [value]:
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    continue
                if isinstance(part, ast.stmt):
                    self._statement(part, names)
                elif isinstance(part, ast.ExceptHandler | ast.match_case):
                    self._body(part.body, names)
                elif isinstance(part, ast.expr):
                    self._value(part, names)

    def _bind(self, target: ast.expr, value: _Java | None, names: dict[str, _Java]) -> None:
        parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        for part in parts:
            if isinstance(part, ast.Attribute) and value is not None and part.attr not in self.known.attributes:
                self.attributes[part.attr] = value
            if isinstance(part, ast.Name):
                if value is not None:
                    names[part.id] = value
                else:
                    names.pop(part.id, None)

    def _value(self, node: ast.expr, names: dict[str, _Java]) -> _Java | None:
        match node:
            case ast.Name(id=name):
                return names.get(name)
            case ast.Attribute(value=of, attr=name):
                owner = self._value(of, names)
                if owner is not None:
                    self._note(node, owner.owner, name)
                    return _UNKNOWN
                if name in self.attributes:
                    return self.attributes[name]
                return _UNKNOWN if name in self.known.attributes or _is_of_gateway(of, name) else None
            case ast.Call():
                return self._call(node, names)
            case ast.IfExp(test=test, body=then, orelse=otherwise):
                self._value(test, names)
                return self._first([then, otherwise], names)
            case ast.Lambda(args=arguments, body=body):
                self._value(body, names | {a.arg: _UNKNOWN for a in arguments.args if a.arg in ("change", "plan")})
                return None
            case ast.NamedExpr(target=target, value=value):
                found = self._value(value, names)
                self._bind(target, found, names)
                return found
            case ast.GeneratorExp() | ast.ListComp() | ast.SetComp() | ast.DictComp():
                inside = dict(names)
                for each in node.generators:
                    self._bind(each.target, self._value(each.iter, inside), inside)
                    for condition in each.ifs:
                        self._value(condition, inside)
                made = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
                return self._first(made, inside)
            case ast.Compare() | ast.JoinedStr() | ast.UnaryOp() | ast.BinOp():
                self._first([part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)], names)
                return None
            case ast.Subscript(value=of, slice=part):
                self._value(part, names)
                return self._value(of, names)
            case _:
                return self._first([part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)], names)

    def _first(self, nodes: list[ast.expr], names: dict[str, _Java]) -> _Java | None:
        return next(iter([value for node in nodes if (value := self._value(node, names)) is not None]), None)

    def _call(self, node: ast.Call, names: dict[str, _Java]) -> _Java | None:
        given = self._first([*node.args, *(keyword.value for keyword in node.keywords)], names)
        count = None if any(isinstance(argument, ast.Starred) for argument in node.args) else len(node.args)
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        text = self._text(node.args[0]) if node.args else None
        match called:
            case "java_class" | "running_class" | "JavaClass" | "module":
                owner = None if text is None else text + "$" * (called == "module")
                self._note(node, owner, None)
                return _Java(owner)
            case "load_class" | "has_class" | "is_instance_of" | "build":
                if called == "is_instance_of":
                    text = self._text(node.args[2])
                self._note(node, text, None)
                if called == "build" and text is not None:
                    self._note(node, text + "$", "apply")
                return None if called in ("has_class", "is_instance_of") else _UNKNOWN
            case "changed":
                for keyword in node.keywords:
                    self._note(node, None, keyword.arg)
                return _UNKNOWN
        if isinstance(node.func, ast.Attribute):
            owner = self._value(node.func.value, names)
            if owner is not None:
                self._note(node, owner.owner, called, count)
                return _UNKNOWN
        elif called in names:
            self._note(node, names[called].owner, NEW, count)
            return _UNKNOWN
        elif called in _CONTAINERS:
            return given
        elif isinstance(node.func, ast.Call):  # java_class("...")(...)
            made = self._value(node.func, names)
            if made is not None:
                self._note(node, made.owner, NEW, count)
                return _UNKNOWN
        return _UNKNOWN if called in self.functions else None

    def _note(self, node: ast.expr, owner: str | None, member: str | None, count: int | None = None) -> None:
        if owner is None and (member is None or member in METHODS_OF_PYTHON):
            return
        place = f"{self.path.relative_to(SOURCES)}:{node.lineno}"
        self.found.add(Touch(place, owner, member, count))


def _is_of_gateway(of: ast.expr, name: str) -> bool:
    """Whether an attribute is one of a `Gateway` that holds a Java value."""
    return name in ("session", "jvm", "java", "loader") and ast.unparse(of) in (
        "gateway",
        "self.gateway",
        "self._gateway",
    )


def by_member(touches: list[Touch]) -> Mapping[str, list[Touch]]:
    """The touches that name a member, by it."""
    found: dict[str, list[Touch]] = {}
    for touch in touches:
        if touch.member is not None:
            found.setdefault(touch.member, []).append(touch)
    return found
