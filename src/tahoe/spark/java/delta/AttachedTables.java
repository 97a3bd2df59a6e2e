package delta;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The schemas and tables of {@link AttachedCatalog}. Python: {@code jvm.attached_catalogs}, {@code alter_table.alter}. */
abstract class AttachedTables implements StagingTableCatalog, SupportsNamespaces {
  private static final String STATEMENT = "the statement";

  String name;

  public void initialize(String name, CaseInsensitiveStringMap options) { this.name = name; }
  public String name() { return name; }
  public Set capabilities() { return SessionCatalog.COLUMNS; }

  /** A namespace as Python has it: the catalog's schemas have one part. */
  static String joined(String[] parts) { return String.join(".", parts); }

  static String[] split(Object names) { return names.toString().isEmpty() ? new String[0] : names.toString().split("\u0000"); }

  // tables

  /** The folder of a table; null if there is none. */
  String url(Identifier table) {
    return (String) Ask.answer(Ask.python.attachedTable(SparkSession.active(), name, joined(table.namespace()), table.name()));
  }

  /** Called for a name that no table has. {@code operation} needs one. */
  void missing(Identifier table, String operation) { }

  /** Null if there is none. */
  private Table find(Identifier table, String at) {
    String url = url(table);
    return url == null ? null : Entry.of(url, at).ofAttached(name, table);
  }

  private Table load(Identifier table, String at, String operation) throws NoSuchTableException {
    Table found = find(table, at);
    if (found == null) {
      missing(table, operation);
      throw new NoSuchTableException(table);
    }
    return found;
  }

  /** A table as the statement needs it that Spark runs; null if there is none. */
  Table asked(Identifier table) {
    Table found = find(table, "");
    return found == null || SessionCatalog.isForQuery() ? found : (Table) SessionCatalog.defined(found);
  }

  public Table loadTable(Identifier table) throws NoSuchTableException {
    Table found = asked(table);
    return found == null ? load(table, "", STATEMENT) : found;
  }

  public Table loadTable(Identifier table, String version) throws NoSuchTableException {
    return load(table, "version " + version, "time travel");
  }

  public Table loadTable(Identifier table, long micros) throws NoSuchTableException {
    return load(table, "timestamp " + micros, "time travel");
  }

  /** @param privileges what the statement does, such as INSERT */
  public Table loadTable(Identifier table, Set privileges) throws NoSuchTableException {
    String all = new TreeSet(privileges).toString();
    return SessionCatalog.writable(load(table, "newest", all.substring(1, all.length() - 1)));
  }

  public boolean tableExists(Identifier table) { return !SessionCatalog.isForSink() && url(table) != null; }

  private StagedTable stage(String mode, Identifier table, Staged.Described described) {
    return new Staged(mode, name, null, table, described);
  }

  private Table create(Identifier table, Staged.Described described) throws TableAlreadyExistsException {
    String mode = SessionCatalog.isForPipeline() ? "create in a pipeline" : "create";
    if (!SessionCatalog.isForSink() || url(table) == null) SessionCatalog.create((Staged) stage(mode, table, described));
    try {
      return loadTable(table);
    } catch (NoSuchTableException error) {
      throw new IllegalStateException(error);
    }
  }

  public Table createTable(Identifier table, TableInfo info) throws TableAlreadyExistsException {
    return create(table, Staged.Described.of(table, info));
  }

  public Table createTable(Identifier table, Column[] columns, Transform[] partitions, Map properties) throws TableAlreadyExistsException {
    return create(table, Staged.Described.of(table, columns, partitions, properties));
  }

  public StagedTable stageCreate(Identifier table, TableInfo info) { return stage(SessionCatalog.creation(), table, Staged.Described.of(table, info)); }
  public StagedTable stageReplace(Identifier table, TableInfo info) { return stage("replace", table, Staged.Described.of(table, info)); }

  public StagedTable stageCreateOrReplace(Identifier table, TableInfo info) {
    return stage("create or replace", table, Staged.Described.of(table, info));
  }

  public StagedTable stageCreate(Identifier table, Column[] columns, Transform[] partitions, Map properties) {
    return stage(SessionCatalog.creation(), table, Staged.Described.of(table, columns, partitions, properties));
  }

  public StagedTable stageReplace(Identifier table, Column[] columns, Transform[] partitions, Map properties) {
    return stage("replace", table, Staged.Described.of(table, columns, partitions, properties));
  }

  public StagedTable stageCreateOrReplace(Identifier table, Column[] columns, Transform[] partitions, Map properties) {
    return stage("create or replace", table, Staged.Described.of(table, columns, partitions, properties));
  }

  public Table alterTable(Identifier table, TableChange[] changes) throws NoSuchTableException {
    Ask.answer(Ask.python.alter(SparkSession.active(), SessionCatalog.defined(load(table, "", STATEMENT)), changes));
    return loadTable(table);
  }

  public boolean dropTable(Identifier table) {
    if (url(table) == null) return false;
    Ask.answer(Ask.python.dropAttached(SparkSession.active(), name, joined(table.namespace()), table.name()));
    return true;
  }

  public void renameTable(Identifier from, Identifier given) throws NoSuchTableException, TableAlreadyExistsException {
    Identifier to = within(given);
    if (url(from) == null) throw new NoSuchTableException(from);
    if (url(to) != null) throw new TableAlreadyExistsException(to);
    rename(from, to);
  }

  /** A new name may begin with that of the catalog, as the old one does. */
  Identifier within(Identifier given) {
    String[] namespace = given.namespace();
    boolean isFull = namespace.length == 2 && namespace[0].equals(name);
    return isFull ? Identifier.of(new String[] {namespace[1]}, given.name()) : given;
  }

  void rename(Identifier from, Identifier to) {
    Ask.answer(Ask.python.renameAttached(
        SparkSession.active(), name, joined(from.namespace()), from.name(), joined(to.namespace()), to.name()));
  }

  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    if (!namespaceExists(namespace)) throw new NoSuchNamespaceException(namespace);
    return identifiers(namespace, Ask.python.attachedTables(SparkSession.active(), name, joined(namespace)));
  }

  static Identifier[] identifiers(String[] namespace, Object answer) {
    String[] names = split(Ask.answer(answer));
    Identifier[] found = new Identifier[names.length];
    for (int i = 0; i < names.length; i++) found[i] = Identifier.of(namespace, names[i]);
    return found;
  }

  // schemas

  public String[][] listNamespaces() {
    String[] names = split(Ask.answer(Ask.python.attachedSchemas(SparkSession.active(), name)));
    String[][] found = new String[names.length][];
    for (int i = 0; i < names.length; i++) found[i] = new String[] {names[i]};
    return found;
  }

  public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
    if (namespace.length == 0) return listNamespaces();
    if (!namespaceExists(namespace)) throw new NoSuchNamespaceException(namespace);
    return new String[0][];
  }

  public boolean namespaceExists(String[] namespace) {
    if (namespace.length != 1) return false;
    String[][] found = listNamespaces();
    for (int i = 0; i < found.length; i++) if (found[i][0].equalsIgnoreCase(namespace[0])) return true;
    return false;
  }

  public Map loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
    if (!namespaceExists(namespace)) throw new NoSuchNamespaceException(namespace);
    return new HashMap();
  }

  public void createNamespace(String[] namespace, Map metadata) throws NamespaceAlreadyExistsException {
    if (namespaceExists(namespace)) throw new NamespaceAlreadyExistsException(namespace);
    String comment = (String) metadata.get(SupportsNamespaces.PROP_COMMENT);
    Ask.answer(Ask.python.createSchema(SparkSession.active(), name, joined(namespace), comment));
  }

  public void alterNamespace(String[] namespace, NamespaceChange[] changes) {
    throw new UnsupportedOperationException("ALTER SCHEMA is not supported in the catalog " + name);
  }

  public boolean dropNamespace(String[] namespace, boolean cascade) {
    if (!namespaceExists(namespace)) return false;
    Ask.answer(Ask.python.dropSchema(SparkSession.active(), name, joined(namespace), cascade));
    return true;
  }
}
