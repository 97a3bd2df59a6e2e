package delta;

import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The catalog {@code delta}, which Spark loads by its class name: delta.`/data/t` is the table at a path. Any other name in it belongs to
 * the database {@code delta} of the session's catalog, and is passed on to {@link SessionCatalog}. Python: {@code catalog.path_exists},
 * {@code alter_table.alter}, {@code guard.refuse_path}.
 */
public class Catalog implements StagingTableCatalog, SupportsNamespaces {
  private String name;

  public void initialize(String name, CaseInsensitiveStringMap options) { this.name = name; }
  public String name() { return name; }
  public Set capabilities() { return SessionCatalog.COLUMNS; }

  private static boolean isPath(Identifier table) { return Names.isPath(table.namespace(), table.name()); }

  /** The session's catalog, which has the tables with names. */
  private static SessionCatalog names() {
    org.apache.spark.sql.classic.SparkSession session = (org.apache.spark.sql.classic.SparkSession) SparkSession.active();
    return (SessionCatalog) session.sessionState().catalogManager().catalog("spark_catalog");
  }

  private static String[] inDatabase(String[] namespace) {
    String[] longer = new String[namespace.length + 1];
    longer[0] = Names.DELTA;
    System.arraycopy(namespace, 0, longer, 1, namespace.length);
    return longer;
  }

  private static Identifier inDatabase(Identifier table) { return Identifier.of(inDatabase(table.namespace()), table.name()); }

  // tables by path; each method passes other names on

  private static Table load(Identifier table, String at) { return Entry.of(table.name(), at).ofPath(table.name()); }

  /** If a query names a path without a table, this raises tahoe's error: after NoSuchTableException Spark would read files at the path. */
  public Table loadTable(Identifier table) throws NoSuchTableException {
    if (!isPath(table)) return names().loadTable(inDatabase(table));
    if (SessionCatalog.isForQuery()) return load(table, "");
    if (!tableExists(table)) throw new NoSuchTableException(table);
    return SessionCatalog.defined(load(table, ""));
  }

  public Table loadTable(Identifier table, String version) throws NoSuchTableException {
    return isPath(table) ? load(table, "version " + version) : names().loadTable(inDatabase(table), version);
  }

  public Table loadTable(Identifier table, long micros) throws NoSuchTableException {
    return isPath(table) ? load(table, "timestamp " + micros) : names().loadTable(inDatabase(table), micros);
  }

  public Table loadTable(Identifier table, Set privileges) throws NoSuchTableException {
    if (!isPath(table)) return names().loadTable(inDatabase(table), privileges);
    if (!SessionCatalog.isForQuery() && !tableExists(table)) throw new NoSuchTableException(table);
    return SessionCatalog.writable(load(table, "newest"));
  }

  public boolean tableExists(Identifier table) {
    if (!isPath(table)) return names().tableExists(inDatabase(table));
    return !SessionCatalog.isForSink() && ((Boolean) Ask.answer(Ask.python.exists(SparkSession.active(), table.name()))).booleanValue();
  }

  private static Staged stage(String mode, Identifier table, Staged.Described described) {
    return new Staged(mode, null, table.name(), table, described);
  }

  private static Table create(Identifier table, Staged.Described described) throws TableAlreadyExistsException {
    SessionCatalog.create(stage("create", table, described));
    return load(table, "");
  }

  public Table createTable(Identifier table, Column[] columns, Transform[] partitions, Map properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    if (!isPath(table)) return names().createTable(inDatabase(table), columns, partitions, properties);
    return create(table, Staged.Described.of(table, columns, partitions, properties));
  }

  public StagedTable stageCreate(Identifier table, Column[] columns, Transform[] partitions, Map properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    if (!isPath(table)) return names().stageCreate(inDatabase(table), columns, partitions, properties);
    return stage(SessionCatalog.creation(), table, Staged.Described.of(table, columns, partitions, properties));
  }

  public StagedTable stageReplace(Identifier table, Column[] columns, Transform[] partitions, Map properties)
      throws NoSuchTableException, NoSuchNamespaceException {
    if (!isPath(table)) return names().stageReplace(inDatabase(table), columns, partitions, properties);
    return stage("replace", table, Staged.Described.of(table, columns, partitions, properties));
  }

  public StagedTable stageCreateOrReplace(Identifier table, Column[] columns, Transform[] partitions, Map properties)
      throws NoSuchNamespaceException {
    if (!isPath(table)) return names().stageCreateOrReplace(inDatabase(table), columns, partitions, properties);
    return stage("create or replace", table, Staged.Described.of(table, columns, partitions, properties));
  }

  public Table createTable(Identifier table, TableInfo info) throws TableAlreadyExistsException, NoSuchNamespaceException {
    if (!isPath(table)) return names().createTable(inDatabase(table), info);
    return create(table, Staged.Described.of(table, info));
  }

  public StagedTable stageCreate(Identifier table, TableInfo info) throws TableAlreadyExistsException, NoSuchNamespaceException {
    if (!isPath(table)) return names().stageCreate(inDatabase(table), info);
    return stage(SessionCatalog.creation(), table, Staged.Described.of(table, info));
  }

  public StagedTable stageReplace(Identifier table, TableInfo info) throws NoSuchTableException, NoSuchNamespaceException {
    if (!isPath(table)) return names().stageReplace(inDatabase(table), info);
    return stage("replace", table, Staged.Described.of(table, info));
  }

  public StagedTable stageCreateOrReplace(Identifier table, TableInfo info) throws NoSuchNamespaceException {
    if (!isPath(table)) return names().stageCreateOrReplace(inDatabase(table), info);
    return stage("create or replace", table, Staged.Described.of(table, info));
  }

  public Table alterTable(Identifier table, TableChange[] changes) throws NoSuchTableException {
    if (!isPath(table)) return names().alterTable(inDatabase(table), changes);
    if (!tableExists(table)) throw new NoSuchTableException(table);
    Ask.answer(Ask.python.alter(SparkSession.active(), SessionCatalog.defined(load(table, "")), changes));
    return load(table, "");
  }

  public boolean dropTable(Identifier table) {
    if (isPath(table)) Ask.answer(Ask.python.refusesPath("drop", table.name()));
    return names().dropTable(inDatabase(table));
  }

  public void renameTable(Identifier from, Identifier to) throws NoSuchTableException, TableAlreadyExistsException {
    if (isPath(from)) Ask.answer(Ask.python.refusesPath("rename", from.name()));
    names().renameTable(inDatabase(from), inDatabase(to));
  }

  // namespaces and listings: the database delta

  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    Identifier[] found = names().listTables(inDatabase(namespace));
    for (int i = 0; i < found.length; i++) found[i] = Identifier.of(namespace, found[i].name());
    return found;
  }

  public String[][] listNamespaces() { return new String[0][]; }
  public String[][] listNamespaces(String[] namespace) { return new String[0][]; }
  public boolean namespaceExists(String[] namespace) { return names().namespaceExists(inDatabase(namespace)); }

  public Map loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
    return names().loadNamespaceMetadata(inDatabase(namespace));
  }

  public void createNamespace(String[] namespace, Map metadata) throws NamespaceAlreadyExistsException {
    names().createNamespace(inDatabase(namespace), metadata);
  }

  public void alterNamespace(String[] namespace, NamespaceChange[] changes) throws NoSuchNamespaceException {
    names().alterNamespace(inDatabase(namespace), changes);
  }

  public boolean dropNamespace(String[] namespace, boolean cascade) throws NoSuchNamespaceException, NonEmptyNamespaceException {
    return names().dropNamespace(inDatabase(namespace), cascade);
  }
}
