"""Access to Spark's JVM through py4j: conversions between Python and Java values, class loading, and checks of the
Spark version.

This module knows nothing about Delta. A `Gateway` is created per call from the current session and is never kept,
because a session may be stopped and replaced by another one in the same JVM.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import ZipFile

import pyspark
from py4j.java_gateway import JavaClass
from py4j.java_gateway import JavaObject as NamedObject
from py4j.protocol import GATEWAY_SERVER_OBJECT_ID, Py4JError, Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import StructType

from tahoe.errors import NoGatewayError, ReferenceJarPresentError, SessionNotEnabledError, UnsupportedSparkVersionError
from tahoe.spark.configuration.setting_names import USER_METADATA
from tahoe.table.commit.draft import Author

SUPPORTED_VERSIONS = ("4.1", "4.2", "4.3")

SOURCE_CLASS = "delta.DefaultSource"

# In Spark 4.2 and newer, where catalogs that are not Spark's own have views.
RELATION_CATALOG = "org.apache.spark.sql.connector.catalog.RelationCatalog"

_STOPPED = "the session was stopped"

JavaObject: TypeAlias = Any
"""Any object that py4j returns. py4j has no types that a type checker could use."""

JVM_ERRORS = (Py4JError, CapturedException, ConnectionError)
"""The errors of a call into the JVM: a Java exception, an exception that PySpark has converted, or a lost
connection.
"""

# What tasks run of tahoe's Java: it is sent to executors as one JAR.
EXECUTOR_SOURCES = Path(__file__).parents[1] / "java_executors"

_compiling = threading.Lock()


class _Returned(threading.local):
    value: JavaObject | None = None


_returned = _Returned()


def returned(value: Any) -> Any:
    """The result of a callback from the JVM, which stays alive until this thread returns the next one.

    py4j sends the id of a Java object. If Python drops the object before the JVM has looked up the id, the JVM gets
    null instead, without an error. A thread answers one thread of the JVM at a time, so the next callback begins after
    the JVM has the result of this one.
    """
    _returned.value = value
    return value


def engine_of(spark: SparkSession) -> str:
    """Spark's part of the engine name (`engineInfo`) in a commit."""
    return f"Apache-Spark/{spark.version}"


def author_of(spark: SparkSession) -> Author:
    """Who makes the commits of a session, unless a write says otherwise."""
    return Author(user_metadata=USER_METADATA.of(spark.conf), engine=engine_of(spark))


_MAPPER = "com.fasterxml.jackson.databind.ObjectMapper"


class Gateway:
    """A session's JVM, with the conversions that the Spark ring needs.

    Raises:
        NoGatewayError: the object is a Spark Connect session, or not a Spark session.
    """

    __slots__ = ("java", "jvm", "session", "spark")

    def __init__(self, spark: SparkSession) -> None:
        jvm, session = getattr(spark, "_jvm", None), getattr(spark, "_jsparkSession", None)
        if jvm is None or session is None:
            raise NoGatewayError(session=f"{type(spark).__module__}.{type(spark).__name__} has none")
        self.spark = spark
        self.jvm: JavaObject = jvm
        """The view of the JVM that PySpark has. For classes by their names there is `java_class`."""
        self.session: JavaObject = session
        """The `org.apache.spark.sql.classic.SparkSession`."""
        self.java: JavaObject = spark.sparkContext._gateway
        """The py4j gateway itself."""

    @classmethod
    def of(cls, session: JavaObject) -> Gateway:
        """The gateway of a Java session that a callback received: the user's session or one derived from it."""
        active = SparkSession._instantiatedSession
        context = pyspark.SparkContext._active_spark_context
        if context is None:
            raise NoGatewayError(session=_STOPPED)
        if active is not None and active._jsparkSession.equals(session):
            return cls(active)
        return cls(SparkSession(context, session))

    @classmethod
    def active(cls) -> Gateway:
        """The gateway of the JVM thread's active session, whose query is being planned."""
        context = pyspark.SparkContext._active_spark_context
        if context is None or context._gateway is None:
            raise NoGatewayError(session=_STOPPED)
        return cls.of(JavaClass("org.apache.spark.sql.classic.SparkSession", context._gateway._gateway_client).active())

    # --- values into the JVM

    def seq(self, items: Iterable[Any]) -> JavaObject:
        """A Scala immutable `Seq`."""
        return self._python_utils.toSeq(self.list(items))

    def list(self, items: Iterable[Any]) -> JavaObject:
        """A Java `ArrayList`."""
        array = self.java_class("java.util.ArrayList")()
        for item in items:
            array.add(item)
        return array

    def array(self, of: JavaObject, items: Iterable[Any]) -> JavaObject:
        """A Java array of a class: `gateway.array(gateway.java_class("java.lang.Object"), values)`."""
        values = list(items)
        array = self.java.new_array(of, len(values))
        for position, value in enumerate(values):
            array[position] = value
        return array

    def option(self, value: Any) -> JavaObject:
        """A Scala `Option`: `Some(value)`, or Scala's `None` for None."""
        return self.java_class("scala.Option").apply(value)

    def java_map(self, values: Mapping[str, Any]) -> JavaObject:
        """A Java `HashMap`."""
        result = self.java_class("java.util.HashMap")()
        for key, value in values.items():
            result.put(key, value)
        return result

    def text_map(self, values: Mapping[str, str]) -> JavaObject:
        """A Java `HashMap` of texts, in one call as JSON, however many they are."""
        return self.java_class(_MAPPER)().readValue(json.dumps(values), self.load_class("java.util.HashMap"))

    def scala_map(self, values: Mapping[str, Any]) -> JavaObject:
        """A Scala immutable `Map`."""
        return self._python_utils.toScalaMap(self.java_map(values))

    @property
    def _python_utils(self) -> JavaObject:
        return self.java_class("org.apache.spark.api.python.PythonUtils")

    def struct(self, schema: StructType) -> JavaObject:
        """A PySpark schema as Spark's `StructType`."""
        return self.struct_of_json(schema.json())

    def struct_of_json(self, schema: str) -> JavaObject:
        """A schema's JSON as Spark's `StructType`."""
        return self.session.parseDataType(schema)

    def row(self, *values: Any) -> JavaObject:
        """A Java `Row`."""
        return self.java_class("org.apache.spark.sql.RowFactory").create(
            self.array(self.java_class("java.lang.Object"), values)
        )

    # --- values out of the JVM

    def schema(self, struct: JavaObject) -> StructType:
        """Spark's `StructType` as a PySpark schema."""
        return StructType.fromJson(json.loads(struct.json()))

    def items(self, iterator: JavaObject) -> Iterator[JavaObject]:
        """The items of a Java or Scala iterator. Each item takes two calls into the JVM, so use it for short
        iterators.
        """
        while iterator.hasNext():
            yield iterator.next()

    def texts(self, java_map: JavaObject) -> dict[str, str]:
        """A Java map of strings, in one call as JSON. Iteration would take two calls for each entry, and an exception
        at the end.
        """
        found: dict[str, str] = json.loads(self.java_class(_MAPPER)().writeValueAsString(java_map))
        return found

    def settings(self) -> dict[str, str]:
        """The session's settings that are set explicitly."""
        return self.texts(self.session.conf().getAllAsJava())

    def dict(self, scala_map: JavaObject) -> dict[str, Any]:
        """A Scala map with string keys as a dictionary."""
        return {entry._1(): entry._2() for entry in self.items(scala_map.iterator())}

    def dataframe(self, jdf: JavaObject) -> DataFrame:
        """A Java `Dataset` of rows as a DataFrame of the dataset's session."""
        return DataFrame(jdf, Gateway.of(jdf.sparkSession()).spark)

    def dataframe_of_plan(self, plan: JavaObject) -> DataFrame:
        """A logical plan as a DataFrame of this session."""
        return DataFrame(self.module("org.apache.spark.sql.classic.Dataset").ofRows(self.session, plan), self.spark)

    def aliased(self, frame: DataFrame, name: str, qualifier: Iterable[str]) -> DataFrame:
        """A DataFrame under an alias, so that its columns can be qualified with it.

        Args:
            qualifier: the alias's catalog and database, possibly empty.
        """
        identifier = self.java_class("org.apache.spark.sql.catalyst.AliasIdentifier")(name, self.seq(qualifier))
        alias = self.java_class("org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias")
        return self.dataframe_of_plan(alias(identifier, frame._jdf.logicalPlan()))

    def column(self, expression: JavaObject) -> Column:
        """A Catalyst expression as a Column."""
        return self.column_of(self.module("org.apache.spark.sql.classic.ExpressionUtils").column(expression))

    def column_of(self, column: JavaObject) -> Column:
        """Spark's JVM Column as a PySpark Column."""
        return ClassicColumn(column)

    def has_subquery(self, expression: JavaObject) -> bool:
        """Whether a Catalyst expression contains a subquery."""
        return bool(
            self.java_class("org.apache.spark.sql.catalyst.expressions.SubqueryExpression").hasSubquery(expression)
        )

    def expression(self, column: Column) -> JavaObject:
        """A Column as a Catalyst expression."""
        return self.session.expression(column._jc)

    # --- Scala

    def module(self, name: str) -> JavaObject:
        """The single instance of a Scala object, such as a case class's companion."""
        return getattr(self.java_class(name + "$"), "MODULE$")

    def build(self, name: str, *first: Any) -> JavaObject:
        """A new instance of a case class from its first fields. The other fields, which depend on Spark's version, take
        their defaults.
        """
        return self.java_class("delta.Cases").built(name, self.list(first))

    def changed(self, case_class: JavaObject, **fields: Any) -> JavaObject:
        """A copy of a case class with some fields changed. The other fields, which depend on Spark's version, are
        copied.
        """
        return self.java_class("delta.Cases").changed(case_class, self.java_map(fields))

    # --- classes

    def java_class(self, name: str) -> JavaObject:
        """A class by its full name, for its constructors and static members.

        A path through `jvm` would call the JVM for each part, which looks in all JARs for classes of these names in
        each imported package.
        """
        return JavaClass(name, self.java._gateway_client)

    @property
    def loader(self) -> JavaObject:
        """The driver's class loader to which folders can be added, and in which Spark looks up data sources.

        Raises:
            NoGatewayError: the JVM was not started by Spark's launcher, and neither the thread's class loader nor a
                parent accepts folders.
        """
        loader = self._thread_loader
        while loader is not None:
            if "org.apache.spark.util.MutableURLClassLoader" in class_names(loader):
                return loader
            loader = loader.getParent()
        raise NoGatewayError(session="the class loader of this JVM does not accept folders")

    def load_class(self, name: str) -> JavaObject:
        """A `java.lang.Class` by name, from the current thread's class loader."""
        return self.java_class("java.lang.Class").forName(name, True, self._thread_loader)

    @property
    def _thread_loader(self) -> JavaObject:
        return self.java_class("java.lang.Thread").currentThread().getContextClassLoader()

    def has_class(self, name: str) -> bool:
        """Whether the driver's class path has a class of this name."""
        return self.loader.getResource(name.replace(".", "/") + ".class") is not None

    def compile(self, *folders: Path, provides: str = SOURCE_CLASS) -> None:
        """Compile folders of `.java` files with Spark's compiler (Janino) and add the classes to the driver's class
        loader. A file takes the place of one of the same name in an earlier folder.

        Does nothing if the class `provides` exists already. Executors never see the classes. The classes and the other
        files of the folders go to a temporary folder, from which the JVM loads lazily, and which it deletes when it
        exits.
        """
        with _compiling:
            if not self.has_class(provides):
                classes = self._compiled(*folders)
                self._add_to_loader(classes)
                self._delete_at_exit(classes)

    def compiled_jar(self, folder: Path, provides: str) -> str:
        """The path of a JAR with the compiled `.java` files of a folder, for executors. The driver has its classes too.

        It is made once in a JVM, which deletes it when it exits.
        """
        with _compiling:
            member = provides.replace(".", "/") + ".class"
            resource = self.loader.getResource(member)
            if resource is not None:
                return str(resource.openConnection().getJarFileURL().getPath())
            classes = Path(self._compiled(folder))
            jar = classes / f"{classes.name}.jar"
            with ZipFile(jar, "w") as archive:
                for file in sorted(classes.rglob("*.class")):
                    archive.write(file, file.relative_to(classes).as_posix())
            self._add_to_loader(str(jar))
            self._delete_at_exit(str(classes))
            return str(jar)

    def _compiled(self, *folders: Path) -> str:
        """A temporary folder with the compiled `.java` files of folders, and their other files."""
        target = tempfile.mkdtemp(prefix="tahoe-classes-")
        for folder in folders:
            shutil.copytree(folder, target, ignore=shutil.ignore_patterns("*.java"), dirs_exist_ok=True)
        compiler, file = self._compiler(target), self.java_class("java.io.File")
        sources = {path.relative_to(folder): path for folder in folders for path in sorted(folder.rglob("*.java"))}
        try:
            compiler.compile(self.array(file, [file(str(path)) for path in sources.values()]))
        except Py4JJavaError as error:  # this version of Spark has moved or changed a class or method
            shutil.rmtree(target, ignore_errors=True)
            reason = str(error.java_exception.getMessage()).splitlines()[0]
            raise UnsupportedSparkVersionError(
                version=self.spark.version, detail=f", whose classes differ ({reason})"
            ) from error
        return target

    def _add_to_loader(self, path: str) -> None:
        self.loader.addURL(self.java_class("java.io.File")(path).toURI().toURL())

    def _compiler(self, target: str) -> JavaObject:
        compiler = self.java_class("org.codehaus.janino.Compiler")()
        compiler.setIClassLoader(self.java_class("org.codehaus.janino.ClassLoaderIClassLoader")(self.loader))
        compiler.setDestinationDirectory(self.java_class("java.io.File")(target), False)
        compiler.setSourceCharset(self.java_class("java.nio.charset.StandardCharsets").UTF_8)
        compiler.setTargetVersion(8)  # for static methods of interfaces
        compiler.setDebugLines(True)
        compiler.setDebugSource(True)
        return compiler

    def _delete_at_exit(self, folder: str) -> None:
        file = self.java_class("java.io.File")
        for place, _, files in os.walk(
            folder
        ):  # the JVM deletes in reverse order, so folders come before their contents
            for path in (place, *(os.path.join(place, name) for name in files)):
                file(path).deleteOnExit()

    def set_static(self, class_name: str, field: str, value: JavaObject) -> None:
        """Set a static field of one of our classes."""
        self.load_class(class_name).getField(field).set(None, value)

    def start_callbacks(self) -> None:
        """Start py4j's callback server, so that the JVM can call Python."""
        ensure_callback_server_started(self.java)  # type: ignore[no-untyped-call]

    @property
    def server(self) -> JavaObject:
        """The py4j server object in the JVM."""
        return NamedObject(GATEWAY_SERVER_OBJECT_ID, self.java._gateway_client)

    # --- what a session may be

    def check_session(self) -> None:
        """Refuse a session that was stopped, and a version of Spark that tahoe was not tested with.

        Raises:
            NoGatewayError: the session was stopped.
            UnsupportedSparkVersionError: names Spark's version, and PySpark's version if it differs.
        """
        if self.spark.sparkContext._jsc is None:
            raise NoGatewayError(session=_STOPPED)
        version = self.spark.version
        if ".".join(version.split(".")[:2]) not in SUPPORTED_VERSIONS:
            detail = "" if version == pyspark.__version__ else f" under PySpark {pyspark.__version__}"
            raise UnsupportedSparkVersionError(version=version, detail=detail)

    def check_enabled(self) -> None:
        """Refuse a session that has none of our classes.

        Raises:
            SessionNotEnabledError
        """
        if not self.has_class(SOURCE_CLASS):
            raise SessionNotEnabledError()

    def check_no_reference(self) -> None:
        """Refuse a class path on which Spark would find another data source named `delta`.

        Raises:
            ReferenceJarPresentError: names the JAR.
        """
        found = self._source_called("delta")
        if found is not None and found.getName() != SOURCE_CLASS:
            raise ReferenceJarPresentError(location=_location(found))

    def _source_called(self, name: str) -> JavaObject | None:
        """The class that Spark finds for a data source's name, or None. Spark's own lookup fails if there is none."""
        if self.has_class("org.apache.spark.sql.delta.sources.DeltaDataSource"):
            return self.load_class("org.apache.spark.sql.delta.sources.DeltaDataSource")
        register = "org.apache.spark.sql.sources.DataSourceRegister"
        providers = self.java_class("java.util.ServiceLoader").load(self.load_class(register), self.loader)
        for provider in self.items(providers.iterator()):
            if provider.shortName().lower() == name:
                return provider.getClass()
        return self.load_class(SOURCE_CLASS) if self.has_class(SOURCE_CLASS) else None


def running_class(name: str) -> JavaObject:
    """A class of the JVM that this process has started. It works in any thread, and after the session was stopped.

    Raises:
        NoGatewayError: this process has not started a JVM.
    """
    gateway = pyspark.SparkContext._gateway
    if gateway is None:
        raise NoGatewayError(session="this process has not started one")
    return JavaClass(name, gateway._gateway_client)


def has_gateway() -> bool:
    """Whether this process has started a JVM."""
    return pyspark.SparkContext._gateway is not None


def java_error(error: BaseException) -> JavaObject | None:
    """The Java exception behind a Python exception; None if there is none."""
    if isinstance(error, Py4JJavaError):
        return error.java_exception
    return error._origin if isinstance(error, CapturedException) else None


def is_wrong_call(error: BaseException) -> bool:
    """Whether a call named something that the JVM does not have, such as a method. This is a bug of tahoe, not a
    failure of Spark.
    """
    return type(error) is Py4JError


def class_names(thing: JavaObject) -> Iterator[str]:
    """The names of an object's class and its superclasses."""
    found = thing.getClass()
    while found is not None:
        yield str(found.getName())
        found = found.getSuperclass()


def _location(java_class: JavaObject) -> str:
    source = java_class.getProtectionDomain().getCodeSource()
    return str(java_class.getName() if source is None else source.getLocation().getPath())
