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
 * A table as statements see it that write to it. Spark analyses them, and {@link Rewrite} takes them before they run: neither the scan nor
 * the write that are handed out here are ever executed.
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

  /** The table as one whose rows have the columns that it has, and no others. */
  WriteTable strict() { return new WriteTable(read, url, true, null); }
  boolean isStrict() { return strict; }

  /** The table as one of which an overwrite replaces some rows: Spark's InsertReplaceUsing or InsertReplaceOn. */
  WriteTable replacing(Object replaced) { return new WriteTable(read, url, false, replaced); }
  public Object replaced() { return replaced; }

  public String url() { return url; }
  public Table read() { return read; }
  public String name() { return read.name(); }
  public StructType schema() { return read.schema(); }
  public Column[] columns() { return read.columns(); }
  public Transform[] partitioning() { return read.partitioning(); }
  public Map properties() { return read.properties(); }

  /** Where rows are stored, as queries see it. */
  public MetadataColumn[] metadataColumns() { return new MetadataColumn[] {new Stored()}; }

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

  /** Any schema: columns are matched, cast and checked in Python, where the options are known that let a schema change. */
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
