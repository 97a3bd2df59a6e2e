package delta;

import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;

/**
 * The {@link StagedTable} of a source other than Delta, which {@link SessionCatalog} has already created: Spark requires one from a staging
 * catalog. If the statement fails, the table is dropped. It calls no Python.
 */
public class Unstaged implements StagedTable, SupportsWrite {
  private final TableCatalog catalog;
  private final Identifier name;
  private final Table table;

  public Unstaged(TableCatalog catalog, Identifier name, Table table) {
    this.catalog = catalog;
    this.name = name;
    this.table = table;
  }

  public void commitStagedChanges() { }
  public void abortStagedChanges() { catalog.dropTable(name); }

  public String name() { return table.name(); }
  public StructType schema() { return table.schema(); }
  public Column[] columns() { return table.columns(); }
  public Transform[] partitioning() { return table.partitioning(); }
  public Map properties() { return table.properties(); }
  public Set capabilities() { return table.capabilities(); }
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) { return ((SupportsWrite) table).newWriteBuilder(info); }
}
