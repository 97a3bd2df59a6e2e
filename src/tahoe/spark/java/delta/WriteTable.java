package delta;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.FileFormat$;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.collection.Iterator;

/**
 * The catalog's {@link Table} for statements that write rows. Spark needs it to analyze them; {@link Rewrite} and {@link Statements}
 * replace them before they run, so the scan and the write that this class returns are never executed. It calls no Python.
 */
public class WriteTable implements Table, SupportsRead, SupportsWrite, SupportsMetadataColumns {
  private final Table read;
  private final String url;
  private final boolean strict;
  private final Object replaced;

  public WriteTable(Table read, String url) { this(read, url, false, null); }

  private WriteTable(Table read, String url, boolean strict, Object replaced) {
    this.read = read;
    this.url = url;
    this.strict = strict;
    this.replaced = replaced;
  }

  /** A copy without ACCEPT_ANY_SCHEMA, as the target of a MERGE; see {@link Merges}. */
  WriteTable strict() { return new WriteTable(read, url, true, null); }
  boolean isStrict() { return strict; }

  /** A copy that carries which rows an overwrite replaces, as Spark's InsertReplaceUsing or InsertReplaceOn; see {@link Inserts}. */
  WriteTable replacing(Object replaced) { return new WriteTable(read, url, false, replaced); }
  public Object replaced() { return replaced; }

  public String url() { return url; }
  /** The table that queries read. */
  public Table read() { return read; }
  public String name() { return read.name(); }
  public StructType schema() { return read.schema(); }
  public Column[] columns() { return read.columns(); }
  public Transform[] partitioning() { return read.partitioning(); }
  public Map properties() { return read.properties(); }

  /** {@code _metadata}, as in a query. */
  public MetadataColumn[] metadataColumns() { return new MetadataColumn[] {new Stored()}; }

  /** {@code _metadata} with the fields that Spark has for Parquet files. */
  public static class Stored implements MetadataColumn {
    public String name() { return FileFormat$.MODULE$.METADATA_NAME(); }

    public DataType dataType() {
      StructType fields = new StructType();
      for (Iterator it = new ParquetFileFormat().metadataSchemaFields().iterator(); it.hasNext(); ) {
        StructField field = (StructField) it.next();
        fields = fields.add(field.name(), field.dataType(), field.nullable());
      }
      return fields;
    }
  }

  /** ACCEPT_ANY_SCHEMA, because Python matches, casts and checks columns: only it knows the options that let a schema evolve. */
  public Set capabilities() {
    Set all = new HashSet(Arrays.asList(new TableCapability[] {
        TableCapability.BATCH_READ, TableCapability.BATCH_WRITE, TableCapability.TRUNCATE, TableCapability.OVERWRITE_BY_FILTER,
        TableCapability.OVERWRITE_DYNAMIC }));
    if (!strict) all.add(TableCapability.ACCEPT_ANY_SCHEMA);
    return all;
  }

  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) { return new Unwritten(); }
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) { return new Unread(schema()); }

  public static class Unread implements ScanBuilder, Scan {
    private final StructType schema;
    public Unread(StructType schema) { this.schema = schema; }
    public Scan build() { return this; }
    public StructType readSchema() { return schema; }
  }

  public static class Unwritten implements SupportsOverwriteV2, SupportsDynamicOverwrite, Write {
    public WriteBuilder truncate() { return this; }
    public WriteBuilder overwrite(Predicate[] predicates) { return this; }
    public WriteBuilder overwriteDynamicPartitions() { return this; }
    public Write build() { return this; }
  }
}
