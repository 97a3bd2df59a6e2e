package delta;

import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.DelegatingCatalogExtension;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.connector.expressions.Transform;

/** The session's own catalog, in which our tables have the schema of their log, a past, and a writer. */
public class SessionCatalog extends DelegatingCatalogExtension implements StagingTableCatalog {
  private static boolean isOurs(Map properties) { return "delta".equalsIgnoreCase((String) properties.get("provider")); }

  private static boolean isOurs(Table table) { return table instanceof V1Table && isOurs(table.properties()); }

  private static Table at(Table table, String at) {
    CatalogTable entry = ((V1Table) table).v1Table();
    return Entry.of(new Path(entry.location()).toString(), at).ofName(entry);
  }

  static WriteTable writable(Table table) {
    return new WriteTable(table, new Path(((V1Table) table).v1Table().location()).toString());
  }

  public Table loadTable(Identifier name) throws NoSuchTableException {
    Table table = super.loadTable(name);
    return isOurs(table) ? at(table, "") : table;
  }

  public Table loadTable(Identifier name, String version) throws NoSuchTableException {
    Table table = super.loadTable(name);
    return isOurs(table) ? at(table, "version " + version) : super.loadTable(name, version);
  }

  public Table loadTable(Identifier name, long micros) throws NoSuchTableException {
    Table table = super.loadTable(name);
    return isOurs(table) ? at(table, "timestamp " + micros) : super.loadTable(name, micros);
  }

  public Table loadTable(Identifier name, Set privileges) throws NoSuchTableException {
    Table table = loadTable(name);  // what the interface does by default, which Janino calls wrongly
    return isOurs(table) ? writable(table) : table;
  }

  public Table createTable(Identifier name, Column[] columns, Transform[] partitions, Map properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    if (!isOurs(properties)) return super.createTable(name, columns, partitions, properties);
    stage("create", name, columns, partitions, properties).commitStagedChanges();
    try {
      return loadTable(name);
    } catch (NoSuchTableException error) {
      throw new IllegalStateException(error);
    }
  }

  private static Staged stage(String mode, Identifier name, Column[] columns, Transform[] partitions, Map properties) {
    return new Staged(mode, null, name, columns, partitions, properties);
  }

  public StagedTable stageCreate(Identifier name, Column[] columns, Transform[] partitions, Map properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    if (isOurs(properties)) return stage("create", name, columns, partitions, properties);
    return new Unstaged(this, name, super.createTable(name, columns, partitions, properties));
  }

  public StagedTable stageReplace(Identifier name, Column[] columns, Transform[] partitions, Map properties)
      throws NoSuchTableException, NoSuchNamespaceException {
    if (isOurs(properties)) return stage("replace", name, columns, partitions, properties);
    super.dropTable(name);
    return created(name, columns, partitions, properties);
  }

  public StagedTable stageCreateOrReplace(Identifier name, Column[] columns, Transform[] partitions, Map properties)
      throws NoSuchNamespaceException {
    if (isOurs(properties)) return stage("create or replace", name, columns, partitions, properties);
    super.dropTable(name);
    return created(name, columns, partitions, properties);
  }

  private StagedTable created(Identifier name, Column[] columns, Transform[] partitions, Map properties) throws NoSuchNamespaceException {
    try {
      return new Unstaged(this, name, super.createTable(name, columns, partitions, properties));
    } catch (TableAlreadyExistsException error) {
      throw new IllegalStateException(error);
    }
  }
}
