package delta;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsPartitionManagement;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.connector.catalog.V2TableWithV1Fallback;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The catalog's {@link Table} for DDL, SHOW and DESCRIBE statements. For a {@link V1Table} of the session's catalog Spark runs its legacy
 * (V1) commands, which support no nested columns, renames or drops; for this class it calls the catalog. Python:
 * {@code show_describe.properties}, {@code planning.relation}.
 */
public class DefinedTable implements SupportsPartitionManagement, SupportsRowLevelOperations, V2TableWithV1Fallback {
  private final V1Table read;
  private final String url;
  private Map properties;

  public DefinedTable(Table read, String url) {
    this.read = (V1Table) read;
    this.url = url;
  }

  public String url() { return url; }

  /**
   * That a table has row-level operations is what AutoCDC flows ask of their target, outside of any query. They are MERGE statements, which
   * {@link Statements} hands to Python, so Spark never asks for one.
   */
  public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
    throw new UnsupportedOperationException("DELETE, UPDATE and MERGE of " + name() + " are run by tahoe, not by Spark's own plans");
  }

  /**
   * The table's entry in the catalog, or one built for its path, with the schema from the log. Spark uses it for streaming writes, and
   * looks it up by its name after each batch: that of a path is in the catalog {@code delta}.
   */
  public CatalogTable v1Table() {
    CatalogTable entry = read.v1Table();
    TableIdentifier name = entry.identifier();
    if (!name.database().contains(Names.DELTA) || !Names.isPath(new String[0], name.table())) return entry;
    return (CatalogTable) Cases.changed(entry, Collections.singletonMap("identifier", new TableIdentifier(name.table(), name.database())));
  }

  public String name() { return read.name(); }
  public StructType schema() { return read.schema(); }
  public Column[] columns() { return read.columns(); }
  public Transform[] partitioning() { return read.partitioning(); }
  public Set capabilities() { return Collections.emptySet(); }

  /** The properties from the log, with Spark's reserved ones, such as location and owner. Asks Python once. */
  public Map properties() {
    if (properties == null) properties = (Map) Ask.answer(Ask.python.properties(SparkSession.active(), this));
    return properties;
  }

  /** For DESCRIBE: the declared keys, and the CHECK constraints. */
  public Constraint[] constraints() { return (Constraint[]) Ask.answer(Ask.python.constraints(SparkSession.active(), this)); }

  // partitions

  /** The partition columns, which may be anywhere in the schema. Spark's default requires them to be the last. */
  public StructType partitionSchema() {
    StructType found = new StructType();
    for (scala.collection.Iterator names = v1Table().partitionColumnNames().iterator(); names.hasNext(); )
      found = found.add(schema().apply((String) names.next()));
    return found;
  }

  /** The partitions whose columns {@code names} have these values; lists the files of the newest version. */
  public InternalRow[] listPartitionIdentifiers(String[] names, InternalRow values) {
    StructType schema = partitionSchema();
    ArrayList found = new ArrayList();
    for (Iterator it = files().listFiles(nothing(), nothing()).iterator(); it.hasNext(); ) {
      InternalRow partition = ((PartitionDirectory) it.next()).values();
      if (matches(schema, partition, names, values)) found.add(partition);
    }
    return (InternalRow[]) found.toArray(new InternalRow[0]);
  }

  /** Those partitions of a message of {@code facts.partitions_of} as external rows, for SHOW PARTITIONS in {@code table_commands}. */
  public scala.collection.immutable.Seq partitions(final String[] names, final InternalRow values, Object message) throws IOException {
    final StructType schema = partitionSchema();
    final Function1 converter = CatalystTypeConverters.createToScalaConverter(schema);
    final ArrayList rows = new ArrayList();
    Answered.each(message, new Answered.Each() {
      public void row(InternalRow partition) {
        if (matches(schema, partition, names, values)) rows.add(converter.apply(partition));
      }
    });
    return CollectionConverters.asScala(rows).toSeq();
  }

  private static boolean matches(StructType schema, InternalRow partition, String[] names, InternalRow values) {
    boolean matches = true;
    for (int i = 0; i < names.length; i++) {
      DataType type = schema.apply(names[i]).dataType();
      Object wanted = values.get(i, type);
      int position = schema.fieldIndex(names[i]);
      Object given = partition.isNullAt(position) ? null : partition.get(position, type);
      matches &= wanted == null ? given == null : wanted.equals(given);
    }
    return matches;
  }

  private Files files() {
    scala.collection.immutable.Map options = (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty();
    options = (scala.collection.immutable.Map) options.updated("path", url);
    Object relation = Ask.answer(Ask.python.relation(SparkSession.active(), CollectionConverters.asJava(options), options));
    return ((Files) ((Relation) relation).location()).withoutRows();
  }

  private static scala.collection.immutable.Seq nothing() { return CollectionConverters.asScala(new ArrayList()).toSeq(); }

  public boolean partitionExists(InternalRow values) {
    return listPartitionIdentifiers(partitionSchema().fieldNames(), values).length > 0;
  }

  public Map loadPartitionMetadata(InternalRow values) { return Collections.emptyMap(); }

  // Python refuses the statements that would call these ({@code ddl.guard})

  public void createPartition(InternalRow values, Map metadata) { throw new UnsupportedOperationException(); }
  public boolean dropPartition(InternalRow values) { throw new UnsupportedOperationException(); }
  public boolean purgePartition(InternalRow values) { throw new UnsupportedOperationException(); }
  public void replacePartitionMetadata(InternalRow values, Map metadata) { throw new UnsupportedOperationException(); }
  public boolean renamePartition(InternalRow from, InternalRow to) { throw new UnsupportedOperationException(); }
  public boolean truncatePartition(InternalRow values) { throw new UnsupportedOperationException(); }
}
