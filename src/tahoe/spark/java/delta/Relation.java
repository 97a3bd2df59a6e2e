package delta;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Product;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;

/**
 * The relation of a Delta table or of a scan of one, over a {@link Files}. It is Java because Spark's file scan needs a
 * {@link HadoopFsRelation}. The options are those that Spark passed: if a cached relation has others than the catalog's table, Spark copies
 * it to a plain HadoopFsRelation. Python: {@code commands.insert}.
 */
public class Relation extends HadoopFsRelation implements InsertableRelation {
  public Relation(Files files, StructType data, FileFormat format, Map options, SparkSession session) {
    super(files, files.partitionSchema(), data, Option.empty(), format, options, session);
  }

  /**
   * The relation with these {@link Files}; called by {@code reading.scan}.
   *
   * @param partitions the partition columns, as a schema's JSON
   * @param data the other columns, as a schema's JSON
   * @param format null for {@link Parquet}
   * @param options null for none
   */
  public static Relation of(
      SparkSession session, String key, String metadata, long version, boolean pinned, String selection, String within,
      String partitions, long bytes, String label, String data, FileFormat format, Map options) {
    StructType columns = (StructType) DataType.fromJson(partitions);
    Files files = new Files(key, metadata, version, pinned, selection, within, columns, bytes, label);
    FileFormat chosen = format == null ? new Parquet() : format;
    Map given = options == null ? Map$.MODULE$.empty() : options;
    return new Relation(files, (StructType) DataType.fromJson(data), chosen, given, session);
  }

  /** The relation of a change data feed, with the schema {@code data} (JSON). The format is a placeholder: {@link Rewrite} replaces it. */
  public static Relation ofChanges(SparkSession session, Changes changes, String data, Map options) {
    return new Relation(changes, (StructType) DataType.fromJson(data), new ParquetFileFormat(), options, session);
  }

  /** A read of a Delta table with other {@link Files}, such as those of another version. */
  static LogicalRelation with(LogicalRelation leaf, Files files) {
    HadoopFsRelation given = (HadoopFsRelation) leaf.relation();
    Relation relation = new Relation(files, given.dataSchema(), given.fileFormat(), given.options(), given.sparkSession());
    return leaf.copy(relation, leaf.output(), leaf.catalogTable(), leaf.isStreaming(), leaf.stream());
  }

  /** A plan that scans these files. Spark's plans and UI show the label of the files in place of a table name. */
  public LogicalRelation scan() {
    return LogicalRelation$.MODULE$.apply(this, (CatalogTable) labelled(Option.empty(), ((Files) location()).label()).get());
  }

  /** A plan that reads all rows as a user's query does: {@link Rewrite} plans it. {@code streams}: as a batch of a stream. */
  public LogicalRelation leaf(boolean streams) { return LogicalRelation$.MODULE$.apply(this, streams); }

  /** The table of a catalog with a label as its name; for a relation without one, an otherwise empty table with that name. */
  static Option labelled(Option table, String label) {
    List fields = Arrays.asList(new TableIdentifier(label), CatalogTableType.EXTERNAL(), CatalogStorageFormat.empty(), new StructType());
    if (table.isEmpty()) return Option.apply(Cases.built("org.apache.spark.sql.catalyst.catalog.CatalogTable", fields));
    return Option.apply(Cases.changed((Product) table.get(), Collections.singletonMap("identifier", new TableIdentifier(label))));
  }

  /** INSERT INTO a temporary view over the table; other inserts are commands on a {@link WriteTable}. */
  public void insert(Dataset data, boolean overwrite) {
    Files files = (Files) location();
    Ask.answer(Ask.python.insert(sparkSession(), files.table(), files.selection(), data, overwrite));
  }
}
