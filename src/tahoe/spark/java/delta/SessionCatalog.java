package delta;

import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
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
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.connector.catalog.constraints.Check;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.expressions.Transform;

/** The session's own catalog, in which our tables have the schema of their log, a past, and a writer. */
public class SessionCatalog extends DelegatingCatalogExtension implements StagingTableCatalog {
  /** What columns of our tables may be declared with. */
  static final Set COLUMNS = new HashSet(Arrays.asList(new TableCatalogCapability[] {
      TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE, TableCatalogCapability.SUPPORTS_CREATE_TABLE_WITH_GENERATED_COLUMNS,
      TableCatalogCapability.SUPPORTS_CREATE_TABLE_WITH_IDENTITY_COLUMNS, TableCatalogCapability.SUPPORT_TABLE_CONSTRAINT }));

  public Set capabilities() {
    Set all = new HashSet(super.capabilities());
    all.addAll(COLUMNS);
    return all;
  }

  /** Constraints that a statement declares are properties of ours, whose rows are looked at when they come. */
  static Map declared(TableInfo info) {
    HashMap properties = new HashMap(info.properties());
    Constraint[] constraints = info.constraints();
    for (int i = 0; i < constraints.length; i++) {
      if (!(constraints[i] instanceof Check))
        throw new UnsupportedOperationException("Delta tables support only CHECK constraints, not " + constraints[i].toDDL());
      properties.put("delta.constraints." + constraints[i].name(), ((Check) constraints[i]).predicateSql());
    }
    return properties;
  }

  private Map declared(Identifier name, TableInfo info) {
    if (info.constraints().length > 0 && !isOurs(info.properties())) throw unsupported(name, "table constraint");
    return declared(info);
  }

  public Table createTable(Identifier name, TableInfo info) throws TableAlreadyExistsException, NoSuchNamespaceException {
    return createTable(name, info.columns(), info.partitions(), declared(name, info));
  }

  public StagedTable stageCreate(Identifier name, TableInfo info) throws TableAlreadyExistsException, NoSuchNamespaceException {
    return stageCreate(name, info.columns(), info.partitions(), declared(name, info));
  }

  public StagedTable stageReplace(Identifier name, TableInfo info) throws NoSuchTableException, NoSuchNamespaceException {
    return stageReplace(name, info.columns(), info.partitions(), declared(name, info));
  }

  public StagedTable stageCreateOrReplace(Identifier name, TableInfo info) throws NoSuchNamespaceException {
    return stageCreateOrReplace(name, info.columns(), info.partitions(), declared(name, info));
  }

  /** Spark asks the catalog, and not the table, whether columns may be generated; those of other formats may not. */
  private void checkForeign(Identifier name, Column[] columns) {
    for (int i = 0; i < columns.length; i++) {
      if (columns[i].generationExpression() != null) throw unsupported(name, "generated columns");
      if (columns[i].identityColumnSpec() != null) throw unsupported(name, "identity column");
    }
  }

  private RuntimeException unsupported(Identifier name, String what) {
    String[] namespace = name.namespace();
    String prefix = namespace.length == 0 ? "" : String.join(".", namespace) + ".";
    return new UnsupportedOperationException("Table " + name() + "." + prefix + name.name() + " does not support " + what);
  }

  private static boolean isOurs(Map properties) { return "delta".equalsIgnoreCase((String) properties.get("provider")); }

  private static boolean isOurs(Table table) { return table instanceof V1Table && isOurs(table.properties()); }

  private static Table at(Table table, String at) {
    CatalogTable entry = ((V1Table) table).v1Table();
    return Entry.of(new Path(entry.location()).toString(), at).ofName(entry);
  }

  static WriteTable writable(Table table) {
    return new WriteTable(table, new Path(((V1Table) table).v1Table().location()).toString());
  }

  static DefinedTable defined(Table table) {
    return new DefinedTable(table, new Path(((V1Table) table).v1Table().location()).toString());
  }

  /** Whether the caller resolves a relation. Others want to know what a table is, or whether there is one. */
  static boolean isForQuery() { return isCalledBy(".RelationResolution"); }

  /** A stream that is to be written to a table makes the table before it looks whether it can be written so. */
  static void checkNoStream(Identifier name) {
    if (isCalledBy(".DataStreamWriter")) Ask.answer(Ask.python.stream("write", name.toString()));
  }

  private static boolean isCalledBy(String name) {
    StackTraceElement[] callers = Thread.currentThread().getStackTrace();
    for (int i = 0; i < callers.length; i++) {
      if (callers[i].getClassName().endsWith(name)) return true;
    }
    return false;
  }

  public Table loadTable(Identifier name) throws NoSuchTableException {
    Table table = super.loadTable(name);
    if (!isOurs(table)) return table;
    Table ours = at(table, "");
    return isForQuery() ? ours : (Table) defined(ours);
  }

  public Table alterTable(Identifier name, TableChange[] changes) throws NoSuchTableException {
    Table table = super.loadTable(name);
    if (!isOurs(table)) {
      for (int i = 0; i < changes.length; i++) {
        boolean isConstraint = changes[i] instanceof TableChange.AddConstraint || changes[i] instanceof TableChange.DropConstraint;
        if (isConstraint) throw unsupported(name, "table constraint");
      }
      return super.alterTable(name, changes);
    }
    Ask.answer(Ask.python.alter(SparkSession.active(), defined(table), changes));
    return loadTable(name);
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
    Table table = super.loadTable(name);  // not with the privileges: Janino calls what an interface does by default wrongly
    return isOurs(table) ? writable(at(table, "")) : table;
  }

  public Table createTable(Identifier name, Column[] columns, Transform[] partitions, Map properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    if (!isOurs(properties)) return foreign(name, columns, partitions, properties);
    stage("create", name, columns, partitions, properties).commitStagedChanges();
    try {
      return loadTable(name);
    } catch (NoSuchTableException error) {
      throw new IllegalStateException(error);
    }
  }

  private Table foreign(Identifier name, Column[] columns, Transform[] partitions, Map properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    checkForeign(name, columns);
    return super.createTable(name, columns, partitions, properties);
  }

  private static Staged stage(String mode, Identifier name, Column[] columns, Transform[] partitions, Map properties) {
    checkNoStream(name);
    return new Staged(mode, null, name, columns, partitions, properties);
  }

  public StagedTable stageCreate(Identifier name, Column[] columns, Transform[] partitions, Map properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    if (isOurs(properties)) return stage("create", name, columns, partitions, properties);
    return new Unstaged(this, name, foreign(name, columns, partitions, properties));
  }

  public StagedTable stageReplace(Identifier name, Column[] columns, Transform[] partitions, Map properties)
      throws NoSuchTableException, NoSuchNamespaceException {
    if (isOurs(properties)) return stage("replace", name, columns, partitions, properties);
    checkForeign(name, columns);
    super.dropTable(name);
    return created(name, columns, partitions, properties);
  }

  public StagedTable stageCreateOrReplace(Identifier name, Column[] columns, Transform[] partitions, Map properties)
      throws NoSuchNamespaceException {
    if (isOurs(properties)) return stage("create or replace", name, columns, partitions, properties);
    checkForeign(name, columns);
    super.dropTable(name);
    return created(name, columns, partitions, properties);
  }

  private StagedTable created(Identifier name, Column[] columns, Transform[] partitions, Map properties) throws NoSuchNamespaceException {
    try {
      return new Unstaged(this, name, foreign(name, columns, partitions, properties));
    } catch (TableAlreadyExistsException error) {
      throw new IllegalStateException(error);
    }
  }
}
