package delta;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.plans.logical.CreateTableAsSelect;
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
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.unsafe.Platform;

/** The session's own catalog. For a Delta table it answers with the schema of the log, past versions, and tables that tahoe writes. */
public class SessionCatalog extends DelegatingCatalogExtension implements StagingTableCatalog {
  /** What the columns of a Delta table may be declared with. */
  static final Set COLUMNS = new HashSet(Arrays.asList(new TableCatalogCapability[] {
      TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE, TableCatalogCapability.SUPPORTS_CREATE_TABLE_WITH_GENERATED_COLUMNS,
      TableCatalogCapability.SUPPORTS_CREATE_TABLE_WITH_IDENTITY_COLUMNS, TableCatalogCapability.SUPPORT_TABLE_CONSTRAINT }));

  public Set capabilities() {
    Set all = new HashSet(super.capabilities());
    all.addAll(COLUMNS);
    return all;
  }

  private static boolean isOurs(Map properties) { return Names.isDelta((String) properties.get("provider")); }

  /** A statement without USING makes a table of the session's default source. */
  private static boolean willBeOurs(Staged.Described table) {
    String provider = (String) table.properties().get("provider");
    return Names.isDelta(provider == null ? SQLConf.get().defaultDataSourceName() : provider);
  }

  private static boolean isOurs(Table table) { return table instanceof V1Table && isOurs(table.properties()); }

  // existing tables

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

  /** Whether Spark loads the table for a query. Other statements ask for its definition, or whether it exists. */
  static boolean isForQuery() { return isCalledBy(".RelationResolution"); }

  /** Whether a query of {@code toTable} is about to make its table, as it has found none. It writes into a table that it finds. */
  static boolean isForSink() { return isCalledBy(".CreateTableExec") && isCalledBy(".DataStreamWriter"); }

  /** Whether an update of a declarative pipeline makes a table that the catalog does not have. */
  static boolean isForPipeline() { return isCalledBy("sql.pipelines.graph.DatasetManager$"); }

  /** Whether {@code spark.catalog.listPartitions} asks for partitions, which expects each as one text. */
  static boolean isForCatalog() { return isCalledBy("spark.sql.classic.Catalog"); }

  /** The mode of a statement that creates a table with its rows. Only the plan that Spark runs tells of IF NOT EXISTS. */
  static String creation() {
    String execution = SparkSession.active().sparkContext().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    QueryExecution running = execution == null ? null : SQLExecution.getQueryExecution(Long.parseLong(execution));
    Object plan = running == null ? null : running.logical();
    return plan instanceof CreateTableAsSelect && ((CreateTableAsSelect) plan).ignoreIfExists() ? "create if not exists" : "create";
  }

  /** Spark passes the same arguments for queries, streams and other statements; only the call stack shows the difference. */
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

  public Table loadTable(Identifier name, String version) throws NoSuchTableException {
    Table table = super.loadTable(name);
    return isOurs(table) ? at(table, "version " + version) : super.loadTable(name, version);
  }

  public Table loadTable(Identifier name, long micros) throws NoSuchTableException {
    Table table = super.loadTable(name);
    return isOurs(table) ? at(table, "timestamp " + micros) : super.loadTable(name, micros);
  }

  public Table loadTable(Identifier name, Set privileges) throws NoSuchTableException {
    Table table = super.loadTable(name);  // without the privileges, because Janino miscompiles calls of an interface's default methods
    return isOurs(table) ? writable(at(table, "")) : table;
  }

  /** A query whose table has appeared since it looked goes on as if it had come later; Spark would refuse it. */
  public boolean tableExists(Identifier name) { return !isForSink() && super.tableExists(name); }

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

  // new tables; Spark calls the methods with a TableInfo, and other programs may call the older ones

  public Table createTable(Identifier name, TableInfo info) throws TableAlreadyExistsException, NoSuchNamespaceException {
    return create(name, Staged.Described.of(name, info));
  }

  public Table createTable(Identifier name, Column[] columns, Transform[] partitions, Map properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return create(name, Staged.Described.of(name, columns, partitions, properties));
  }

  private Table create(Identifier name, Staged.Described table) throws TableAlreadyExistsException, NoSuchNamespaceException {
    if (!willBeOurs(table)) return foreign(name, table);
    if (!isForSink() || !super.tableExists(name)) create(staged(isForPipeline() ? "create in a pipeline" : "create", name, table));
    try {
      return loadTable(name);
    } catch (NoSuchTableException error) {
      throw new IllegalStateException(error);
    }
  }

  /** Another session may have created the table since Spark looked. Spark knows this exception: IF NOT EXISTS ignores it. */
  static void create(Staged staged) throws TableAlreadyExistsException {
    try {
      staged.commitStagedChanges();
    } catch (Throwable thrown) {
      PythonError error = PythonError.behind(thrown);
      if (error == null || !"DELTA_TABLE_ALREADY_EXISTS".equals(error.getCondition())) Platform.throwException(thrown);
      if (!isForSink()) throw new TableAlreadyExistsException(staged.identifier());
    }
  }

  public StagedTable stageCreate(Identifier name, TableInfo info) throws TableAlreadyExistsException, NoSuchNamespaceException {
    return stageCreate(name, Staged.Described.of(name, info));
  }

  public StagedTable stageCreate(Identifier name, Column[] columns, Transform[] partitions, Map properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return stageCreate(name, Staged.Described.of(name, columns, partitions, properties));
  }

  private StagedTable stageCreate(Identifier name, Staged.Described table) throws TableAlreadyExistsException, NoSuchNamespaceException {
    return willBeOurs(table) ? (StagedTable) staged(creation(), name, table) : new Unstaged(this, name, foreign(name, table));
  }

  public StagedTable stageReplace(Identifier name, TableInfo info) throws NoSuchTableException, NoSuchNamespaceException {
    return stageReplace("replace", name, Staged.Described.of(name, info));
  }

  public StagedTable stageReplace(Identifier name, Column[] columns, Transform[] partitions, Map properties)
      throws NoSuchTableException, NoSuchNamespaceException {
    return stageReplace("replace", name, Staged.Described.of(name, columns, partitions, properties));
  }

  public StagedTable stageCreateOrReplace(Identifier name, TableInfo info) throws NoSuchNamespaceException {
    return stageReplace("create or replace", name, Staged.Described.of(name, info));
  }

  public StagedTable stageCreateOrReplace(Identifier name, Column[] columns, Transform[] partitions, Map properties)
      throws NoSuchNamespaceException {
    return stageReplace("create or replace", name, Staged.Described.of(name, columns, partitions, properties));
  }

  private StagedTable stageReplace(String mode, Identifier name, Staged.Described table) throws NoSuchNamespaceException {
    if (willBeOurs(table)) return staged(mode, name, table);
    checkForeign(name, table);
    super.dropTable(name);
    try {
      return new Unstaged(this, name, foreign(name, table));
    } catch (TableAlreadyExistsException error) {
      throw new IllegalStateException(error);
    }
  }

  private static Staged staged(String mode, Identifier name, Staged.Described table) {
    return new Staged(mode, null, null, name, table);
  }

  // tables of other formats

  private Table foreign(Identifier name, Staged.Described table) throws TableAlreadyExistsException, NoSuchNamespaceException {
    checkForeign(name, table);
    return super.createTable(name, table.columns(), table.partitioning(), table.properties());
  }

  /** Spark asks the catalog for its capabilities, which are those of Delta tables. Tables of other formats do not have them. */
  private void checkForeign(Identifier name, Staged.Described table) {
    if (table.declaredConstraints().length > 0) throw unsupported(name, "table constraint");
    Column[] computed = table.computedColumns();
    if (computed.length > 0) throw unsupported(name, computed[0].generationExpression() != null ? "generated columns" : "identity column");
  }

  private RuntimeException unsupported(Identifier name, String what) {
    String[] namespace = name.namespace();
    String prefix = namespace.length == 0 ? "" : String.join(".", namespace) + ".";
    return new UnsupportedOperationException("Table " + name() + "." + prefix + name.name() + " does not support " + what);
  }
}
