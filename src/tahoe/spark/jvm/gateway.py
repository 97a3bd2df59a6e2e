"""The way into Spark's JVM: the only module that touches py4j or names a class of Spark's by a string that is not documented API.

Nothing here knows Delta. A `Gateway` is made per call from the session at hand and is never kept, because a session may be stopped
and another may take its place in the same JVM.
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

import pyspark
from py4j.java_gateway import JavaClass
from py4j.java_gateway import JavaObject as NamedObject
from py4j.protocol import GATEWAY_SERVER_OBJECT_ID, Py4JError, Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import StructType

from tahoe.errors import NoGatewayError, ReferenceJarPresentError, UnsupportedSparkVersionError

SUPPORTED_VERSIONS = ("4.1", "4.2", "4.3")

SOURCE_CLASS = "delta.DefaultSource"

# What a configuration written for the reference says; without its JAR there is no such class, and ours takes the place.
REFERENCE_CATALOG_CLASS = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

JavaObject: TypeAlias = Any
"""Whatever py4j hands out; it has no types that a checker could see."""

JVM_ERRORS = (Py4JError, CapturedException, ConnectionError)
"""What a call into the JVM raises: an exception of Java's, one that PySpark has converted, or a JVM that does not answer."""

_compiling = threading.Lock()


def engine_of(spark: SparkSession) -> str:
    """What the history says of who made a commit, as far as it is Spark."""
    return f"Apache-Spark/{spark.version}"


class Gateway:
    """A session's JVM, with the conversions that the Spark ring needs.

    Raises:
        NoGatewayError: the session is a Spark Connect session, or none at all.
    """

    __slots__ = ("java", "jvm", "session", "spark")

    def __init__(self, spark: SparkSession) -> None:
        jvm, session = getattr(spark, "_jvm", None), getattr(spark, "_jsparkSession", None)
        if jvm is None or session is None:
            raise NoGatewayError(session=f"{type(spark).__module__}.{type(spark).__name__}")
        self.spark = spark
        self.jvm: JavaObject = jvm
        """The JVM by package names: `gateway.jvm.java.util.ArrayList()`."""
        self.session: JavaObject = session
        """The `org.apache.spark.sql.classic.SparkSession`."""
        self.java: JavaObject = spark.sparkContext._gateway
        """The py4j gateway itself."""

    @classmethod
    def of(cls, session: JavaObject) -> Gateway:
        """The gateway of a Java session that a callback was given, the session a user holds or one made from it."""
        active = SparkSession._instantiatedSession
        context = pyspark.SparkContext._active_spark_context
        if context is None:
            raise NoGatewayError(session="stopped")
        if active is not None and active._jsparkSession.equals(session):
            return cls(active)
        return cls(SparkSession(context, session))

    @classmethod
    def active(cls) -> Gateway:
        """The gateway of the session that is active in the JVM's thread: the one whose query is being planned."""
        context = pyspark.SparkContext._active_spark_context
        if context is None:
            raise NoGatewayError(session="stopped")
        jvm: JavaObject = context._jvm
        return cls.of(jvm.org.apache.spark.sql.classic.SparkSession.active())

    # --- values into the JVM

    def seq(self, items: Iterable[Any]) -> JavaObject:
        """A Scala immutable `Seq`."""
        return self.jvm.PythonUtils.toSeq(self.list(items))

    def list(self, items: Iterable[Any]) -> JavaObject:
        """A Java `ArrayList`."""
        array = self.jvm.java.util.ArrayList()
        for item in items:
            array.add(item)
        return array

    def array(self, of: JavaObject, items: Iterable[Any]) -> JavaObject:
        """A Java array of a class: `gateway.array(gateway.jvm.java.lang.Object, values)`."""
        values = list(items)
        array = self.java.new_array(of, len(values))
        for position, value in enumerate(values):
            array[position] = value
        return array

    def option(self, value: Any) -> JavaObject:
        """Scala's `Some(value)`, or `None` for None."""
        return self.jvm.scala.Option.apply(value)

    def java_map(self, values: Mapping[str, Any]) -> JavaObject:
        """A Java `HashMap`."""
        result = self.jvm.java.util.HashMap()
        for key, value in values.items():
            result.put(key, value)
        return result

    def scala_map(self, values: Mapping[str, Any]) -> JavaObject:
        """A Scala immutable `Map`."""
        return self.jvm.PythonUtils.toScalaMap(self.java_map(values))

    def struct(self, schema: StructType) -> JavaObject:
        """A PySpark schema as Spark's `StructType`."""
        return self.struct_of_json(schema.json())

    def struct_of_json(self, schema: str) -> JavaObject:
        """A schema's JSON as Spark's `StructType`."""
        return self.session.parseDataType(schema)

    def row(self, *values: Any) -> JavaObject:
        """A Java `Row`."""
        return self.java_class("org.apache.spark.sql.RowFactory").create(self.array(self.jvm.java.lang.Object, values))

    # --- values out of the JVM

    def schema(self, struct: JavaObject) -> StructType:
        """Spark's `StructType` as a PySpark schema."""
        return StructType.fromJson(json.loads(struct.json()))

    def items(self, iterator: JavaObject) -> Iterator[JavaObject]:
        """The items of a Java or Scala iterator, two calls each: for short ones."""
        while iterator.hasNext():
            yield iterator.next()

    def texts(self, java_map: JavaObject) -> dict[str, str]:
        """A Java map of texts, in one call: to iterate over it would take two for each entry, and an exception at the end."""
        mapper = self.java_class("com.fasterxml.jackson.databind.ObjectMapper")()
        found: dict[str, str] = json.loads(mapper.writeValueAsString(java_map))
        return found

    def settings(self) -> dict[str, str]:
        """The session's settings, those that were set."""
        return self.texts(self.session.conf().getAllAsJava())

    def dict(self, scala_map: JavaObject) -> dict[str, Any]:
        """A Scala map with string keys as a dictionary."""
        return {entry._1(): entry._2() for entry in self.items(scala_map.iterator())}

    def dataframe(self, jdf: JavaObject) -> DataFrame:
        """A Java `Dataset` of rows as a DataFrame of its own session."""
        return DataFrame(jdf, Gateway.of(jdf.sparkSession()).spark)

    def dataframe_of_plan(self, plan: JavaObject) -> DataFrame:
        """A logical plan as a DataFrame of this session."""
        return DataFrame(self.module("org.apache.spark.sql.classic.Dataset").ofRows(self.session, plan), self.spark)

    def aliased(self, frame: DataFrame, name: str, qualifier: Iterable[str]) -> DataFrame:
        """A DataFrame whose columns go by a name as well, before which a catalog and a database may stand."""
        identifier = self.java_class("org.apache.spark.sql.catalyst.AliasIdentifier")(name, self.seq(qualifier))
        alias = self.java_class("org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias")
        return self.dataframe_of_plan(alias(identifier, frame._jdf.logicalPlan()))

    def column(self, expression: JavaObject) -> Column:
        """An expression of Catalyst's as a Column."""
        return self.column_of(self.module("org.apache.spark.sql.classic.ExpressionUtils").column(expression))

    def column_of(self, column: JavaObject) -> Column:
        """Spark's Column as PySpark's."""
        return ClassicColumn(column)

    def has_subquery(self, expression: JavaObject) -> bool:
        """Whether a query stands in an expression of Catalyst's."""
        return bool(self.java_class("org.apache.spark.sql.catalyst.expressions.SubqueryExpression").hasSubquery(expression))

    def expression(self, column: Column) -> JavaObject:
        """A Column as an expression of Catalyst's."""
        return self.session.expression(column._jc)

    # --- Scala

    def module(self, name: str) -> JavaObject:
        """The single instance of a Scala object, such as a case class's companion."""
        return getattr(self.java_class(name + "$"), "MODULE$")

    def build(self, name: str, *first: Any) -> JavaObject:
        """A case class from its first fields; the others take their defaults, however many this version of Spark has."""
        return self.java_class("delta.Cases").built(name, self.list(first))

    def changed(self, case_class: JavaObject, **fields: Any) -> JavaObject:
        """A copy of a case class with some fields changed, whatever other fields this version of Spark gives it."""
        return self.java_class("delta.Cases").changed(case_class, self.java_map(fields))

    # --- classes

    def java_class(self, name: str) -> JavaObject:
        """A class by its full name, for its constructors and static members. A path through `jvm` asks the JVM at each of its parts."""
        return JavaClass(name, self.java._gateway_client)

    @property
    def loader(self) -> JavaObject:
        """The driver's class loader that takes further folders: where Spark looks data sources up.

        Raises:
            NoGatewayError: the JVM was not started by Spark's launcher, and no loader above the current one takes folders.
        """
        thread = self.jvm.java.lang.Thread.currentThread()
        loader = thread.getContextClassLoader()
        while loader is not None:
            if "org.apache.spark.util.MutableURLClassLoader" in class_names(loader):
                return loader
            loader = loader.getParent()
        raise NoGatewayError(session="a JVM whose class loader takes no folders")

    def load_class(self, name: str) -> JavaObject:
        """A class by its name, as the current thread sees it."""
        thread = self.jvm.java.lang.Thread.currentThread()
        return self.jvm.java.lang.Class.forName(name, True, thread.getContextClassLoader())

    def has_class(self, name: str) -> bool:
        """Whether there is a class file of that name on the driver's class path."""
        return self.loader.getResource(name.replace(".", "/") + ".class") is not None

    def compile(self, folder: Path, provides: str = SOURCE_CLASS) -> None:
        """Compile a folder of `.java` files with Spark's own compiler into the driver's class loader, unless what it provides is there.

        Executors never see the classes. They go to a temporary folder, with the other files of the folder, which the JVM reads lazily
        and removes when it ends.
        """
        with _compiling:
            if self.has_class(provides):
                return
            target = tempfile.mkdtemp(prefix="tahoe-classes-")
            shutil.copytree(folder, target, ignore=shutil.ignore_patterns("*.java"), dirs_exist_ok=True)
            compiler = self._compiler(target)
            sources = [self.jvm.java.io.File(str(path)) for path in sorted(folder.rglob("*.java"))]
            try:
                compiler.compile(self.array(self.jvm.java.io.File, sources))
            except Py4JJavaError as error:  # a class or a method of Spark's is not where it was
                shutil.rmtree(target, ignore_errors=True)
                reason = str(error.java_exception.getMessage()).splitlines()[0]
                raise UnsupportedSparkVersionError(version=self.spark.version, detail=f", whose classes are others ({reason})") from error
            self.loader.addURL(self.jvm.java.io.File(target).toURI().toURL())
            self._delete_at_exit(target)

    def _compiler(self, target: str) -> JavaObject:
        compiler = self.jvm.org.codehaus.janino.Compiler()
        compiler.setIClassLoader(self.jvm.org.codehaus.janino.ClassLoaderIClassLoader(self.loader))
        compiler.setDestinationDirectory(self.jvm.java.io.File(target), False)
        compiler.setSourceCharset(self.jvm.java.nio.charset.StandardCharsets.UTF_8)
        compiler.setTargetVersion(8)  # for static methods of interfaces
        compiler.setDebugLines(True)
        compiler.setDebugSource(True)
        return compiler

    def _delete_at_exit(self, folder: str) -> None:
        for place, folders, files in os.walk(folder):  # the JVM deletes in reverse order, so folders are named before what they hold
            self.jvm.java.io.File(place).deleteOnExit()
            for name in (*folders, *files):
                self.jvm.java.io.File(os.path.join(place, name)).deleteOnExit()

    def set_static(self, class_name: str, field: str, value: JavaObject) -> None:
        """Give a static field of one of our classes its value."""
        self.load_class(class_name).getField(field).set(None, value)

    def start_callbacks(self) -> None:
        """Let the JVM call Python."""
        ensure_callback_server_started(self.java)  # type: ignore[no-untyped-call]

    @property
    def server(self) -> JavaObject:
        """The JVM's end of py4j."""
        return NamedObject(GATEWAY_SERVER_OBJECT_ID, self.java._gateway_client)

    # --- what a session may be

    def check_version(self) -> None:
        """Refuse a Spark that tahoe was not tried with.

        Raises:
            UnsupportedSparkVersionError: with the version, and PySpark's where they differ.
        """
        version = self.spark.version
        if ".".join(version.split(".")[:2]) not in SUPPORTED_VERSIONS:
            detail = "" if version == pyspark.__version__ else f" under PySpark {pyspark.__version__}"
            raise UnsupportedSparkVersionError(version=version, detail=detail)

    def check_no_reference(self) -> None:
        """Refuse a class path on which Spark would find another source called delta.

        Raises:
            ReferenceJarPresentError: with the JAR.
        """
        found = self._source_called("delta")
        if found is not None and found.getName() != SOURCE_CLASS:
            raise ReferenceJarPresentError(location=_location(found))

    def _source_called(self, name: str) -> JavaObject | None:
        """The class that Spark itself finds for a source's name. Spark has no question that is answered with "none"."""
        if self.has_class("org.apache.spark.sql.delta.sources.DeltaDataSource"):
            return self.load_class("org.apache.spark.sql.delta.sources.DeltaDataSource")
        register = "org.apache.spark.sql.sources.DataSourceRegister"
        providers = self.jvm.java.util.ServiceLoader.load(self.load_class(register), self.loader)
        for provider in self.items(providers.iterator()):
            if provider.shortName().lower() == name:
                return provider.getClass()
        return self.load_class(SOURCE_CLASS) if self.has_class(SOURCE_CLASS) else None


def running_class(name: str) -> JavaObject:
    """A class of the JVM that this process has started, from any thread, and after the session was stopped: for what outlives it.

    Raises:
        NoGatewayError: this process has started none.
    """
    gateway = pyspark.SparkContext._gateway
    if gateway is None:
        raise NoGatewayError(session="a process without one")
    return JavaClass(name, gateway._gateway_client)


def java_error(error: BaseException) -> JavaObject | None:
    """The Java exception behind a Python one; None where there is none."""
    if isinstance(error, Py4JJavaError):
        return error.java_exception
    return error._origin if isinstance(error, CapturedException) else None


def is_wrong_call(error: BaseException) -> bool:
    """Whether the JVM was asked for what it does not have, such as a method: a mistake of ours, and no failure of Spark's."""
    return type(error) is Py4JError


def class_names(thing: JavaObject) -> Iterator[str]:
    """The name of an object's class, and of those above it."""
    found = thing.getClass()
    while found is not None:
        yield str(found.getName())
        found = found.getSuperclass()


def _location(java_class: JavaObject) -> str:
    source = java_class.getProtectionDomain().getCodeSource()
    return str(java_class.getName() if source is None else source.getLocation().getPath())
