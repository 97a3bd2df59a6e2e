package delta;

import java.util.Collections;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.SupportsV1OverwriteWithSaveAsTable;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.sources.RelationProvider;
import org.apache.spark.sql.sources.SchemaRelationProvider;
import org.apache.spark.sql.sources.StreamSinkProvider;
import org.apache.spark.sql.sources.StreamSourceProvider;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The data source {@code delta}, which Spark loads through {@code META-INF/services}; the name ignores case. Rows are read and written
 * through the V1 source API. As a {@link org.apache.spark.sql.connector.catalog.TableProvider} it makes Spark send CREATE, REPLACE and
 * saveAsTable to the catalogs, and mark a REPLACE that is a saveAsTable. Python: {@code planning.relation}, {@code commands.save},
 * {@code streams.source}, {@code streams.sink}.
 */
public class DefaultSource
    implements SupportsV1OverwriteWithSaveAsTable, RelationProvider, SchemaRelationProvider, CreatableRelationProvider, DataSourceRegister,
        StreamSourceProvider, StreamSinkProvider {
  public String shortName() { return Names.DELTA; }

  public BaseRelation createRelation(SQLContext context, scala.collection.immutable.Map options) {
    return (BaseRelation) Ask.answer(Ask.python.relation(context.sparkSession(), asWritten(options), options));
  }

  /** Spark passes a schema only for a table of a catalog. It is ignored: the schema is in the log. */
  public BaseRelation createRelation(SQLContext context, scala.collection.immutable.Map options, StructType schema) {
    BaseRelation taken = Entry.taken(options);
    return taken == null ? createRelation(context, options) : taken;
  }

  public BaseRelation createRelation(SQLContext context, SaveMode mode, scala.collection.immutable.Map options, Dataset data) {
    return (BaseRelation) Ask.answer(Ask.python.save(context.sparkSession(), mode.name(), asWritten(options), options, data));
  }

  // streams

  /** The schema that Spark passes for a table of a catalog is ignored: the schema is in the log. */
  public Tuple2 sourceSchema(SQLContext context, Option schema, String provider, scala.collection.immutable.Map options) {
    String told = (String) Ask.answer(Ask.python.streamSchema(context.sparkSession(), asWritten(options)));
    Analysed.keep(options, told);
    return new Tuple2(Names.DELTA, DataType.fromJson(told.substring(told.indexOf('\n') + 1)));
  }

  public Source createSource(
      SQLContext context, String checkpoint, Option schema, String provider, scala.collection.immutable.Map options) {
    SparkSession session = context.sparkSession();
    String query = session.sparkContext().getLocalProperty(StreamSink.QUERY);
    return (Source) Ask.answer(Ask.python.streamSource(session, asWritten(options), options, checkpoint, Analysed.of(options), query));
  }

  public Sink createSink(SQLContext context, scala.collection.immutable.Map options, Seq partitions, OutputMode mode) {
    Map written = asWritten(options);
    Ask.answer(Ask.python.streamSink(context.sparkSession(), written, mode.toString()));
    return new StreamSink(context.sparkSession(), written, partitions.mkString("\u0000"), mode.toString());
  }

  /** True for every type: Python refuses types that Delta does not have, with an error that names the column. */
  public boolean supportsDataType(DataType type) { return true; }

  /** The options with their names as the user wrote them. Spark's map lists them in lower case, but property names have capitals. */
  static Map asWritten(scala.collection.immutable.Map options) {
    return CollectionConverters.asJava(options instanceof CaseInsensitiveMap ? ((CaseInsensitiveMap) options).originalMap() : options);
  }

  public StructType inferSchema(CaseInsensitiveStringMap options) { return new StructType(); }
  public Table getTable(StructType schema, Transform[] partitioning, Map properties) { return new Nothing(); }

  /** A table without capabilities, so that Spark falls back to the V1 methods above. */
  public static class Nothing implements Table {
    public String name() { return Names.DELTA; }
    public StructType schema() { return new StructType(); }
    public Set capabilities() { return Collections.emptySet(); }
  }
}
