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

/** What the log says of a table, by way of Python, and so what a catalog answers for its name or its path. */
public class Entry {
  private static final String CATALOG = "spark_catalog";

  /** Of each thread, by the tables' urls. */
  private static final ThreadLocal TAKEN = new ThreadLocal();

  private final String url;
  private final StructType schema;
  private final Seq partitions;
  private final long version;
  private final String metadata;
  private final boolean pinned;
  private final String analyzed;

  /**
   * @param schema as JSON
   * @param partitions the partition columns, joined by zero characters
   * @param metadata identifies schema, partitioning and column mapping
   * @param pinned whether the version was asked for
   * @param analyzed the property of a catalog's entry that tells the version of which its statistics were made
   */
  public Entry(String url, String schema, String partitions, long version, String metadata, boolean pinned, String analyzed) {
    this.url = url;
    this.schema = (StructType) DataType.fromJson(schema);
    List names = partitions.isEmpty() ? Collections.emptyList() : Arrays.asList(partitions.split("\u0000"));
    this.partitions = CollectionConverters.asScala(names).toSeq();
    this.version = version;
    this.metadata = metadata;
    this.pinned = pinned;
    this.analyzed = analyzed;
  }

  static Entry of(String location, String at) { return (Entry) Ask.answer(Ask.python.entry(SparkSession.active(), location, at)); }

  Table ofPath(String path) {
    TableIdentifier name = new TableIdentifier(path, Option.apply(Names.DELTA), Option.apply(pinned ? pinnedCatalog() : CATALOG));
    HashMap storage = new HashMap();
    storage.put("locationUri", Option.apply(new Path(url).toUri()));
    storage.put("properties", options(CatalogStorageFormat.empty()));
    Object format = Cases.changed(CatalogStorageFormat.empty(), storage);
    List first = Arrays.asList(new Object[] {name, CatalogTableType.EXTERNAL(), format, schema, Option.apply(Names.DELTA), partitions});
    take(name);
    return new V1Table((CatalogTable) Cases.built("org.apache.spark.sql.catalyst.catalog.CatalogTable", first));
  }

  Table ofName(CatalogTable table) {
    HashMap fields = new HashMap();
    fields.put("schema", schema);
    fields.put("partitionColumnNames", partitions);
    fields.put("tracksPartitionsInCatalog", Boolean.FALSE);
    if (pinned) {
      fields.put("storage", Cases.changed(table.storage(), Collections.singletonMap("properties", options(table.storage()))));
      Object catalog = Option.apply(pinnedCatalog());
      fields.put("identifier", Cases.changed(table.identifier(), Collections.singletonMap("catalog", catalog)));
    }
    boolean isOfNow = table.properties().get(analyzed).contains(Long.toString(version));
    if (table.stats().isDefined() && !isOfNow) fields.put("stats", Option.empty());
    take(table.identifier());
    return new V1Table((CatalogTable) Cases.changed(table, fields));
  }

  /** Spark keeps a relation by the table's full name, so that the name of a version must be its own; only its first part is not seen. */
  private String pinnedCatalog() { return CATALOG + "@v" + version; }

  /** The options that the relation is made with. A moment has become the version it stands for. */
  private Map options(CatalogStorageFormat storage) {
    return pinned ? (Map) storage.properties().updated("versionAsOf", Long.toString(version)) : storage.properties();
  }

  /**
   * Spark keeps the relation of a name, and gives it to whoever reads that name next, with whatever options: one that asks for the change feed
   * would get the table's rows. So it is taken away, and is used again where {@link DefaultSource} is asked for just that.
   */
  private void take(TableIdentifier name) {
    SessionCatalog catalog = ((org.apache.spark.sql.classic.SparkSession) SparkSession.active()).sessionState().catalog();
    TableIdentifier full = catalog.qualifyIdentifier(name);
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

  /** The relation of a table that was just found in a catalog, if Spark had one with the same options; null if not. */
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
