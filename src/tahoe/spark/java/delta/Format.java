package delta;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.util.QuotingUtils;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.Product;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A {@code ParquetFileFormat} for files in which columns have physical names, field ids or other types than in the table (column mapping,
 * type widening, void columns). It passes the physical schema and filters to Spark's reader; executors run only Spark's code. Python:
 * {@code data_files.physical_schema_json}, when a scan is built.
 */
public class Format extends Parquet {
  private final String schema;
  private final boolean byId;
  private final Map columns;
  private final StructType metadata;

  /**
   * @param schema the column mapping mode and the table's schema, as the JSON that {@code data_files} creates and reads
   * @param byId whether Spark's reader finds columns by field id
   * @param paths the physical paths of the columns that filters may use, by logical path; parts of a path are separated by NUL
   * @param metadata the fields of {@code _metadata} beside Spark's own, as a schema's JSON; a plan of {@link Rewrite} provides them
   * @param reason see {@link Parquet}
   * @param cache see {@link Parquet}
   */
  public Format(String schema, boolean byId, Map paths, String metadata, String reason, LocalCache cache) {
    super(reason, cache);
    this.schema = schema;
    this.byId = byId;
    this.metadata = (StructType) DataType.fromJson(metadata);
    this.columns = new HashMap();
    for (java.util.Iterator it = paths.entrySet().iterator(); it.hasNext(); ) {
      Map.Entry entry = (Map.Entry) it.next();
      columns.put(quoted((String) entry.getKey()), quoted((String) entry.getValue()));
    }
  }

  private static String quoted(String path) {
    StringBuilder text = new StringBuilder();
    String[] parts = path.split("\\u0000");
    for (int i = 0; i < parts.length; i++) text.append(i == 0 ? "" : ".").append(QuotingUtils.quoteIfNeeded(parts[i]));
    return text.toString();
  }

  public Function1 buildReaderWithPartitionValues(
      SparkSession session, StructType data, StructType partitions, StructType required, Seq filters,
      scala.collection.immutable.Map options, Configuration conf) {
    if (byId) conf.setBoolean("spark.sql.parquet.fieldId.read.enabled", true);
    return super.buildReaderWithPartitionValues(
        session, physical(data), partitions, physical(required), physical(filters), options, conf);
  }

  private StructType physical(StructType logical) {
    return (StructType) DataType.fromJson((String) Ask.answer(Ask.python.physical(schema, logical.json())));
  }

  /** The filters on physical columns. Filters that cannot be translated are left out: Spark's reader only skips with them. */
  private Seq physical(Seq filters) {
    ArrayList told = new ArrayList();
    for (Iterator it = filters.iterator(); it.hasNext(); ) {
      Object filter = physical((Filter) it.next());
      if (filter != null) told.add(filter);
    }
    return CollectionConverters.asScala(told).toSeq();
  }

  /** A filter on physical columns; null if it has none. Its class is a case class of other filters, or of a column name and values. */
  private Filter physical(Filter filter) {
    Object[] fields = new Object[((Product) filter).productArity()];
    for (int i = 0; i < fields.length; i++) {
      Object field = ((Product) filter).productElement(i);
      if (field instanceof Filter) field = physical((Filter) field);
      else if (i == 0 && field instanceof String) field = columns.get(field);
      if (field == null && ((Product) filter).productElement(i) != null) return null;
      fields[i] = field;
    }
    try {
      return (Filter) filter.getClass().getConstructors()[0].newInstance(fields);
    } catch (ReflectiveOperationException error) {
      return null;
    }
  }

  public Seq metadataSchemaFields() {
    ArrayList fields = new ArrayList(CollectionConverters.asJava(super.metadataSchemaFields()));
    fields.addAll(Arrays.asList(metadata.fields()));
    return CollectionConverters.asScala(fields).toSeq();
  }

  /** True for every type: Spark's format refuses void columns, which are in no file. */
  public boolean supportDataType(DataType type) { return true; }

  public int hashCode() { return schema.hashCode(); }

  public boolean equals(Object other) {
    return other instanceof Format && ((Format) other).schema.equals(schema) && ((Format) other).metadata.equals(metadata);
  }
}
