package delta;

import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.QualifiedTableName;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Builds the {@link V1Table} that a catalog returns for a name or a path, with schema and partitioning from the log. It is Java because it
 * assembles Spark's catalog classes in one call. Python: {@code catalog.entry}.
 */
public class Entry {
  private static final String CATALOG = "spark_catalog";

  /** Per thread: the relations that {@link #take} has removed from Spark's cache, by the url of their table. */
  private static final ThreadLocal TAKEN = new ThreadLocal();

  private final String url;
  private final StructType schema;
  private final Seq partitions;
  private final long version;
  private final String metadata;
  private final String asked;
  private final String analyzed;

  /**
   * @param schema as JSON
   * @param partitions the names of the partition columns, separated by NUL
   * @param metadata identifies schema, partitioning and column mapping ({@code table_cache.metadata_identity})
   * @param asked the version or the tag that the user asked for, by a timestamp too; empty for the newest version
   * @param analyzed the property of a catalog's table that holds the version for which its statistics were computed
   */
  public Entry(String url, String schema, String partitions, long version, String metadata, String asked, String analyzed) {
    this.url = url;
    this.schema = (StructType) DataType.fromJson(schema);
    List names = partitions.isEmpty() ? Collections.emptyList() : Arrays.asList(partitions.split("\u0000"));
    this.partitions = CollectionConverters.asScala(names).toSeq();
    this.version = version;
    this.metadata = metadata;
    this.asked = asked;
    this.analyzed = analyzed;
  }

  /** The entry of the table at a location. {@code at} is as in {@link Python#entry}. */
  static Entry of(String location, String at) { return (Entry) Ask.answer(Ask.python.entry(SparkSession.active(), location, at)); }

  /** The table for delta.`path`. */
  Table ofPath(String path) { return named(path, Names.DELTA, CATALOG, CatalogTableType.EXTERNAL()); }

  /** The table for a name in an {@link AttachedCatalog}. */
  Table ofAttached(String catalog, Identifier table) {
    return named(table.name(), table.namespace()[0], catalog, CatalogTableType.MANAGED());
  }

  private Table named(String table, String database, String catalog, CatalogTableType type) {
    TableIdentifier name = new TableIdentifier(table, Option.apply(database), Option.apply(isPinned() ? pinned(catalog) : catalog));
    HashMap storage = new HashMap();
    storage.put("locationUri", Option.apply(new Path(url).toUri()));
    storage.put("properties", options(CatalogStorageFormat.empty()));
    Object format = Cases.changed(CatalogStorageFormat.empty(), storage);
    List first = Arrays.asList(new Object[] {name, type, format, schema, Option.apply(Names.DELTA), partitions});
    take(name);
    return new V1Table((CatalogTable) Cases.built("org.apache.spark.sql.catalyst.catalog.CatalogTable", first));
  }

  /** The table for an entry of the session's catalog. Drops the entry's statistics if they are of another version. */
  Table ofName(CatalogTable table) {
    HashMap fields = new HashMap();
    fields.put("schema", schema);
    fields.put("partitionColumnNames", partitions);
    fields.put("tracksPartitionsInCatalog", Boolean.FALSE);
    if (isPinned()) {
      fields.put("storage", Cases.changed(table.storage(), Collections.singletonMap("properties", options(table.storage()))));
      Object catalog = Option.apply(pinned(CATALOG));
      fields.put("identifier", Cases.changed(table.identifier(), Collections.singletonMap("catalog", catalog)));
    }
    boolean isOfNow = table.properties().get(analyzed).contains(Long.toString(version));
    if (table.stats().isDefined() && !isOfNow) fields.put("stats", Option.empty());
    take(table.identifier());
    return new V1Table((CatalogTable) Cases.changed(table, fields));
  }

  private boolean isPinned() { return !asked.isEmpty(); }

  /** A catalog name for a pinned version. Spark caches relations by full name, and users do not see the catalog's part of it. */
  private String pinned(String catalog) { return catalog + "@v" + version; }

  /** The options of the relation. Time travel, by timestamp too, is the option versionAsOf. Spark wants it as a reader has given it. */
  private Map options(CatalogStorageFormat storage) {
    return isPinned() ? (Map) storage.properties().updated("versionAsOf", asked) : storage.properties();
  }

  /**
   * Removes the relation of a name from Spark's cache, which ignores options: a read of the change data feed would get the table's rows. If
   * it is of this version, {@link #taken} returns it for a read with the same options.
   */
  private void take(TableIdentifier name) {
    SessionCatalog catalog = ((org.apache.spark.sql.classic.SparkSession) SparkSession.active()).sessionState().catalog();
    boolean isFull = name.catalog().isDefined() && name.database().isDefined();
    TableIdentifier full = isFull ? name : catalog.qualifyIdentifier(name); // which would put the letters of a path in lower case
    QualifiedTableName key = new QualifiedTableName((String) full.catalog().get(), (String) full.database().get(), full.table());
    LogicalPlan kept = catalog.getCachedTable(key);
    if (TAKEN.get() == null) TAKEN.set(new HashMap());
    HashMap taken = (HashMap) TAKEN.get();
    taken.remove(url);
    if (kept == null) return;
    catalog.invalidateCachedTable(key);
    Files files = Files.of(kept);
    boolean isNewest = files != null && files.version() == version && files.metadata().equals(metadata);
    if (isNewest) taken.put(url, ((LogicalRelation) kept).relation());
  }

  /** A relation with these options that {@link #take} has removed from Spark's cache in this thread; null if there is none. */
  static HadoopFsRelation taken(Map options) {
    if (TAKEN.get() == null) return null;
    for (Iterator it = ((HashMap) TAKEN.get()).values().iterator(); it.hasNext(); ) {
      HadoopFsRelation relation = (HadoopFsRelation) it.next();
      if (!relation.options().equals(options)) continue;
      it.remove();
      return relation;
    }
    return null;
  }
}
